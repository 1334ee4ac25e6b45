r"""FLOPs: multiplications and additions of matrix products, counted while a model runs.

torch's `FlopCounterMode` counts linear maps, convolutions, and attention's two products. A
multiplication and an addition are two FLOPs; a decoder's mask saves none. Softmax, norms and
activations are not counted: they are few, but not free.

Cache: bytes that a decoder keeps of every token, so that it is not read again.

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

import math
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel
from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)

from headcount.models import Loaded, place_of, plan_in, shards
from headcount.results import CachePart, CacheRecord, SizeRecord
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
    return CacheRecord(_format_of(dense), parts, cache_parts(pruned))


def size_record(dense: Loaded, pruned: Loaded) -> SizeRecord:
    """The bytes of the weights of a dense model and of the model pruned from it."""
    return SizeRecord(_format_of(dense), *(parameter_bytes(each.model) for each in (dense, pruned)))


def parameter_bytes(model: PreTrainedModel) -> int:
    """Bytes of a model's parameters; shared ones are counted once."""
    return sum(each.numel() * each.element_size() for each in model.parameters())


def _format_of(loaded: Loaded) -> str:
    return str(loaded.model.dtype).removeprefix("torch.")


Work = Callable[[], object]
"""A call to count or time, with its inputs bound."""


def counter() -> FlopCounterMode:
    """A context that counts FLOPs, including fused attention on the CPU.

    torch has formulas only for fused GPU kernels; on a CPU it would skip attention.
    """
    of_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(display=False, custom_mapping={of_cpu: _fused_attention})


def flops(work: Work) -> int:
    """FLOPs of one call."""
    with counter() as counted:
        work()
    return counted.get_total_flops()


def _fused_attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """FLOPs of the scores and of their product with the values, computed from shapes."""
    batch, num_heads, num_queries, head_dim = query
    num_keys, value_dim = value[-2:]
    return 2 * batch * num_heads * num_queries * num_keys * (head_dim + value_dim)


def peak_bytes(work: Work, device: torch.device) -> float:
    """Peak bytes without weights and inputs; NaN where a device has no such number."""
    peaks = {"cpu": _of_cpu, "cuda": _of_cuda}
    with torch.inference_mode():
        work()  # allocates lasting caches, which are not counted
        return peaks[device.type](work, device) if device.type in peaks else math.nan


def _of_cpu(work: Work, device: torch.device) -> float:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it logs start and stop to stderr
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    results = profiled.profiler.kineto_results if profiled.profiler else None
    assert results is not None
    events: list[Any] = [each for each in results.events() if each.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return float(peak)


def _of_cuda(work: Work, device: torch.device) -> float:
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    torch.cuda.synchronize(device)
    return float(torch.cuda.max_memory_allocated(device) - before)


WEIGHTS = (SAFE_WEIGHTS_NAME, "*.safetensors", WEIGHTS_NAME)
INDICES = (SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_INDEX_NAME)


@final
@dataclass(frozen=True)
class Size:
    """Number and bytes of a model's parameters."""

    parameters: int
    """Number of parameters; shared ones are counted once."""
    parameter_bytes: int
    """Bytes in the number format that the model runs in."""
    disk_bytes: int | None
    """Bytes of the weight files; None for a model that is not in a folder."""
    cache: tuple[CachePart, ...] = ()
    """Parts of the key/value cache; none for a model that generates nothing."""

    @classmethod
    def of(cls, loaded: Loaded) -> "Size":
        """The size of a loaded model."""
        return cls(
            sum(each.numel() for each in loaded.model.parameters()),
            parameter_bytes(loaded.model),
            _on_disk(folder) if _holds(folder := Path(place_of(loaded.name)), loaded) else None,
            cache_parts(loaded),
        )


def _holds(folder: Path, loaded: Loaded) -> bool:
    """Whether a folder holds this model, not the dense one that a compact model is named after."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None:
        return True
    found = plan_in(folder)
    return isinstance(found, dict) and found.get("sha256") == plan["sha256"]


def _on_disk(folder: Path) -> int | None:
    """Bytes of the files that are loaded; others with the same weights may lie beside them."""
    for index in INDICES:
        if (folder / index).exists():
            return sum((folder / name).stat().st_size for name in shards(folder / index))
    for pattern in WEIGHTS:
        if files := list(folder.glob(pattern)):
            return sum(file.stat().st_size for file in files)
    return None
