"""Learned on: a compact model that was trained further gets certificate and card again.

Its weights go back into the model with all heads, so that this, with the others gated to zero, can
be seen to compute the same as before.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch

from headcount.artifact.batches import Data
from headcount.artifact.head_card import RECORD, read_record, write_head_card
from headcount.artifact.make import certify, heads_record
from headcount.compaction import restorable, restored
from headcount.compaction.head_plan import relative
from headcount.errors import ModelError
from headcount.models.dead import body_path
from headcount.models.load import Loaded
from headcount.pruning.plan import Plan
from headcount.pruning.projection import Projection

CHOICE = ("method", "options", "limit", "keep", "scores", "open", "swept", "history", "ceiling")
"""What stays true of how the heads were chosen."""
OF_ITS_OWN = ("scores", "open", "swept", "history", "ceiling")
"""What is told of the model that was pruned: of heads by their numbers in it, and against it."""


@final
@dataclass(frozen=True, eq=False)
class Origin:
    """A model with all heads, and which of them a compact one has."""

    whole: Loaded
    plan: Plan

    def write(self, folder: Path, learned: Loaded, data: Data, record: Mapping[str, Any]) -> None:
        """Write model, plan, certificate and card.

        Args:
            folder: where to.
            learned: the compact model.
            data: gated, compact and reloaded model are compared on it.
            record: what else the card tells.

        Raises:
            ModelError: if two of the three differ.
        """
        gated = restored(self.whole, self.plan, learned)
        certificate = certify(folder, gated, self.plan, learned, data)
        made_for = learned.model.config.head_plan["model"]
        replace(self.plan, model=made_for).write(folder / "plan.json")
        about = heads_record(self.whole, self.plan, certificate.comparisons)
        write_head_card(folder, about | dict(record))


def origin_of(smaller: Loaded, whole: Loaded) -> Origin:
    """Where a compact model comes from.

    Args:
        smaller: the compact model.
        whole: the model with all heads that it may come from, whatever weights it has.

    Raises:
        ModelError: if it is no such model with fewer heads, or its weights do not go back.
    """
    found = smaller.model.config.head_plan
    counts = {site: list(each) for site, each in whole.heads.counts.items()}
    stock = vars(type(smaller.model)).get("stock_class")
    if found["heads"] != counts or type(whole.model) is not stock:
        raise ModelError(
            f"its teacher, a {type(whole.model).__name__} with {whole.heads}, is not of the kind "
            f"that {smaller.name} was cut out of"
        )
    whole = _with_biases(whole, found["maps"])
    stay = Plan.of_kept(found["kept"]).staying(whole.heads)
    plan = Plan.made_for(whole, stay)
    same = restorable(whole, plan)
    if same is None:
        raise ModelError(
            f"what a smaller {type(whole.model).__name__} learns can't go back into it"
        )
    shapes = [
        {name: each.shape for name, each in one.model.state_dict().items()}
        for one in (same, smaller)
    ]
    if shapes[0] != shapes[1]:
        raise ModelError(f"its teacher is of another size than {smaller.name} was cut out of")
    return Origin(whole, plan)


def _with_biases(whole: Loaded, maps: Mapping[str, Mapping[str, Any]]) -> Loaded:
    """A copy with a bias of zeros where folding gave the compact model one; else the model."""
    body = body_path(whole.model)
    grown = [
        layer
        for layer in whole.anatomy.layers
        if layer.output
        and maps.get(relative(layer.output, body), {}).get("bias")
        and whole.model.get_submodule(layer.output).bias is None
    ]
    if not grown:
        return whole
    model = copy.deepcopy(whole.model)
    for layer in grown:
        projection = Projection.of(model, layer)
        projection.add_bias(torch.zeros(projection.weight_OM.shape[1]))
    return replace(whole, model=model)


def choice_of(folder: Path, whole: Loaded) -> dict[str, Any]:
    """What the record of a pruned model's folder tells that stays true; nothing without one.

    Args:
        folder: of the pruned model.
        whole: the model with all heads. What was said of a model that had lost some before is not
            true of this one.

    Raises:
        InputError: for a record that can't be read.
    """
    if not (folder / RECORD).exists():
        return {}
    record = read_record(folder)
    mended = [gain["stage"] for gain in record.get("gains") or () if gain["kept"]]
    counts = {site: list(each) for site, each in whole.heads.counts.items()}
    lost = () if record.get("heads", counts) == counts else OF_ITS_OWN
    return {name: record[name] for name in CHOICE if name in record and name not in lost} | {
        "mended": record.get("mended", mended),
        "trained_on": record.get("trained_on", 0),
    }
