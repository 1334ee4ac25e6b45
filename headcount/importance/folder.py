"""An assessment in the folder of a run: columns of the head table, and `importance.json`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import (
    Heads,
    HeadTable,
    InputError,
    nulls_for_nan,
    reading,
    write_json,
)
from headcount.importance.assessment import Assessment
from headcount.importance.statistics.agreement import Agreement, agreement
from headcount.importance.statistics.correlation import Effects, effects, signed
from headcount.results import Signature


@final
@dataclass(frozen=True)
class Across:
    """Agreement of single heads' effects with their effects on other data."""

    effects: Effects
    task: str
    """Name of the other data's task."""
    num_examples: int

    def sentence(self) -> str:
        """The meaning of the correlations in one sentence."""
        r, rho = self.effects.pearson, self.effects.spearman
        if r.rho != r.rho:
            return (
                "Agreement with the effects on the other data is unknown: on one data set all "
                "heads have the same effect, or fewer than 4 heads were measured on both."
            )
        says = "agree with" if r.low > 0 else "contradict" if r.high < 0 else "say nothing about"
        return (
            f"The effects of single heads {says} those on the other data ({self.num_examples:,} "
            f"examples of {self.task}): Pearson's r {r} over {r.num_heads} heads, rank correlation "
            f"{signed(rho.rho)}."
        )

    def as_json(self) -> dict[str, Any]:
        """The fields of `importance.json`."""
        about = {"task": self.task, "num_examples": self.num_examples}
        return about | asdict(self.effects) | {"sentence": self.sentence()}


def across(frame: pd.DataFrame, other: pd.DataFrame, other_record: dict[str, Any]) -> Across:
    """Compare measured ablations on two data sets.

    Args:
        frame: Head table of one data set.
        other: Head table of the other data set.
        other_record: The `importance.json` of the other data set.

    Raises:
        InputError: If the tables have different heads, or one has no ablation.
    """
    return Across(effects(frame, other), other_record["task"], other_record["num_examples"])


FINISHED = (
    "what a finished run wrote",
    "name a complete folder, or rerun the command that wrote it",
)
"""The expected content of a result file, and the advice if it holds something else."""

COLUMNS = (
    "gradient",
    "relevance",
    "ablation_delta",
    "ablation_low",
    "ablation_high",
    "ablation_p",
    "norm_score",
    "sink_score",
)
"""Columns that assessments write."""


def check_same_model(folder: Path, heads: Heads, revision: str | None) -> None:
    """Check that any analysis in a folder is of exactly this model.

    Raises:
        InputError: If it is of a model with other heads or other parameters.
    """
    table, record = folder / "heads.parquet", folder / "run.json"
    advice = "Name the folder of this model's analysis, or a new one."
    if table.exists():
        with reading(table, *FINISHED):
            names = list(HeadTable.read(table).frame["head"])
        if names != list(map(str, heads)):
            raise InputError(
                f"Expected the heads of this model ({heads}) in {table}, got {len(names)} heads of "
                f"another. {advice}"
            )
    _check_same_revision(record, "the analysis", revision, advice)


def check_same_scores(folder: Path, revision: str) -> None:
    """Check that any scores in a folder are of exactly this model.

    Raises:
        InputError: If they are of a model with other parameters.
    """
    advice = "Use --overwrite instead of --resume, or name a new folder."
    _check_same_revision(folder / "importance.json", "an assessment", revision, advice)
    _check_same_revision(folder / "evaluation.json", "an evaluation", revision, advice)


def _check_same_revision(record: Path, what: str, revision: str | None, advice: str) -> None:
    if not record.exists():
        return
    with reading(record, *FINISHED):
        signed = json.loads(record.read_text(encoding="utf-8"))["signature"]
    found = Signature.parse(signed).revision
    if found != revision:
        raise InputError(
            f"Expected {what} of this model (revision {revision}) in {record}, got one with other "
            f"parameters or in another dtype (revision {found}). {advice}"
        )


def write_assessment(
    assessment: Assessment,
    heads: Heads,
    folder: Path,
    arguments: dict[str, Any] | None = None,
    against: Path | None = None,
) -> tuple[HeadTable, Agreement]:
    """Add the columns to `heads.parquet` (of an analysis, or a new one) and write the record.

    Args:
        assessment: Results to write.
        heads: Heads of the model.
        folder: Folder of the run.
        arguments: Arguments of the command, for the record.
        against: Folder of an assessment by ablation on other data, to compare effects with.

    Raises:
        InputError: If one of the folders is of another model.
    """
    check_same_model(folder, heads, Signature.parse(assessment.record["signature"]).revision)
    table = _with_columns(assessment, heads, folder / "heads.parquet")
    found = agreement(table.frame)
    table.write(folder / "heads.parquet")
    record = assessment.record | {"agreement": found.as_json(), "arguments": arguments or {}}
    if against is not None:
        compared = across(table.frame, *read_assessment(against, "ablation"))
        record["across"] = compared.as_json()
    write_json(folder / "importance.json", nulls_for_nan(record))
    return table, found


def check_same_measurement(folder: Path, record: Mapping[str, Any]) -> None:
    """Check that a folder holds ablations that can be compared with others.

    Args:
        folder: Folder of an assessment.
        record: Task, metric, and ablation (quantity and replacement) of the others.

    Raises:
        InputError: If it holds no ablations, or they were measured in another way.
    """
    _, found = read_assessment(folder, "ablation")
    ways = [_way(each) for each in (record, found)]
    if ways[0] != ways[1]:
        raise InputError(
            f"Expected ablations in {folder} with the same task, quantity and replacement "
            f"({', '.join(ways[0])}), got others ({', '.join(ways[1])}). Effects are compared "
            "across data only."
        )


def _way(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["task"], ablated_quantity(record), record["ablation"]["replacement"]


def ablated_quantity(record: Mapping[str, Any]) -> str:
    """The quantity that ablations measure: the loss, or a score by the name of its metric."""
    return "loss" if record["ablation"]["quantity"] == "loss" else str(record["metric"])


def check_same_assessment(folder: Path, revision: str) -> None:
    """Check that a folder holds an assessment by ablation of exactly this model.

    Raises:
        InputError: If it holds none, or one of another model.
    """
    _, record = read_assessment(folder, "ablation")
    assessed = Signature.parse(record["signature"]).revision
    if assessed != revision:
        raise InputError(
            f"Expected an assessment of this model (revision {revision}) in {folder}, got one of "
            f"another (revision {assessed}). Effects are compared across data, not models."
        )


def read_assessment(folder: Path, method: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The head table and the record of an assessment.

    Raises:
        InputError: If the folder has no assessment, or one without the method.
    """
    path = folder / "importance.json"
    if not path.exists():
        raise InputError(
            f"Expected an assessment in {folder}, but it has no {path.name}. Run `headcount "
            f"importance ... --methods {method} --out {folder}` first."
        )
    with reading(path, *FINISHED):
        record = json.loads(path.read_text(encoding="utf-8"))
        methods = list(record["methods"])
    if method not in methods:
        raise InputError(
            f"Expected an assessment by {method} in {path}, got one by {', '.join(methods)}. Run "
            f"`headcount importance` with --methods {method}."
        )
    table = folder / "heads.parquet"
    with reading(table, *FINISHED):
        return HeadTable.read(table).frame, record


def _with_columns(assessment: Assessment, heads: Heads, path: Path) -> HeadTable:
    if not path.exists():
        return HeadTable.of(heads, assessment.columns)
    frame = HeadTable.read(path).frame
    frame = frame.drop(columns=[name for name in COLUMNS if name in frame])
    return HeadTable(frame.assign(**dict(assessment.columns)))
