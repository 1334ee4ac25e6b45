"""Recertify: a compact model that was trained further gets a new certificate and card.

Its weights are copied back into the dense model. With the pruned heads gated to zero, the dense
model must compute the same as the compact one.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch

from headcount.artifact.comparing import Data
from headcount.artifact.head_card import write_head_card
from headcount.artifact.making import certify, heads_record
from headcount.compaction import Projection, relative, restorable, restored
from headcount.core import ModelError, Plan
from headcount.models import Loaded, plan_for
from headcount.results import PRUNE, ChoiceRecord, PruneRecord
from headcount.tap import body_path


@final
@dataclass(frozen=True, eq=False)
class Origin:
    """A dense model, and which of its heads a compact model keeps."""

    dense: Loaded
    """The dense model."""
    plan: Plan
    """The plan of its kept heads."""

    def write(
        self, folder: Path, learned: Loaded, data: Data, record: PruneRecord | None = None
    ) -> None:
        """Write model, plan, certificate and card.

        Args:
            folder: Folder to write into.
            learned: The compact model.
            data: Data to compare the gated, compact and reloaded model on.
            record: What is known about the model besides; the heads alone if None.

        Raises:
            ModelError: If two of the three models differ.
        """
        gated = restored(self.dense, self.plan, learned)
        certificate = certify(folder, gated, self.plan, learned, data)
        made_for = learned.model.config.head_plan["model"]
        replace(self.plan, model=made_for).write(folder / "plan.json")
        record = record or heads_record(self.dense, self.plan, ())
        write_head_card(folder, replace(record, comparisons=certificate.comparisons))


def origin_of(smaller: Loaded, dense: Loaded) -> Origin:
    """The dense model and plan that a compact model comes from.

    Args:
        smaller: The compact model.
        dense: The dense model that it may come from, with any weights.

    Raises:
        ModelError: If it is not that model with fewer heads, or its weights can't be copied back.
    """
    found = smaller.model.config.head_plan
    counts = {site: list(each) for site, each in dense.heads.counts.items()}
    stock = vars(type(smaller.model)).get("stock_class")
    if found["heads"] != counts or type(dense.model) is not stock:
        raise ModelError(
            f"Expected a teacher of the kind that {smaller.name} was cut out of, got a "
            f"{type(dense.model).__name__} with {dense.heads}."
        )
    dense = _with_biases(dense, found["maps"])
    stay = Plan.of_kept(found["kept"]).kept_heads(dense.heads)
    plan = plan_for(dense, stay)
    same = restorable(dense, plan)
    if same is None:
        raise ModelError(
            f"The weights of a smaller {type(dense.model).__name__} can't be copied back into it."
        )
    shapes = [
        {name: each.shape for name, each in one.model.state_dict().items()}
        for one in (same, smaller)
    ]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"Expected a teacher of the size that {smaller.name} was cut out of, got another size."
        )
    return Origin(dense, plan)


def _with_biases(dense: Loaded, maps: Mapping[str, Mapping[str, Any]]) -> Loaded:
    """A copy with a zero bias where folding added one to the compact model; else the model."""
    body = body_path(dense.model)
    grown = [
        layer
        for layer in dense.anatomy.layers
        if layer.output
        and maps.get(relative(layer.output, body), {}).get("bias")
        and dense.model.get_submodule(layer.output).bias is None
    ]
    if not grown:
        return dense
    model = copy.deepcopy(dense.model)
    for layer in grown:
        projection = Projection.of(model, layer)
        projection.add_bias(torch.zeros(projection.weight_OM.shape[1]))
    return replace(dense, model=model)


def choice_of(folder: Path, origin: Origin) -> PruneRecord:
    """What stays true of a pruned model after training: its heads, and how they were chosen.

    Args:
        folder: Folder of the pruned model; without a record, nothing is known of the choice.
        origin: The dense model and the plan. Statements about a model that had already lost heads
            are not true of this dense model.

    Raises:
        InputError: If the record can't be read.
    """
    bare = heads_record(origin.dense, origin.plan, ())
    if not (folder / PRUNE).exists():
        return bare
    record = PruneRecord.read(folder)
    choice, ceiling = record.choice and replace(record.choice, tried=None), record.ceiling
    if record.heads != bare.heads:
        choice, ceiling = choice and _of_any_model(choice), None
    return replace(
        bare,
        choice=choice,
        ceiling=ceiling,
        compensated_by=record.kept_stages,
        trained_on=record.trained_on or 0,
    )


def _of_any_model(choice: ChoiceRecord) -> ChoiceRecord:
    """A choice without the numbers about a model's own heads."""
    return replace(choice, scores={}, open=None, swept=None, history=None)
