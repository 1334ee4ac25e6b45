r"""Cache: bytes that a decoder keeps of every token, so that it is not read again.

$$\text{bytes a token} = \sum_l \text{(key size + value size)} \cdot \text{key/value heads}_l \cdot
\text{bytes of a number}$$

The sum is over the layers, usually 2 x key/value heads x head size x bytes. It is not computed from
a configuration but counted in the cache that the model itself returns for a short batch, so layers
that share a cache, keep none or have keys of another size than values need no special case. A layer
with a sliding window keeps no more tokens than its window has; an encoder-decoder also keeps keys
and values of every source token. A layer of a compact model that lost all heads keeps one group, of
zeros, since the stock class has no layer without. States of a fixed size (linear attention) are not
counted.
"""

from collections import Counter
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from headcount.models import Loaded
from headcount.results import CachePart, CacheRecord
from headcount.tap import ERRORS, evaluating, sample_runs


def cache_parts(loaded: Loaded) -> tuple[CachePart, ...]:
    """The parts of a model's cache; none for a model that generates nothing, or not with one."""
    model, cache = loaded.model, None
    # Some models fail with a cache, and some on inputs that are made up
    with evaluating(model), torch.inference_mode(), suppress(*ERRORS):
        run = sample_runs(model).get("with a cache")
        cache = None if run is None else run.cache(model)
    found = Counter[tuple[str, int | None]]()
    for site, name in (
        ("decoder.self", "self_attention_cache"),
        ("decoder.cross", "cross_attention_cache"),
    ):
        part = getattr(cache, name, cache if site == "decoder.self" else None)
        for layer in getattr(part, "layers", ()):
            found[site, getattr(layer, "sliding_window", None)] += _bytes_per_token(layer)
    return tuple(CachePart(*place, number) for place, number in found.items() if number)


def _bytes_per_token(layer: Any) -> int:
    """Bytes of one token in a layer of transformers' cache; 0 if the layer keeps no token."""
    kept = [getattr(layer, name, None) for name in ("keys", "values")]
    tensors = [each for each in kept if isinstance(each, Tensor) and each.numel()]
    return sum(each[:1, :, :1].numel() * each.element_size() for each in tensors)


def cache_record(dense: Loaded, pruned: Loaded) -> CacheRecord | None:
    """The caches of a dense model and of the model pruned from it; None without a cache."""
    parts = cache_parts(dense)
    if not parts:
        return None
    dtype = str(dense.model.dtype).removeprefix("torch.")
    return CacheRecord(dtype, parts, cache_parts(pruned))
