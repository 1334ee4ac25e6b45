"""Restore: what a compact model has learned goes back into the model with all heads.

So a pruned model trains at the cost of what is left of it: the heads that went take no part in its
gradients anyway. They have their old weights then, behind gates that are zero.
"""

import copy
from dataclasses import replace

import torch

from headcount.compaction.compact import compact, layers_of
from headcount.errors import InputError
from headcount.models.load import Loaded
from headcount.pruning.plan import Plan
from headcount.signature import revision


def restorable(loaded: Loaded, plan: Plan) -> Loaded | None:
    """The compact model, where `restored` can give back what it learns; else None.

    It can't where there is no exact compact model, nor where layers get tables of their own that
    they shared before (T5's position bias).

    Args:
        loaded: the model with all heads.
        plan: which of them stay, whatever weights it was made for.
    """
    fitting = replace(plan, model=revision(loaded.model))
    try:
        model = compact(loaded, fitting)
    except InputError:
        return None
    cuts = [cut for layer in layers_of(loaded.model, loaded.anatomy, plan) for cut in layer.cuts]
    if any(cut.source not in (None, cut.path) for cut in cuts):
        return None
    return Loaded(model, loaded.tokenizer, loaded.name)


def restored(loaded: Loaded, plan: Plan, smaller: Loaded) -> Loaded:
    """A copy of the model with all heads that has the weights of the compact one.

    Args:
        loaded: the model with all heads.
        plan: which of them stay.
        smaller: what `restorable` gave for them, with weights that have learned.
    """
    model = copy.deepcopy(loaded.model)
    cuts = [cut for layer in layers_of(model, loaded.anatomy, plan) for cut in layer.cuts]
    own = tuple(f"{cut.path}." for cut in cuts)
    here = model.state_dict()
    with torch.no_grad():
        for cut in cuts:
            cut.restore(model, smaller.model)
        for name, tensor in smaller.model.state_dict().items():
            if not name.startswith(own):
                here[name].copy_(tensor)
    return Loaded(model, loaded.tokenizer, loaded.name)
