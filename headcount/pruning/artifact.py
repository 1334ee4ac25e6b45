"""Artifact: the folder of a pruned model, with its plan, its record and its card.

Written whole or not at all, and only after the model loaded again from its files gave the same
losses. What is done so far lies beside it, so that the folder is never half a model.
"""

from pathlib import Path
from shutil import rmtree

import numpy as np

from headcount.artifact.save import write_into
from headcount.artifact.staging import refuse_taken, staged
from headcount.errors import InputError, ModelError
from headcount.files import nulls_for_nan, write_json, write_text
from headcount.models.load import load
from headcount.pruning.card import card
from headcount.pruning.prune import Pruned
from headcount.tasks import Task, evaluate

SAME = 1e-5
"""Largest difference of an example's loss after loading again, as a share of the loss or of 1."""


def state_of(out: Path) -> Path:
    """The folder of what is done so far: the neighbour of the model's."""
    return out.with_name(f"{out.name}.state")


def claim_artifact(out: Path, resume: bool, overwrite: bool) -> None:
    """See that a pruned model may be written, and make the folder of the state.

    Raises:
        InputError: if a model or an interrupted run is there that is not to be replaced or gone on
            with.
    """
    refuse_taken(out, overwrite)
    state = state_of(out)
    if state.exists() and not (resume or overwrite):
        raise InputError(
            f"{state} holds an interrupted run: give --resume to go on with it, --overwrite to "
            "begin anew, or name another --out"
        )
    if overwrite and not resume:
        rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)


def write_pruned(pruned: Pruned, out: Path, name: str, task: Task, overwrite: bool = False) -> None:
    """Write model, plan, record and card, and remove the state.

    Args:
        pruned: what is written.
        out: the folder.
        name: of the model that was pruned.
        task: the losses of the model, loaded again, are compared on.
        overwrite: replace a pruned model in the folder.

    Raises:
        ModelError: if the model loaded again is another one.
    """
    with staged(out, overwrite) as staging:
        write_into(staging, pruned.compact.model, pruned.compact.tokenizer)
        apart = _reloaded(pruned, staging, task)
        equality = pruned.record["equality"] | {"reloaded_difference": apart}
        record = pruned.record | {"equality": equality}
        pruned.plan.write(staging / "plan.json")
        write_json(staging / "prune.json", nulls_for_nan(record))
        write_text(staging / "README.md", card(nulls_for_nan(record), Path(name).name))
    rmtree(state_of(out), ignore_errors=True)


def _reloaded(pruned: Pruned, folder: Path, task: Task) -> float:
    """The largest difference of an example's loss between the model and its files."""
    model = pruned.compact.model
    again = load(folder, str(model.device), str(model.dtype).removeprefix("torch."))
    losses = [evaluate(each, task).loss_N for each in (model, again.model)]
    apart = float(np.abs(losses[0] - losses[1]).max())
    if apart > SAME * max(1.0, float(np.abs(losses[0]).max())):
        raise ModelError(
            f"the model loaded again from its files should be the same, but the loss of an example "
            f"differs by {apart:.2g}: nothing was written; report this with the model's name"
        )
    return apart
