"""Analysed: roles of heads by the folder of an analysis, and of a pruned model by a new one."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headcount.analysis import analyze
from headcount.corpora import Corpus
from headcount.errors import InputError
from headcount.heads import Heads, HeadTable
from headcount.importance.folder import refuse_other_model
from headcount.models.load import Loaded
from headcount.pruning.functions import Roles, old_names, survivals
from headcount.pruning.prune import Pruned
from headcount.signature import revision


def read_roles(folder: Path, loaded: Loaded) -> Roles:
    """The roles of a model's heads by its analysis.

    Raises:
        InputError: if the folder holds none, or that of another model.
    """
    if not (folder / "run.json").exists():
        raise InputError(
            f"{folder} should hold an analysis of this model, but has no run.json: run `headcount "
            f"analyze MODEL CORPUS --out {folder}` first"
        )
    refuse_other_model(folder, loaded.heads, revision(loaded.model))
    frame = HeadTable.read(folder / "heads.parquet").frame
    return {str(row["head"]): list(row["roles"]) for row in frame.to_dict("records")}


def functions(
    pruned: Pruned, heads: Heads, dense: Roles, corpus: Sequence[Path] = ()
) -> list[dict[str, Any]]:
    """What became of every role.

    Args:
        pruned: the pruned model.
        heads: of the whole one.
        dense: its roles.
        corpus: what these are from; the pruned model is analysed on it too, if any is given.
    """
    now = None
    if corpus:
        names = old_names(pruned.plan, heads)
        roles = analyze(pruned.compact, Corpus(corpus)).roles
        now = {names[head]: [role.role for role in each] for head, each in roles.items()}
    return [asdict(each) for each in survivals(pruned.plan, heads, dense, now)]
