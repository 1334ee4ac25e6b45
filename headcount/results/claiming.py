"""The files that runs leave in a folder; whether a run may write into it.

What lies there already must be of the model at hand. Copies of a run's tables as CSV are for
spreadsheets and other programs; nothing here reads them.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headcount.core import (
    Head,
    HeadTable,
    InputError,
    ResumePolicy,
    amount,
    check_is_folder,
    check_no_earlier_run,
    entries,
    hold,
    make_folder,
    parse_json,
    reading,
    remove_leftovers,
)
from headcount.results.analysis import our_files
from headcount.results.curve import CURVE, Curve
from headcount.results.evaluation import EvaluationRecord
from headcount.results.importance import ImportanceRecord, read_head_table
from headcount.results.run import RunRecord
from headcount.results.sealing import SEALS
from headcount.results.signature import Signature
from headcount.results.store import Result
from headcount.results.tables import csv_name

STATE = ("measuring-", "null-", "targets", "sweep", "translations")
"""Beginnings of the names of files in `state/` that interrupted runs leave."""

PAPER = "paper"
"""Folder of what a paper needs of a run."""
FOLDERS = ("state", "figures", PAPER, "other", CURVE)
ABOUT = "about.json"
"""File beside a run that a person writes, for an atlas: a new run leaves it there."""


def claim(folder: Path, policy: ResumePolicy) -> None:
    """Check that a run may write into a folder; nothing is deleted.

    Raises:
        InputError: if the folder holds something that may be neither resumed nor overwritten.
    """
    present = _present(folder, folder / "state", our_files(), _ANALYSIS)
    if (folder / "state").is_dir() and not any((folder / "state").iterdir()):
        present -= {"state"}  # left by a run that was refused
    if present:
        check_no_earlier_run(folder, "an earlier run", policy)
    make_folder(folder / "state")
    hold(folder)


def claim_beside(
    folder: Path, kind: type[Result[Any]], policy: ResumePolicy, resumes: bool = True
) -> None:
    """Check that a command may write into a folder, beside an analysis; nothing is deleted.

    Args:
        folder: the folder.
        kind: the command's result; the state of an unfinished run is in a folder of its record's
            name in `state`.
        policy: what to do with earlier files of the command.
        resumes: whether the command can resume.

    Raises:
        InputError: if the folder holds something else, or earlier files that may be neither resumed
            nor replaced.
    """
    files = kind.files()
    what = Path(files[-1]).stem
    state = folder / "state" / what
    ours = f"neither {what} nor an analysis write", "that of an analysis"
    present = _present(folder, state, (*our_files(), *files), ours)
    if not present.isdisjoint(files) or (state.is_dir() and any(state.iterdir())):
        check_no_earlier_run(folder, f"earlier {what}", policy, resumes)
    make_folder(state)
    hold(folder)


_ANALYSIS = "an analysis does not write", "one with an earlier run"
"""What files of others are, and which folder to name instead of theirs."""


def _present(folder: Path, state: Path, ours: Iterable[str], words: tuple[str, str]) -> set[str]:
    """The names in a folder that holds files of ours only; what killed runs left is removed.

    Raises:
        InputError: if it holds others.
    """
    check_is_folder(folder)
    remove_leftovers(folder, {*ours}.__contains__)
    remove_leftovers(state)
    present = {path.name for path in entries(folder)} - {ABOUT}
    if foreign := present - {*our_files(), *FOLDERS}:
        raise InputError(
            f"{folder} holds files that {words[0]} ({', '.join(sorted(foreign)[:3])}). Name a new "
            f"folder or {words[1]}."
        )
    return present


def start_over(folder: Path) -> None:
    """Delete the state that an earlier run would resume from; its results stay until replaced.

    Call this after reading model and corpus, so that a typo in their names costs nothing.
    """
    for beginning in STATE:
        for file in (folder / "state").glob(f"{beginning}*"):
            file.unlink(missing_ok=True)  # another process of this run may have been first
    (folder / "targets.txt").unlink(missing_ok=True)
    make_folder(folder / "state")


def write_csv(folder: str | Path) -> list[Path]:
    """Write a CSV beside each table of a run; returns their paths.

    A copy is no part of what a record describes, so it may be edited or deleted. It is replaced
    with its table as long as nobody edited it.

    Raises:
        InputError: If the folder has no table, or one is damaged.
    """
    folder = Path(folder)
    inside = [each for each in map(folder.joinpath, FOLDERS) if each.is_dir()]
    tables = [path for each in (folder, *inside) for path in _tables_of(each)]
    if not tables:
        raise InputError(
            f"Expected a folder with tables of a run (*.parquet), got {folder}. Name the folder "
            "given as --out."
        )
    written = []
    for path in tables:
        with reading(path, "a table in Parquet", "Run the command that wrote it again."):
            table = HeadTable.read(path)
        table.write_csv(path.with_name(csv_name(path.name)))
        written.append(path.with_name(csv_name(path.name)))
    return written


def _tables_of(folder: Path) -> list[Path]:
    """The tables in a folder that are ours: by their names, or because a record describes them."""
    ours = {*our_files(), *Curve.files()}
    for record in folder.glob("*.json"):
        with suppress(ValueError, OSError, RecursionError):
            found = parse_json(record.read_text(encoding="utf-8"))
            seals = found.get(SEALS) if isinstance(found, dict) else None
            ours.update(seals if isinstance(seals, dict) else ())
    return [path for path in entries(folder) if path.suffix == ".parquet" and path.name in ours]


def check_same_model(folder: Path, heads: Iterable[Head | str], revision: str | None) -> None:
    """Check that any analysis in a folder is of exactly this model.

    Args:
        folder: The folder.
        heads: All heads of the model, or their names.
        revision: Hash of its parameters.

    Raises:
        InputError: If its model has other heads or other parameters.
    """
    advice = "Name the folder of this model's analysis, or a new one."
    if (table := read_head_table(folder)) is not None:
        expected, names = [*map(str, heads)], [*table.frame["head"]]
        if names != expected:
            raise InputError(
                f"Expected the heads of this model ({_said(expected)}) in "
                f"{folder / 'heads.parquet'}, got those of another ({_said(names)}). {advice}"
            )
    if (path := folder / "run.json").exists():
        signed = RunRecord.read(folder).signature
        _check_same_revision(path, signed, "the analysis", revision, advice)


def _said(names: Sequence[str]) -> str:
    return f"{amount(len(names), 'head')}, {names[0]} to {names[-1]}"


def check_same_scores(folder: Path, revision: str) -> None:
    """Check that any scores in a folder are of exactly this model.

    Raises:
        InputError: If they are of a model with other parameters.
    """
    advice = "Use --overwrite instead of --resume, or name a new folder."
    if (path := folder / ImportanceRecord.FILE).exists():
        signed = ImportanceRecord.read(folder).signature
        _check_same_revision(path, signed, "an assessment", revision, advice)
    if (path := folder / "evaluation.json").exists():
        signed = EvaluationRecord.read(folder).signature
        _check_same_revision(path, signed, "an evaluation", revision, advice)


def _check_same_revision(
    path: Path, signed: str, what: str, revision: str | None, advice: str
) -> None:
    found = Signature.parse(signed).revision
    if found != revision:
        raise InputError(
            f"Expected {what} of this model (revision {revision}) in {path}, got one with other "
            f"parameters or in another dtype (revision {found}). {advice}"
        )


def read_roles(
    folder: Path, heads: Iterable[Head | str], revision: str | None
) -> dict[str, list[str]]:
    """The roles of a model's heads according to its analysis.

    Args:
        folder: the folder of the analysis.
        heads: all heads of the model, or their names.
        revision: hash of its parameters.

    Raises:
        InputError: if the folder holds no analysis, or that of another model.
    """
    if not (folder / "run.json").exists():
        raise InputError(
            f"Expected an analysis of this model in {folder}, got a folder without run.json. Run "
            f"`headcount analyze MODEL CORPUS --out {folder}` first."
        )
    names = [*map(str, heads)]
    check_same_model(folder, names, revision)
    record = RunRecord.read(folder)
    found = {head: [role.role for role in roles] for head, roles in record.roles.items()}
    return {head: found.get(head, []) for head in names}
