"""Results: the files that a run leaves in its folder, each written completely or not at all."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from headcount.core import (
    HeadTable,
    InputError,
    check_is_folder,
    check_no_earlier_run,
)
from headcount.results.analysis import Analysis
from headcount.results.examples import write_examples

SCORES = ("importance.json", "evaluation.json", "translations.txt")
"""Files of other commands: the importance of the heads and the scores of the model."""

FILES = (
    "heads.parquet",
    "relations.parquet",
    "offsets.parquet",
    "null_heads.parquet",
    "null_relations.parquet",
    "examples.json",
    "run.json",
    "report.html",
    "targets.txt",
    "michel2019.md",
    "voita2019.md",
    *SCORES,
)
"""All files that a run may leave, besides `state/` and `figures/`."""

FOLDERS = ("state", "figures", "other")


def claim(folder: Path, resume: bool = False, overwrite: bool = False) -> None:
    """Check that a run may write into a folder; nothing is deleted.

    Raises:
        InputError: if the folder holds something and neither `resume` nor `overwrite` is set.
    """
    check_is_folder(folder)
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = present - set(FILES) - set(FOLDERS)
    if foreign:
        raise InputError(
            f"{folder} holds files that an analysis does not write "
            f"({', '.join(sorted(foreign)[:3])}). Name a new folder or one with an earlier run."
        )
    if (folder / "state").is_dir() and not any((folder / "state").iterdir()):
        present -= {"state"}  # left by a run that was refused
    if present:
        check_no_earlier_run(folder, "an earlier run", resume, overwrite)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def start_over(folder: Path) -> None:
    """Delete the state that an earlier run would resume from; its results stay until replaced.

    Call this after reading model and corpus, so that a typo in their names costs nothing.
    """
    rmtree(folder / "state", ignore_errors=True)
    (folder / "targets.txt").unlink(missing_ok=True)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def write_results(
    analysis: Analysis, folder: str | Path, arguments: Mapping[str, Any] | None = None
) -> None:
    """Write the tables, the examples and, last, `run.json`.

    A resumed run keeps the scores that other commands added to the folder; a new run removes them.
    """
    folder, resumed = Path(folder), bool((arguments or {}).get("resume"))
    frames = {"relations": analysis.relations, "offsets": analysis.offsets}
    tables = {"heads": _with_scores(analysis.heads, folder) if resumed else analysis.heads}
    if analysis.null is not None:
        tables["null_heads"], frames["null_relations"] = analysis.null
    written = {
        f"{name}.parquet": HeadTable(frame) for name, frame in frames.items() if frame is not None
    }
    written |= {f"{name}.parquet": table for name, table in tables.items()}
    for name, table in written.items():
        table.write(folder / name)
    kept = {"targets.txt", *SCORES} if resumed else {"targets.txt"}
    for stale in set(FILES) - set(written) - kept:  # from an earlier run
        (folder / stale).unlink(missing_ok=True)
    write_examples(folder / "examples.json", analysis.examples)
    replace(analysis.record, arguments=arguments or {}).write(folder / "run.json")


def _with_scores(table: HeadTable, folder: Path) -> HeadTable:
    """The table, with the extra columns of an earlier table of the same heads."""
    path = folder / "heads.parquet"
    if not path.exists():
        return table
    earlier, frame = HeadTable.read(path).frame, table.frame
    if list(earlier["head"]) != list(frame["head"]):
        return table
    added = [name for name in earlier if name not in frame]
    return HeadTable(frame.assign(**{str(name): earlier[name].to_numpy() for name in added}))
