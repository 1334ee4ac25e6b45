"""Whether what lies in a folder is of the model at hand, and the roles of its heads there."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from headcount.core import Head, InputError, amount
from headcount.results.evaluation import EvaluationRecord
from headcount.results.importance import ImportanceRecord, read_head_table
from headcount.results.run import RunRecord
from headcount.results.signature import Signature


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
