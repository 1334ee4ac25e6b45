"""Artifact: the folder of a pruned model, with its plan, its record and its card.

Written whole or not at all, and only after the gated, the compact and the reloaded model gave the
same outputs. What is done so far lies beside it, so that the folder is never half a model.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headcount.artifact.auto_map import auto_class_of
from headcount.artifact.batches import Data
from headcount.artifact.claim import state_of
from headcount.artifact.head_card import write_head_card
from headcount.artifact.make import certify
from headcount.artifact.staging import staged
from headcount.folders import remove_state
from headcount.pruning.prune import Pruned
from headcount.tasks import Task


def write_pruned(
    pruned: Pruned,
    out: Path,
    name: str,
    task: Task,
    overwrite: bool = False,
    files: Sequence[str] = (),
) -> None:
    """Write model, plan, record, certificate and card, and remove the state.

    Args:
        pruned: what is written.
        out: the folder.
        name: of the model that was pruned.
        task: the gated, the compact and the reloaded model are compared on its examples.
        overwrite: replace a pruned model in the folder.
        files: of the task, for the certificate.

    Raises:
        ModelError: if two of the three differ.
    """
    with staged(out, overwrite) as staging:
        data = Data.of_task(task, pruned.compact.model.device, files)
        certificate = certify(staging, pruned.whole, pruned.plan, pruned.compact, data)
        comparisons = [asdict(each) for each in certificate.comparisons]
        pruned.plan.write(staging / "plan.json")
        loads_by = auto_class_of(pruned.compact.model)
        about = {"model": Path(name).name, "comparisons": comparisons, "auto_class": loads_by}
        write_head_card(staging, about | pruned.record)
    remove_state(state_of(out))
