"""An assessment in the folder of a run: which model it belongs to, and its comparisons."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from headcount.core import Heads, HeadTable, InputError
from headcount.importance.assessment import Assessment
from headcount.importance.statistics.agreement import Agreement, agreement
from headcount.importance.statistics.correlation import Effects, effects
from headcount.results import (
    Across,
    EvaluationRecord,
    ImportanceRecord,
    RunRecord,
    Signature,
    read_assessment,
    read_head_table,
    scored_table,
    signed,
    write_scores,
)


def across(frame: pd.DataFrame, other: pd.DataFrame, other_record: ImportanceRecord) -> Across:
    """Compare measured ablations on two data sets.

    Args:
        frame: Head table of one data set.
        other: Head table of the other data set.
        other_record: Record of the assessment on the other data set.

    Raises:
        InputError: If the tables have different heads, or one has no ablation.
    """
    found = effects(frame, other)
    return Across(
        task=other_record.task,
        num_examples=other_record.num_examples,
        pearson=found.pearson,
        spearman=found.spearman,
        sentence=_sentence(found, other_record),
    )


def _sentence(found: Effects, other: ImportanceRecord) -> str:
    """The meaning of the correlations in one sentence."""
    r, rho = found.pearson, found.spearman
    if r.rho != r.rho:
        return (
            "Agreement with the effects on the other data is unknown: on one data set all "
            "heads have the same effect, or fewer than 4 heads were measured on both."
        )
    says = "agree with" if r.low > 0 else "contradict" if r.high < 0 else "say nothing about"
    return (
        f"The effects of single heads {says} those on the other data ({other.num_examples:,} "
        f"examples of {other.task}): Pearson's r {r} over {r.num_heads} heads, rank correlation "
        f"{signed(rho.rho)}."
    )


def check_same_model(folder: Path, heads: Heads, revision: str | None) -> None:
    """Check that any analysis in a folder is of exactly this model.

    Raises:
        InputError: If its model has other heads or other parameters.
    """
    advice = "Name the folder of this model's analysis, or a new one."
    if (table := read_head_table(folder)) is not None:
        names = list(table.frame["head"])
        if names != list(map(str, heads)):
            raise InputError(
                f"Expected the heads of this model ({heads}) in {folder / 'heads.parquet'}, got "
                f"{len(names)} heads of another. {advice}"
            )
    if (path := folder / "run.json").exists():
        signed = RunRecord.read(path).signature
        _check_same_revision(path, signed, "the analysis", revision, advice)


def check_same_scores(folder: Path, revision: str) -> None:
    """Check that any scores in a folder are of exactly this model.

    Raises:
        InputError: If they are of a model with other parameters.
    """
    advice = "Use --overwrite instead of --resume, or name a new folder."
    if (path := folder / "importance.json").exists():
        signed = ImportanceRecord.read(path).signature
        _check_same_revision(path, signed, "an assessment", revision, advice)
    if (path := folder / "evaluation.json").exists():
        signed = EvaluationRecord.read(path).signature
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


def write_assessment(
    assessment: Assessment,
    heads: Heads,
    folder: Path,
    arguments: Mapping[str, Any] | None = None,
    against: Path | None = None,
) -> tuple[HeadTable, Agreement, ImportanceRecord]:
    """Add the columns to `heads.parquet` (of an analysis, or a new one) and write the record.

    Args:
        assessment: Results to write.
        heads: Heads of the model.
        folder: Folder of the run.
        arguments: Arguments of the command, for the record.
        against: Folder of an assessment by ablation on other data, to compare effects with.

    Returns:
        The table, the agreement of its scores, and the record as it is in the folder.

    Raises:
        InputError: If one of the folders is of another model.
    """
    check_same_model(folder, heads, Signature.parse(assessment.record.signature).revision)
    table = scored_table(heads, assessment.columns, folder)
    found = agreement(table.frame)
    compared = None
    if against is not None:
        compared = across(table.frame, *read_assessment(against, "ablation"))
    record = replace(
        assessment.record,
        agreement=found.as_matrix(),
        arguments=arguments or {},
        across=compared,
    )
    write_scores(folder, table, record)
    return table, found, record


def check_same_measurement(folder: Path, task: str, quantity: str, replacement: str) -> None:
    """Check that a folder holds ablations that can be compared with others.

    Args:
        folder: Folder of an assessment.
        task: Name of the others' task.
        quantity: Quantity that the others measure: `loss`, or the name of the metric.
        replacement: Replacement for a head's output in the others.

    Raises:
        InputError: If it holds no ablations, or they were measured in another way.
    """
    _, found = read_assessment(folder, "ablation")
    assert found.ablation is not None  # `read_assessment` checks it
    expected = (task, quantity, replacement)
    got = (found.task, found.quantity, found.ablation.replacement)
    if expected != got:
        raise InputError(
            f"Expected ablations in {folder} with the same task, quantity and replacement "
            f"({', '.join(expected)}), got others ({', '.join(got)}). Effects are compared "
            "across data only."
        )


def check_same_assessment(folder: Path, revision: str) -> None:
    """Check that a folder holds an assessment by ablation of exactly this model.

    Raises:
        InputError: If it holds none, or one of another model.
    """
    _, record = read_assessment(folder, "ablation")
    assessed = Signature.parse(record.signature).revision
    if assessed != revision:
        raise InputError(
            f"Expected an assessment of this model (revision {revision}) in {folder}, got one of "
            f"another (revision {assessed}). Effects are compared across data, not models."
        )
