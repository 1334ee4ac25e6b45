"""An assessment: scores of every head, as they are measured or read from a folder.

Needs neither torch nor pandas, so that a taken folder is refused at once.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from headcount import results
from headcount.core import (
    PLACE,
    HeadTable,
    InputError,
    JsonObject,
    ResumePolicy,
    amount,
    check_is_folder,
    check_no_earlier_run,
    forget,
    hold,
    is_kept,
    make_folder,
    name_of,
    remove_leftovers,
)
from headcount.importance.options import COLUMNS
from headcount.results import ImportanceRecord, Result, check_same_model, table
from headcount.vocabulary import ColumnEntry

if TYPE_CHECKING:
    import numpy as np

SWEEP = "sweep.safetensors"
"""File of the losses under ablations."""
TRANSLATIONS = "translations.json"
"""File of the translations by ablated models."""
MEASURED_SCORES = "scores.json"
"""File of the scores that are measured."""
STATE = (SWEEP, TRANSLATIONS, MEASURED_SCORES)
"""Files from which an assessment resumes."""


@final
@dataclass(frozen=True, eq=False)
class Assessment(Result[ImportanceRecord]):
    """Scores of every head on a task."""

    DOCUMENTS = ImportanceRecord.DOCUMENTS

    record: ImportanceRecord
    """Contents of `importance.json`: the task, the methods, and all that is no score of a head."""
    heads: HeadTable = table(
        "heads.parquet", "a row for each head", columns=("head",), key=("head",), made=HeadTable
    )
    """One row per head with its scores; in the folder of an analysis, beside all columns of it."""

    def __repr__(self) -> str:
        scores, task = ", ".join(self.columns), self.record.task
        return f"Assessment({amount(len(self.heads.frame), 'head')} on {task}: {scores})"

    @property
    def of_heads(self) -> HeadTable:
        """The table of all heads."""
        return self.heads

    @property
    def stored_columns(self) -> tuple[ColumnEntry, ...]:
        """The words of the columns of plug-ins' scores."""
        return tuple(self.record.column_entries.values())

    @property
    def columns(self) -> "Mapping[str, np.ndarray]":
        """The columns with scores, in the order of the heads."""
        frame = self.heads.frame
        names = (*COLUMNS, *self.record.columns)
        return {name: frame[name].to_numpy() for name in names if name in frame}

    def write(self, folder: Path) -> None:
        """Write the scores and, last, the record; the columns of an analysis in the folder stay.

        Raises:
            InputError: If there are results of another model.
        """
        revision = results.Signature.parse(self.record.signature).revision
        check_same_model(folder, self.heads.frame["head"], revision)
        heads = scored_table(self.heads, self.columns, folder)
        described = {"heads.parquet": [*PLACE, *self.columns]}
        super(Assessment, replace(self, heads=heads)).write(folder, described)


def read_assessment(folder: Path, method: str | None = None) -> Assessment:
    """The assessment in a folder.

    Args:
        folder: the folder.
        method: a method that it must have; None for any.

    Raises:
        InputError: If the folder has none, or one without the method.
    """
    path = folder / ImportanceRecord.FILE
    if not path.exists():
        methods = f"--methods {method} " if method else ""
        raise InputError(
            f"Expected an assessment in {folder}, but it has no {path.name}. Run `headcount "
            f"importance ... {methods}--out {folder}` first."
        )
    methods = ImportanceRecord.read(folder).methods
    if method is not None and method not in methods:
        raise InputError(
            f"Expected an assessment by {method} in {path}, got one by {', '.join(methods)}. Run "
            f"`headcount importance` with --methods {method}."
        )
    return Assessment.read(folder)


def claim_importance(folder: Path, policy: ResumePolicy) -> None:
    """Check that an assessment may write into a folder, beside an analysis; nothing is deleted.

    Raises:
        InputError: If the folder holds an assessment, finished or not, that may neither be resumed
            nor overwritten.
    """
    check_is_folder(folder)
    so_far = [folder / "state" / name for name in STATE]
    if any(map(is_kept, so_far)) or (folder / ImportanceRecord.FILE).exists():
        check_no_earlier_run(folder, "an earlier assessment", policy)
    run, heads = folder / results.RunRecord.FILE, "heads.parquet"
    ours = {*COLUMNS, *results.sealed_columns(folder / ImportanceRecord.FILE, heads)} - {*PLACE}
    if taken := sorted(ours & results.sealed_columns(run, heads)):
        raise InputError(
            f"Expected an analysis without scores in {folder}, but {run.name} describes the column "
            f"{taken[0]} of {heads} as its own. Analyze into this folder again, or name a new one."
        )
    remove_leftovers(folder, {*Assessment.files()}.__contains__)
    remove_leftovers(folder / "state")
    make_folder(folder / "state")
    hold(folder)


def forget_sweep(folder: Path) -> None:
    """Delete the state of an earlier assessment; call it once all input is read."""
    for name in STATE:
        forget(folder / "state" / name)


def check_same_measurement(
    folder: Path, task: str, quantity: str, replacement: str, signed: "results.Signature"
) -> tuple[str, ...]:
    """Check that a folder holds ablations that can be compared with others.

    Args:
        folder: Folder of an assessment.
        task: Name of the others' task.
        quantity: Quantity that the others measure: `loss`, or the name of the metric.
        replacement: Replacement for a head's output in the others.
        signed: Signature of the others.

    Returns:
        A sentence for each part of the signatures that is not known to be the same.

    Raises:
        InputError: If it holds no ablations, or they were measured in another way.
    """
    found = read_assessment(folder, "ablation").record
    assert found.ablation is not None  # `read_assessment` checks it
    expected = (task, quantity, replacement)
    got = (found.task, found.quantity, found.ablation.replacement)
    if expected != got:
        raise InputError(
            f"Expected ablations in {folder} with the same task, quantity and replacement "
            f"({', '.join(expected)}), got others ({', '.join(got)}). Effects are compared "
            "across data only."
        )
    parts = {**results.MODEL, **results.READING}
    names = ("these", name_of(folder))
    return signed.check_same(results.Signature.parse(found.signature), parts, names)


def check_same_assessment(folder: Path, revision: str) -> None:
    """Check that a folder holds an assessment by ablation of exactly this model.

    Raises:
        InputError: If it holds none, or one of another model.
    """
    record = read_assessment(folder, "ablation").record
    assessed = results.Signature.parse(record.signature).revision
    if assessed != revision:
        raise InputError(
            f"Expected an assessment of this model (revision {revision}) in {folder}, got one of "
            f"another (revision {assessed}). Effects are compared across data, not models."
        )


def scored_table(heads: HeadTable, columns: Mapping[str, object], folder: Path) -> HeadTable:
    """The table of an analysis in a folder, or of heads alone, with the scores of one assessment.

    Args:
        heads: All heads.
        columns: Their scores.
        folder: Folder, whose table may have scores of an earlier assessment.
    """
    table = results.read_head_table(folder) or heads
    earlier, path = set(COLUMNS), folder / ImportanceRecord.FILE
    with suppress(InputError):  # a damaged or interrupted one, without its seals: it is replaced
        found = JsonObject.read(path, ImportanceRecord.COMMAND, ImportanceRecord.FOLDER)
        earlier |= {*ImportanceRecord.from_json(found).columns}
    frame = table.frame.drop(columns=[name for name in table.frame if name in earlier])
    return HeadTable(frame.assign(**dict(columns)))
