"""Restore: what a compact model has learned goes back into the model with all heads.

So a pruned model trains at the cost of what is left of it: the heads that went take no part in its
gradients anyway. They have their old weights then, behind gates that are zero.

Departure: a step of Muon goes by the larger side of a map, which is smaller in a compact model
where heads or fused maps are wider than the model; other steps are those of the gated model.
"""

import copy
from dataclasses import replace

import torch

from headcount.compaction.compact import compact, layers_of
from headcount.compaction.cut import Cut
from headcount.compaction.equality import refuse_unequal
from headcount.compaction.layout import refuse_rigid_layers
from headcount.errors import ModelError
from headcount.models.load import Loaded
from headcount.pruning.plan import Plan


def restorable(loaded: Loaded, plan: Plan) -> Loaded | None:
    """The compact model, where `restored` can give back what it learns; else None.

    It can't where there is no exact compact model, nor where layers get tables of their own that
    they shared before (T5's position bias).

    Args:
        loaded: the model with all heads.
        plan: which of them stay, whatever weights it was made for.

    Raises:
        InputError: if the plan does not fit the model.
    """
    fitting = replace(plan, model=None)
    try:
        refuse_rigid_layers(loaded.anatomy)
        if any(cut.source not in (None, cut.path) for cut in _cuts(loaded, fitting)):
            return None
        return Loaded(compact(loaded, fitting), loaded.tokenizer, loaded.name)
    except ModelError:
        return None


def restored(loaded: Loaded, plan: Plan, smaller: Loaded) -> Loaded:
    """A copy of the model with all heads that has the weights of the compact one.

    Args:
        loaded: the model with all heads.
        plan: which of them stay.
        smaller: what `restorable` gave for them, with weights that have learned.

    Raises:
        ModelError: if the copy, gated, does not compute what the compact model does.
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
    refuse_unequal(model, loaded.anatomy, plan, smaller.model)
    return Loaded(model, loaded.tokenizer, loaded.name)


def _cuts(loaded: Loaded, plan: Plan) -> list[Cut]:
    layers = layers_of(loaded.model, loaded.anatomy, plan)
    return [cut for layer in layers for cut in layer.cuts]
