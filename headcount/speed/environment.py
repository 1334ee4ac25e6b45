"""Machine: the conditions, apart from the models, that the times of a run depend on."""

import os
import platform
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from headcount.analysis import versions
from headcount.tap import implementation_of

_CPUS = Path("/proc/cpuinfo")


def machine(model: PreTrainedModel) -> dict[str, Any]:
    """Device, threads, load before the run, number format, attention, versions."""
    device = model.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {
        "device": str(device),
        "name": name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": load(),
        "dtype": str(model.dtype).removeprefix("torch."),
        "attention": implementation_of(model),
        "versions": versions(),
    }


def load() -> float | None:
    """Mean number of runnable processes in the last minute; None where the system has no number."""
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):  # Windows has none
        return None


def processor() -> str:
    """The name of the CPU, as the system reports it."""
    lines = _CPUS.read_text().splitlines() if _CPUS.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
