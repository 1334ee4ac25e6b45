"""Results: the files a run leaves in its folder, each written whole or not at all."""

from pathlib import Path
from shutil import rmtree
from typing import Any

from headcount.analysis import Analysis
from headcount.errors import InputError
from headcount.files import write_json
from headcount.heads import HeadTable

FILES = (
    "heads.parquet", "relations.parquet", "offsets.parquet", "null_heads.parquet",
    "null_relations.parquet", "examples.json", "run.json", "report.html", "targets.txt",
)  # fmt: skip
"""Everything that a run may leave, besides `state/` and `figures/`."""

FOLDERS = ("state", "figures")


def claim(folder: Path, resume: bool = False, overwrite: bool = False) -> None:
    """See that a run may write into a folder; nothing is deleted before new results are there.

    Raises:
        InputError: if the folder holds something, and it is neither to be resumed nor overwritten.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"a folder for the results was expected, {folder} is a file: name another")
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = present - set(FILES) - set(FOLDERS)
    if foreign:
        raise InputError(
            f"{folder} holds files that are not headcount's ({', '.join(sorted(foreign)[:3])}): "
            "name a folder that is new or holds an earlier run"
        )
    if present and not (resume or overwrite):
        raise InputError(
            f"{folder} holds an earlier run: give --resume to go on with it, --overwrite to "
            f"replace "
            "it, or name another folder"
        )
    if overwrite and not resume:
        rmtree(folder / "state", ignore_errors=True)
        (folder / "targets.txt").unlink(missing_ok=True)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def write_results(
    analysis: Analysis, folder: str | Path, arguments: dict[str, Any] | None = None
) -> None:
    """Write the tables, the examples and, last, `run.json`."""
    folder = Path(folder)
    frames = {"relations": analysis.relations, "offsets": analysis.offsets}
    tables = {"heads": analysis.heads}
    if analysis.null is not None:
        tables["null_heads"], frames["null_relations"] = analysis.null
    written = {
        f"{name}.parquet": HeadTable(frame) for name, frame in frames.items() if frame is not None
    }
    written |= {f"{name}.parquet": table for name, table in tables.items()}
    for name, table in written.items():
        table.write(folder / name)
    for stale in set(FILES) - set(written) - {"targets.txt"}:  # of an earlier run
        (folder / stale).unlink(missing_ok=True)
    write_json(folder / "examples.json", analysis.examples)
    write_json(folder / "run.json", analysis.record | {"arguments": arguments or {}})
