"""Artifact: the folder of a pruned model, with its plan, its record and its card.

The folder is written completely or not at all, and only if the gated, the compact and the reloaded
model give the same outputs. Intermediate state lies beside it, so the folder never holds half a
model.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headcount.artifact.head_card import write_head_card
from headcount.artifact.making import certify
from headcount.artifact.sample_batches import Data
from headcount.artifact.saving import auto_class_of
from headcount.artifact.staging import staged, state_of
from headcount.core import remove_state
from headcount.pruning import Pruned
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
        pruned: the pruned model and its record.
        out: the output folder.
        name: name of the model that was pruned.
        task: task with the examples on which the three models are compared.
        overwrite: replace a pruned model in the folder.
        files: files of the task, for the certificate.

    Raises:
        ModelError: if the gated, the compact and the reloaded model differ.
    """
    with staged(out, overwrite) as staging:
        data = Data.of_task(task, pruned.compact.model.device, files)
        certificate = certify(staging, pruned.dense, pruned.plan, pruned.compact, data)
        comparisons = [asdict(each) for each in certificate.comparisons]
        pruned.plan.write(staging / "plan.json")
        loads_by = auto_class_of(pruned.compact.model)
        about = {"model": Path(name).name, "comparisons": comparisons, "auto_class": loads_by}
        write_head_card(staging, about | pruned.record)
    remove_state(state_of(out))
