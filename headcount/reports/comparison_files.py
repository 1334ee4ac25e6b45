"""Files of a comparison: a page, a document and, of runs over the same heads, a figure."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headcount.core import InputError, write_readable
from headcount.reports.comparison import Comparison, compare
from headcount.reports.documents.comparison import comparison_document
from headcount.reports.matching import match_heads
from headcount.reports.page import html
from headcount.reports.page.assets import fill_template
from headcount.reports.page.compare_view import ComparisonView, compare_view
from headcount.results import Matching, read_run
from headcount.vocabulary import ROLES

STYLES = (*html.STYLES, "compare.css")
SCRIPTS = ("elements.js", "rove.js", "table.js", "download.js", "compare.js")


def write_comparison(one: Path, other: Path, out: Path, match: bool = False) -> Comparison:
    """Compare the runs in two folders, and write the page, the document and the figure.

    The files are `comparison.html` and `comparison.md`; of runs over the same heads also
    `comparison.svg`, `.png` and `.pdf`; of matched heads `matching.json`.

    Args:
        one: folder of the first run.
        other: folder of the second run.
        out: folder for the comparison.
        match: whether to pair heads by what they do, for models trained apart.

    Raises:
        InputError: if a folder holds no run, or the output folder holds a run, whose files would be
            mixed with the comparison's; if runs were measured in different ways; or if heads
            can't be matched.
    """
    if (out / "run.json").exists():
        raise InputError(
            f"Expected a folder for the comparison, got {out}, which holds a run. "
            "Name another folder."
        )
    runs = (read_run(one), read_run(other))
    found = compare(*runs)
    names = _names(one, other)
    matching: Matching | None = match_heads(*runs, names) if match else None
    out.mkdir(parents=True, exist_ok=True)
    (out / Matching.FILE).unlink(missing_ok=True)
    if matching is not None:
        matching.write(out)
    found = replace(found, matching=matching)
    comparison_document(*runs, found, names).write(out / "comparison.md", figures=".")
    view = compare_view(*runs, found, names)
    write_readable(out / "comparison.html", render_comparison(view))
    return found


def _names(one: Path, other: Path) -> tuple[str, str]:
    """The names of two folders, with as many folders above them as it takes to distinguish them.

    >>> _names(Path("/runs/news"), Path("/runs/web")), _names(Path("/a/b/out"), Path("/a/c/out"))
    (('news', 'web'), ('b/out', 'c/out'))
    """
    first, second = one.resolve().parts, other.resolve().parts
    lengths = range(1, max(len(first), len(second)))
    differ = (number for number in lengths if first[-number:] != second[-number:])
    number = next(differ, 1)
    return "/".join(first[-number:]), "/".join(second[-number:])


def render_comparison(view: ComparisonView) -> str:
    """The page as a string."""
    return fill_template(
        "compare.html.j2",
        styles=STYLES,
        scripts=SCRIPTS,
        data=comparison_data(view),
        title=view.title,
        view=view,
        sections=view.sections,
        heads=frozenset(pair.head for pair in view.pairs),
        swatches=html.swatches(view.kinds.values(), ROLES.values()),
        names=[side.name for side in view.sides],
    )


def comparison_data(view: ComparisonView) -> dict[str, Any]:
    """The data for the scripts: names, kinds and what each head does in both runs."""
    return {
        "title": view.title,
        "names": [side.name for side in view.sides],
        "kinds": {
            kind.key: {"letter": kind.letter, "colour": kind.role.colour, "ink": kind.role.ink}
            for kind in view.kinds.values()
        },
        "pairs": {pair.head: asdict(pair) for pair in view.pairs},
    }
