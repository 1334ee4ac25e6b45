"""Memory: the most that one call holds at a time, beyond what was there before it.

On a CPU every allocation is noted by torch's profiler and added up, which gives the same bytes at
every run: resident memory of a process would count what its allocator keeps, too. What libraries
below torch allocate for themselves is not seen. On CUDA it is `torch.cuda.max_memory_allocated`.
"""

import math
import os
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from headcount.speed.flops import Work


def peak_bytes(work: Work, device: torch.device) -> float:
    """Bytes at the peak, weights and inputs not counted; NaN where a device can't tell."""
    peaks = {"cpu": _of_cpu, "cuda": _of_cuda}
    with torch.inference_mode():
        work()  # caches that stay are not the call's
        return peaks[device.type](work, device) if device.type in peaks else math.nan


def _of_cpu(work: Work, device: torch.device) -> float:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells stderr that it starts and stops
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
