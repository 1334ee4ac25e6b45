"""Memory: the peak memory of one call, beyond what was allocated before it.

On a CPU torch's profiler records every allocation. Their sum is the same in every run, whereas the
resident memory of a process would include what its allocator holds back. Allocations by libraries
below torch are not seen. On CUDA it is `torch.cuda.max_memory_allocated`.
"""

import math
import os
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from headcount.speed.flops import Work


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
