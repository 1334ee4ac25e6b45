"""The folder of an assessment: what it may be written beside, and which model it belongs to.

Needs neither torch nor pandas, so that a taken folder is refused at once.
"""

from collections.abc import Mapping
from pathlib import Path

from headcount import results
from headcount.core import (
    Heads,
    HeadTable,
    InputError,
    ResumePolicy,
    amount,
    check_is_folder,
    check_no_earlier_run,
    forget,
    hold,
    is_kept,
    make_folder,
    remove_leftovers,
)
from headcount.importance.options import COLUMNS

SWEEP = "sweep.safetensors"
"""File of the losses under ablations."""
TRANSLATIONS = "translations.json"
"""File of the translations by ablated models."""


def claim_importance(folder: Path, policy: ResumePolicy) -> None:
    """Check that an assessment may write into a folder, beside an analysis; nothing is deleted.

    Raises:
        InputError: If the folder holds an assessment, finished or not, that may neither be resumed
            nor overwritten.
    """
    check_is_folder(folder)
    so_far = [folder / "state" / name for name in (SWEEP, TRANSLATIONS)]
    if any(map(is_kept, so_far)) or (folder / "importance.json").exists():
        check_no_earlier_run(folder, "an earlier assessment", policy)
    remove_leftovers(folder, {"importance.json", "heads.parquet"}.__contains__)
    remove_leftovers(folder / "state")
    make_folder(folder / "state")
    hold(folder)


def forget_sweep(folder: Path) -> None:
    """Delete the saved progress of an earlier assessment; call it once all input is read."""
    for name in (SWEEP, TRANSLATIONS):
        forget(folder / "state" / name)


def check_same_model(folder: Path, heads: Heads, revision: str | None) -> None:
    """Check that any analysis in a folder is of exactly this model.

    Raises:
        InputError: If its model has other heads or other parameters.
    """
    advice = "Name the folder of this model's analysis, or a new one."
    if (table := results.read_head_table(folder)) is not None:
        names = list(table.frame["head"])
        if names != list(map(str, heads)):
            raise InputError(
                f"Expected the heads of this model ({heads}) in {folder / 'heads.parquet'}, got "
                f"{amount(len(names), 'head')} of another. {advice}"
            )
    if (path := folder / "run.json").exists():
        signed = results.RunRecord.read(folder).signature
        _check_same_revision(path, signed, "the analysis", revision, advice)


def check_same_scores(folder: Path, revision: str) -> None:
    """Check that any scores in a folder are of exactly this model.

    Raises:
        InputError: If they are of a model with other parameters.
    """
    advice = "Use --overwrite instead of --resume, or name a new folder."
    if (path := folder / "importance.json").exists():
        signed = results.ImportanceRecord.read(folder).signature
        _check_same_revision(path, signed, "an assessment", revision, advice)
    if (path := folder / "evaluation.json").exists():
        signed = results.EvaluationRecord.read(folder).signature
        _check_same_revision(path, signed, "an evaluation", revision, advice)


def _check_same_revision(
    path: Path, signed: str, what: str, revision: str | None, advice: str
) -> None:
    found = results.Signature.parse(signed).revision
    if found != revision:
        raise InputError(
            f"Expected {what} of this model (revision {revision}) in {path}, got one with other "
            f"parameters or in another dtype (revision {found}). {advice}"
        )


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
    _, found = results.read_assessment(folder, "ablation")
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
    names = ("these", str(folder))
    return signed.check_same(results.Signature.parse(found.signature), parts, names)


def check_same_assessment(folder: Path, revision: str) -> None:
    """Check that a folder holds an assessment by ablation of exactly this model.

    Raises:
        InputError: If it holds none, or one of another model.
    """
    _, record = results.read_assessment(folder, "ablation")
    assessed = results.Signature.parse(record.signature).revision
    if assessed != revision:
        raise InputError(
            f"Expected an assessment of this model (revision {revision}) in {folder}, got one of "
            f"another (revision {assessed}). Effects are compared across data, not models."
        )


def scored_table(heads: Heads, columns: Mapping[str, object], folder: Path) -> HeadTable:
    """The head table of a folder, or a new one, with the columns of a new assessment only."""
    table = results.read_head_table(folder)
    if table is None:
        return HeadTable.of(heads, columns)
    frame = table.frame.drop(columns=[name for name in COLUMNS if name in table.frame])
    return HeadTable(frame.assign(**dict(columns)))


def write_scores(folder: Path, table: HeadTable, record: "results.ImportanceRecord") -> None:
    """Write the table and, last, the record."""
    table.write(folder / "heads.parquet")
    columns = ["head", *(name for name in COLUMNS if name in table.frame)]
    record.write(folder, {"heads.parquet": columns})
