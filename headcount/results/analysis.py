"""An analysis: its results, and the folder that they are written into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, final

import pandas as pd

from headcount.core import (
    HeadTable,
    InputError,
    ResumePolicy,
    check_is_folder,
    check_no_earlier_run,
)
from headcount.results.examples import Example, write_examples
from headcount.results.roles import Roles
from headcount.results.run import RunRecord


@final
@dataclass(frozen=True)
class Analysis:
    """The result of an analysis."""

    heads: HeadTable
    """One row per head."""
    relations: pd.DataFrame | None
    """One row per head, relation and direction; None if no sentence had a tree."""
    offsets: pd.DataFrame
    """The offset profile of every head."""
    roles: Roles
    """Roles by head name; an empty list for a head without a role."""
    examples: Mapping[str, Sequence[Example]]
    """The sentences that show each head's role best, by head name."""
    null: tuple[HeadTable, pd.DataFrame | None] | None
    """Tables of heads and relations for the random-weight copy."""
    record: RunRecord
    """Contents of run.json: signature, counts, warnings, timings."""


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


def claim(folder: Path, policy: ResumePolicy) -> None:
    """Check that a run may write into a folder; nothing is deleted.

    Raises:
        InputError: if the folder holds something that may be neither resumed nor overwritten.
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
        check_no_earlier_run(folder, "an earlier run", policy)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def start_over(folder: Path) -> None:
    """Delete the state that an earlier run would resume from; its results stay until replaced.

    Call this after reading model and corpus, so that a typo in their names costs nothing.
    """
    rmtree(folder / "state", ignore_errors=True)
    (folder / "targets.txt").unlink(missing_ok=True)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def check_is_run(folder: Path) -> None:
    """Check that there is a folder to read a run from.

    Raises:
        InputError: if the folder does not exist or is a file.
    """
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder written by `headcount analyze ... --out`, but {folder} "
            f"{'is a file' if folder.exists() else 'does not exist'}"
        )


def write_results(
    analysis: Analysis,
    folder: str | Path,
    arguments: Mapping[str, Any] | None = None,
    keep_scores: bool = False,
) -> None:
    """Write the tables, the examples and, last, `run.json`.

    Args:
        analysis: the results.
        folder: the folder of the run.
        arguments: arguments of the command, for the record.
        keep_scores: whether scores that other commands added to the folder are kept, as in a
            resumed run, or removed.
    """
    folder = Path(folder)
    frames = {"relations": analysis.relations, "offsets": analysis.offsets}
    tables = {"heads": _with_scores(analysis.heads, folder) if keep_scores else analysis.heads}
    if analysis.null is not None:
        tables["null_heads"], frames["null_relations"] = analysis.null
    written = {
        f"{name}.parquet": HeadTable(frame) for name, frame in frames.items() if frame is not None
    }
    written |= {f"{name}.parquet": table for name, table in tables.items()}
    for name, table in written.items():
        table.write(folder / name)
    kept = {"targets.txt", *SCORES} if keep_scores else {"targets.txt"}
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
