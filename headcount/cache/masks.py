r"""Masks: a model whose streaming groups don't see what they would not hold; the definition.

A query $q$ of a head in a streaming group sees a key $k$ that the model lets it see if

$$k - k_0(q) < \text{sink} \quad\text{or}\quad q - k < \text{recent}$$

where $k_0(q)$ is the first key that the model lets it see: 0, or behind padding on the left the
first token. Keys are computed as ever, and keep their positions; only what is seen differs. What a
group keeps is the same while a prompt is read and while tokens are generated, so this is what a
cache that streams must compute.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from headcount.cache.plan import CachePlan
from headcount.cache.split import fused, splits_of
from headcount.tap import Anatomy, AnyModel, dispatching, examined


@contextmanager
def streaming_masks(
    model: AnyModel, plan: CachePlan, anatomy: Anatomy | None = None
) -> Iterator[None]:
    """Inside, heads of the plan's streaming groups see the first and the last tokens only.

    It saves no memory. It works with and without a cache, one of transformers' own.

    >>> with streaming_masks(model, plan):  # doctest: +SKIP
    ...     logits = model(**inputs).logits

    Args:
        model: a transformers model, or what `load` returns.
        plan: which groups stream.
        anatomy: the result of an earlier `examine(model)`; examined now if None.

    Raises:
        InputError: for a plan that is not one of the model.
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    splits = {module: split for _, module, split in splits_of(plan, whole, anatomy)}

    def attend(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        mask, split = attention_mask, splits.get(module)
        if split is None:
            return fused(module, query, key, value, mask, kwargs), None
        split.check(module, key, mask)
        if mask is None:
            mask = query.new_ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool)
        narrow = streaming_mask(mask, plan.sink, plan.recent)
        outputs = [
            fused(
                module,
                part.of_heads(query),
                part.of_groups(key),
                part.of_groups(value),
                seen,
                kwargs,
            )
            for part, seen in ((split.full, mask), (split.streaming, narrow))
            if len(part.heads)
        ]
        return split.joined(outputs), None

    with dispatching(whole, attend, anatomy.implementation or "sdpa"):
        yield


def streaming_mask(
    mask_B1QK: Bool[Tensor, "batch 1 query key"], sink: int, recent: int
) -> Bool[Tensor, "batch 1 query key"]:
    """What a streaming group sees of what a model sees: the first keys and the last."""
    num_queries, num_keys = mask_B1QK.shape[-2:]
    key_K = torch.arange(num_keys, device=mask_B1QK.device)
    query_Q1 = key_K[num_keys - num_queries :, None]
    first_B1Q1 = mask_B1QK.byte().argmax(-1, keepdim=True)
    return mask_B1QK & ((key_K - first_B1Q1 < sink) | (query_Q1 - key_K < recent))
