"""FLOPs: multiplications and additions of matrix products, counted while a model runs.

torch's `FlopCounterMode` counts linear maps, convolutions, and attention's two products. A
multiplication and an addition are two FLOPs; a decoder's mask saves none. Softmax, norms and
activations are not counted: they are few, but not free.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)

from headcount.models import Loaded, place_of
from headcount.results import CachePart
from headcount.speed.cache import cache_parts

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
        parameters = list(loaded.model.parameters())
        return cls(
            sum(each.numel() for each in parameters),
            sum(each.numel() * each.element_size() for each in parameters),
            _on_disk(folder) if _holds(folder := Path(place_of(loaded.name)), loaded) else None,
            cache_parts(loaded),
        )


def _holds(folder: Path, loaded: Loaded) -> bool:
    """Whether a folder holds this model, not the dense one that a compact model is named after."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None:
        return True
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["head_plan"]
        return found["sha256"] == plan["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _on_disk(folder: Path) -> int | None:
    """Bytes of the files that are loaded; others with the same weights may lie beside them."""
    for index in INDICES:
        if (folder / index).exists():
            named = json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"]
            return sum((folder / name).stat().st_size for name in {*named.values()})
    for pattern in WEIGHTS:
        if files := list(folder.glob(pattern)):
            return sum(file.stat().st_size for file in files)
    return None
