"""Write a comparison: one Markdown file and one figure."""

from pathlib import Path

from headcount.compare.comparison import Comparison, compare
from headcount.compare.document import document
from headcount.compare.figure import side_by_side
from headcount.files import write_text
from headcount.reports.figure_style import FORMATS, save, styled
from headcount.reports.read import read_run


def write_comparison(one: Path, other: Path, out: Path) -> Comparison:
    """Compare the runs in two folders; write `comparison.md` and `comparison.svg`, `.png`, `.pdf`.

    Raises:
        InputError: if a folder holds no run, or the runs are not over the same heads.
    """
    runs = (read_run(one), read_run(other))
    found = compare(*runs)
    names = (one.resolve().name, other.resolve().name)
    names = names if names[0] != names[1] else (str(one), str(other))
    out.mkdir(parents=True, exist_ok=True)
    with styled():
        figure = side_by_side(*runs, names)
        for kind in FORMATS:
            save(figure, out / f"comparison.{kind}")
    text = document(found, names) + "\n![roles side by side](comparison.svg)\n"
    write_text(out / "comparison.md", text)
    return found
