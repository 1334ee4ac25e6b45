"""Make: plan and model to a folder, with the certificate that nothing but heads has gone."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headcount.artifact.auto_map import auto_class_of
from headcount.artifact.batches import Data, Inputs
from headcount.artifact.certificate import (
    Certificate,
    Comparison,
    Run,
    compare,
    runner,
    weights_sha256,
)
from headcount.artifact.head_card import write_head_card
from headcount.artifact.save import write_into
from headcount.artifact.staging import refuse_taken, staged
from headcount.compaction import compact
from headcount.corpora import Corpus
from headcount.models.load import Loaded, load
from headcount.pruning.plan import Plan
from headcount.tap import Tap


def make(
    loaded: Loaded, plan: Plan, folder: Path, corpus: Corpus | None, overwrite: bool = False
) -> Certificate:
    """Write the compact model, whole or not at all, if it equals the gated one on the corpus.

    Args:
        loaded: the model to make smaller.
        plan: which of its heads stay.
        folder: where to.
        corpus: what to compare on; None for a made-up batch (images, sound).
        overwrite: replace a compact model that the folder holds.

    Raises:
        InputError: if the plan does not fit the model, or the folder is taken.
        ModelError: if the model can't be made smaller exactly, or does not reload as itself.
    """
    refuse_taken(folder, overwrite)
    smaller = Loaded(compact(loaded, plan), loaded.tokenizer, loaded.name)
    data = Data.of(loaded, corpus)
    with staged(folder, overwrite) as staging:
        certificate = certify(staging, loaded, plan, smaller, data)
        plan.write(staging / "plan.json")
        write_head_card(staging, heads_record(loaded, plan, certificate.comparisons))
    return certificate


def certify(staging: Path, whole: Loaded, plan: Plan, smaller: Loaded, data: Data) -> Certificate:
    """Write a compact model, load it again, and see that nothing but heads has gone.

    Args:
        staging: folder to write model, tokenizer and certificate into.
        whole: the model with all its heads.
        plan: which of them stay.
        smaller: the compact model.
        data: gated, compact and reloaded model are compared on it.

    Raises:
        ModelError: if two of the three differ.
    """
    model = smaller.model
    write_into(staging, model, smaller.tokenizer)
    reloaded = load(staging, str(model.device), "auto").model
    gated = ("gated", gated_runner(whole, plan))
    others = {"compact": runner(model), "reloaded": runner(reloaded)}
    comparisons = compare(gated, others, data, model.dtype)
    for comparison in comparisons:
        comparison.refuse_unequal()
    sha256 = model.config.head_plan["sha256"]
    certificate = Certificate(sha256, weights_sha256(staging), tuple(comparisons))
    certificate.write(staging)
    return certificate


def heads_record(loaded: Loaded, plan: Plan, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What every head card tells: the heads, and what was compared."""
    heads = loaded.heads
    return {
        "model": Path(loaded.name).name,
        "heads": {site: list(counts) for site, counts in heads.counts.items()},
        "staying": list(map(str, plan.staying(heads))),
        "leaving": list(map(str, plan.leaving(heads))),
        "auto_class": auto_class_of(loaded.model),
        "comparisons": [asdict(each) for each in comparisons],
    }


def gated_runner(loaded: Loaded, plan: Plan) -> Run:
    """What the model with all its heads gives when those that go are gated to zero."""
    model, anatomy = loaded.model, loaded.anatomy
    gates, run = plan.gates(anatomy.heads), runner(loaded.model)

    def run_gated(inputs: Inputs) -> list[Tensor]:
        with torch.inference_mode(), Tap(model, anatomy, gates=gates):
            return run(inputs)

    return run_gated
