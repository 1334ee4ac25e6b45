"""Artifact: the folder of a pruned model, with its plan, its record and its card.

The folder is written completely or not at all, and only if the gated, the compact and the reloaded
model give the same outputs. Intermediate state lies beside it, so the folder never holds half a
model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headcount.artifact.head_card import write_head_card
from headcount.artifact.making import certify
from headcount.artifact.sample_batches import Data
from headcount.artifact.saving import auto_class_of
from headcount.artifact.staging import COMPACT, forget_run, staged
from headcount.artifact.surviving_roles import DenseAnalysis
from headcount.pruning import Pruned
from headcount.results import PruneRecord


def save_pruned(
    pruned: Pruned,
    folder: str | Path,
    *,
    analysis: DenseAnalysis | None = None,
    files: Sequence[str] = (),
    arguments: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> PruneRecord:
    """Write model, plan, record, certificate and card, and remove the state of the pruning.

    Args:
        pruned: the result of `prune`.
        folder: the output folder.
        analysis: the dense model's analysis, to report which functions survive.
        files: files of the development set, for the certificate.
        arguments: arguments of the command, for the record; by default those of `prune`.
        overwrite: replace a pruned model in the folder.

    Raises:
        InputError: if the folder is taken.
        ModelError: if the gated, the compact and the reloaded model differ.
    """
    folder, record = Path(folder), pruned.record
    if arguments is not None:
        record = replace(record, arguments=arguments)
    if analysis is not None:
        record = replace(record, functions=analysis.surviving(pruned))
    with staged(folder, overwrite) as staging:
        data = Data.of_task(pruned.dev, pruned.model.device, files)
        certificate = certify(staging, pruned.dense, pruned.plan, pruned.compact, data)
        pruned.plan.write(staging / "plan.json")
        auto_class = auto_class_of(pruned.model)
        record = replace(record, auto_class=auto_class, comparisons=certificate.comparisons)
        write_head_card(staging, record)
    forget_run(folder, COMPACT)
    return record
