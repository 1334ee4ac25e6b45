"""An assessment in the folder of a run: columns of the head table, and `importance.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from headcount.errors import InputError
from headcount.files import nulls_for_nan, write_json
from headcount.folders import refuse_earlier, refuse_file
from headcount.heads import Heads, HeadTable
from headcount.importance.ablated_texts import FILE as TRANSLATIONS
from headcount.importance.across import across
from headcount.importance.agreement import Agreement, agreement
from headcount.importance.assessment import Assessment
from headcount.importance.sweep_state import FILE as SWEEP
from headcount.keyed import reading
from headcount.signature import measured_revision

FINISHED = (
    "what a finished run wrote", "name a whole folder, or run the command that wrote it again",
)  # fmt: skip
"""What a file of results should hold, and what to do where it does not."""

COLUMNS = (
    "gradient", "relevance", "ablation_delta", "ablation_low", "ablation_high", "ablation_p",
    "norm_score", "sink_score",
)  # fmt: skip
"""Columns that assessments write."""


def claim_importance(folder: Path, resume: bool = False, overwrite: bool = False) -> None:
    """See that an assessment may write into a folder, beside an analysis; nothing is deleted.

    Raises:
        InputError: if an assessment is there, finished or not, that is neither to be resumed nor
            overwritten.
    """
    refuse_file(folder)
    so_far = [folder / "state" / name for name in (SWEEP, TRANSLATIONS)]
    if any(file.exists() for file in so_far) or (folder / "importance.json").exists():
        refuse_earlier(folder, "an earlier assessment", resume, overwrite)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def forget_sweep(folder: Path) -> None:
    """Delete what an earlier assessment would go on with; to be called once all input is read."""
    for name in (SWEEP, TRANSLATIONS):
        (folder / "state" / name).unlink(missing_ok=True)


def refuse_other_model(folder: Path, heads: Heads, revision: str | None) -> None:
    """See that the analysis in a folder, if there is one, is of this very model.

    Raises:
        InputError: if it is of a model with other heads, or with other parameters.
    """
    table, record = folder / "heads.parquet", folder / "run.json"
    advice = "name the folder of this model's analysis, or a new one"
    if table.exists():
        with reading(table, *FINISHED):
            names = list(HeadTable.read(table).frame["head"])
        if names != list(map(str, heads)):
            raise InputError(
                f"{table} should have the heads of this model ({heads}), but has {len(names)} "
                f"heads of another: {advice}"
            )
    _refuse_other_revision(record, "the analysis", revision, advice)


def refuse_other_scores(folder: Path, revision: str) -> None:
    """See that the scores in a folder, if there are some, are of this very model.

    Raises:
        InputError: if they are of a model with other parameters.
    """
    advice = "give --overwrite instead of --resume, or name a new folder"
    _refuse_other_revision(folder / "importance.json", "an assessment", revision, advice)
    _refuse_other_revision(folder / "evaluation.json", "an evaluation", revision, advice)


def _refuse_other_revision(record: Path, what: str, revision: str | None, advice: str) -> None:
    if not record.exists():
        return
    with reading(record, *FINISHED):
        signed = json.loads(record.read_text(encoding="utf-8"))["signature"]
    found = measured_revision(signed)
    if found != revision:
        raise InputError(
            f"{record} should be of {what} of this model (revision {revision}), but is of one with "
            f"other parameters or in another dtype (revision {found}): {advice}"
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
        assessment: what was found.
        heads: the model's.
        folder: of the run.
        arguments: those of the command, for the record.
        against: folder of another assessment, by ablation on other data; effects are compared.

    Raises:
        InputError: if one of the folders is of another model.
    """
    refuse_other_model(folder, heads, measured_revision(assessment.record["signature"]))
    table = _with_columns(assessment, heads, folder / "heads.parquet")
    found = agreement(table.frame)
    table.write(folder / "heads.parquet")
    record = assessment.record | {"agreement": found.as_json(), "arguments": arguments or {}}
    if against is not None:
        compared = across(table.frame, *read_assessment(against, "ablation"))
        record["across"] = compared.as_json()
    write_json(folder / "importance.json", nulls_for_nan(record))
    return table, found


def refuse_other_measurement(folder: Path, record: Mapping[str, Any]) -> None:
    """See that a folder holds ablations that can be compared with others.

    Args:
        folder: of an assessment.
        record: the others' task, metric, and ablation: quantity and replacement.

    Raises:
        InputError: if it holds no ablations, or they were measured in another way.
    """
    _, found = read_assessment(folder, "ablation")
    ways = [_way(each) for each in (record, found)]
    if ways[0] != ways[1]:
        raise InputError(
            f"{folder} should hold ablations like the others, by task, quantity and what stands in "
            f"for a head ({', '.join(ways[0])}), but holds others ({', '.join(ways[1])}): effects "
            "are compared across data only"
        )


def _way(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["task"], ablated_quantity(record), record["ablation"]["replacement"]


def ablated_quantity(record: Mapping[str, Any]) -> str:
    """What ablations are measured by: the loss, or a score by the name of its metric."""
    return "loss" if record["ablation"]["quantity"] == "loss" else str(record["metric"])


def refuse_other_assessment(folder: Path, revision: str) -> None:
    """See that a folder holds an assessment by ablation of this very model.

    Raises:
        InputError: if it holds none, or that of another model.
    """
    _, record = read_assessment(folder, "ablation")
    assessed = measured_revision(record["signature"])
    if assessed != revision:
        raise InputError(
            f"{folder} should hold an assessment of this model (revision {revision}), but holds "
            f"that of another (revision {assessed}): effects are compared across data, not models"
        )


def read_assessment(folder: Path, method: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The head table and the record of an assessment.

    Raises:
        InputError: if there is none in the folder, or it was made without a method.
    """
    path = folder / "importance.json"
    if not path.exists():
        raise InputError(
            f"{folder} should hold an assessment, but has no {path.name}: run `headcount "
            f"importance ... --methods {method} --out {folder}` first"
        )
    with reading(path, *FINISHED):
        record = json.loads(path.read_text(encoding="utf-8"))
        methods = list(record["methods"])
    if method not in methods:
        raise InputError(
            f"{path} should be of an assessment by {method}, but is of one by "
            f"{', '.join(methods)}: run `headcount importance` with --methods {method}"
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
