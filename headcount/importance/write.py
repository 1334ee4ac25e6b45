"""Write an assessment into the folder of a run: columns of the head table, `importance.json`."""

from pathlib import Path
from typing import Any

from headcount.errors import InputError
from headcount.files import write_json
from headcount.heads import Heads, HeadTable
from headcount.importance.agreement import Agreement, agreement
from headcount.importance.assessment import Assessment

COLUMNS = (
    "gradient", "relevance", "ablation_delta", "ablation_low", "ablation_high", "ablation_p",
    "norm_score", "sink_score",
)  # fmt: skip
"""Columns that assessments write."""


def claim_importance(folder: Path, resume: bool = False, overwrite: bool = False) -> None:
    """See that an assessment may write into a folder, beside an analysis that is there.

    Raises:
        InputError: if an assessment is there, finished or not, that is neither to be resumed nor
            overwritten.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"a folder for the results was expected, {folder} is a file: name another")
    state = folder / "state" / "sweep.safetensors"
    if not (resume or overwrite) and (state.exists() or (folder / "importance.json").exists()):
        raise InputError(
            f"{folder} holds an earlier assessment: give --resume to go on with it, --overwrite to "
            "replace it, or name another folder"
        )
    if overwrite and not resume:
        state.unlink(missing_ok=True)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def write_assessment(
    assessment: Assessment, heads: Heads, folder: Path, arguments: dict[str, Any] | None = None
) -> tuple[HeadTable, Agreement]:
    """Add the columns to `heads.parquet` (of an analysis, or a new one) and write the record.

    Raises:
        InputError: if the folder holds the analysis of another model.
    """
    table = _with_columns(assessment, heads, folder / "heads.parquet")
    found = agreement(table.frame)
    table.write(folder / "heads.parquet")
    record = assessment.record | {"agreement": found.as_json(), "arguments": arguments or {}}
    write_json(folder / "importance.json", record)
    return table, found


def _with_columns(assessment: Assessment, heads: Heads, path: Path) -> HeadTable:
    if not path.exists():
        return HeadTable.of(heads, assessment.columns)
    frame = HeadTable.read(path).frame
    if list(frame["head"]) != list(map(str, heads)):
        raise InputError(
            f"{path} should have the heads of this model ({heads}), but has {len(frame)} heads of "
            "another: name the folder of this model's analysis, or a new one"
        )
    frame = frame.drop(columns=[name for name in COLUMNS if name in frame])
    return HeadTable(frame.assign(**dict(assessment.columns)))
