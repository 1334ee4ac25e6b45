r"""Blocking: chosen heads are kept from looking from chosen queries at chosen keys (knockout).

$$A_h(q, k) = \mathrm{softmax}_k\big(s_h(q, k) + \text{mask}(q, k) + b_h(q, k)\big), \qquad
b_h(q, k) = -\infty \text{ where blocked, else } 0$$

The weights of a query's other keys grow in proportion, so that they add up to what they did. The
output of a query that is left without keys is zero, as if its gate were.

Reference: Dissecting Recall of Factual Associations in Auto-Regressive Language Models (Geva et
al., 2023), section 5, https://arxiv.org/abs/2304.14767
"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from headcount.core import InputError, LayerId, ModelError
from headcount.tap.anatomy import Anatomy
from headcount.tap.seen_keys import visible

Blocked = Mapping[LayerId, Tensor]
"""Which scores are masked, by (site, layer): booleans [row, head, query, key], True where blocked.

An axis of size 1 stands for all. Layers without an entry are unchanged.
"""


def check_blocked(blocked: Blocked, anatomy: Anatomy, kind: str) -> None:
    """Check that scores of a model's layers can be blocked.

    Args:
        blocked: which scores are masked.
        anatomy: the model's anatomy.
        kind: name of the model's class.

    Raises:
        InputError: for tensors that are not boolean or don't have four axes.
        ModelError: for layers that the model does not have, for modules that take a softmax of
            their own, and for a model that failed the self-check of blocking.
    """
    layers = {layer.layer_id: layer for layer in anatomy.layers}
    for place, each in blocked.items():
        if each.dtype != torch.bool or each.ndim != 4:
            raise InputError(
                "Expected blocked scores as booleans [row, head, query, key], got "
                f"{each.dtype} {list(each.shape)} for {place.site} {place.layer}. Pass True where "
                "a score is blocked; an axis of size 1 stands for all."
            )
        if place not in layers:
            raise ModelError(
                f"Expected layers of this model ({anatomy.heads}) to block scores in, got "
                f"{place.site} {place.layer}."
            )
        if layers[place].by_own_softmax:
            why = "whose scores can't be blocked. Set gates of whole heads to 0."
            raise layers[place].not_ours(kind, why)
    if blocked and not anatomy.can_block:
        raise ModelError(
            f"Expected blocked scores to get no weight, but in the self-check of {kind} some got "
            "weight: its attention does not obey a mask for each head. Set gates of whole heads "
            "to 0."
        )


def narrowed(
    mask: Shaped[Tensor, "rows heads queries keys"] | None,
    blocked: Bool[Tensor, "blocked_rows blocked_heads blocked_queries blocked_keys"],
    query: Shaped[Tensor, "batch head query dim"],
    key: Shaped[Tensor, "batch key_value_head key dim"],
) -> tuple[Tensor, Tensor]:
    """A call's mask without what is blocked, and the queries [row, head, query, 1] without keys.

    Masks of the latter stay as they were, since a softmax of nothing is not a number; their outputs
    are to be set to zero. Padding that sees no key is among them.

    Args:
        mask: booleans (True = visible), or numbers that are added to scores; None shows all.
        blocked: the scores to mask.
        query: the call's queries.
        key: its keys.

    Raises:
        InputError: if the sizes of what is blocked are not the call's.
    """
    shape = [*query.shape[:3], key.shape[2]]
    if any(size not in (1, whole) for size, whole in zip(blocked.shape, shape, strict=True)):
        raise InputError(
            "Expected blocked scores [row, head, query, key] of the sizes "
            f"{shape}, or 1 for all, got {list(blocked.shape)}."
        )
    if mask is None:
        mask = torch.ones(1, 1, *shape[2:], dtype=torch.bool, device=blocked.device)
    empty_BHQ1 = ~(visible(mask) & ~blocked).any(-1, keepdim=True)
    hidden = blocked & ~empty_BHQ1
    if mask.dtype == torch.bool:
        return mask & ~hidden, empty_BHQ1
    return mask.masked_fill(hidden, torch.finfo(mask.dtype).min), empty_BHQ1
