"""Restore: copy the trained weights of a compact model back into the dense model.

This way a pruned model trains at the cost of its smaller size: pruned heads get no gradient anyway.
After restoring, they have their old weights behind gates of zero.

Departure: a step of Muon depends on the larger side of a map, which is smaller in a compact model
if heads or fused maps are wider than the model. Other steps equal those of the gated model.
"""

import copy
from dataclasses import replace

import torch

from headcount.compaction.compaction import check_equal, compact, layers_of
from headcount.compaction.cut import Cut
from headcount.compaction.layout import check_prunable_layers
from headcount.core import ModelError, Plan
from headcount.models import Loaded


def restorable(loaded: Loaded, plan: Plan) -> Loaded | None:
    """The compact model if `restored` can copy its trained weights back; else None.

    It can't if there is no exact compact model, or if layers get their own copies of a table that
    they shared before (T5's position bias).

    Args:
        loaded: The dense model.
        plan: Plan of its kept heads, made for any weights.

    Raises:
        InputError: If the plan does not fit the model.
    """
    fitting = replace(plan, model=None)
    try:
        check_prunable_layers(loaded.anatomy)
        if any(cut.source not in (None, cut.path) for cut in _cuts(loaded, fitting)):
            return None
        return Loaded(compact(loaded, fitting), loaded.tokenizer, loaded.name)
    except ModelError:
        return None


def restored(loaded: Loaded, plan: Plan, smaller: Loaded) -> Loaded:
    """A copy of the dense model that has the weights of the compact one.

    Args:
        loaded: The dense model.
        plan: Plan of its kept heads.
        smaller: Result of `restorable` for the same plan, with trained weights.

    Raises:
        ModelError: If the gated copy does not compute what the compact model computes.
    """
    model = copy.deepcopy(loaded.model).eval()
    cuts = _cuts(loaded, plan)
    own = tuple(f"{cut.path}." for cut in cuts)
    here = model.state_dict()
    with torch.no_grad():
        for cut in cuts:
            cut.restore(model, smaller.model)
        for name, tensor in smaller.model.state_dict().items():
            if not name.startswith(own):
                here[name].copy_(tensor)
    check_equal(model, loaded.anatomy, plan, smaller.model)
    return Loaded(model, loaded.tokenizer, loaded.name)


def _cuts(loaded: Loaded, plan: Plan) -> list[Cut]:
    layers = layers_of(loaded.model, loaded.anatomy, plan)
    return [cut for layer in layers for cut in layer.cuts]
