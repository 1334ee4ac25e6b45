"""Clock: the time of one call, or of several calls that take turns, and what it depends on."""

import gc
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from transformers import PreTrainedModel

from headcount.core import check_free_memory, paced
from headcount.models import processor, versions
from headcount.speed.costs import Work
from headcount.tap import AnyModel, evaluating, implementation_of, input_device, model_of

SHORTEST = 0.1
"""Minimum seconds that a round spends on a call; short calls are repeated for a median."""
MOST_REPEATS = 50


def latency(model: AnyModel, inputs: Mapping[str, Any], rounds: int = 5) -> float:
    """Seconds of one forward: the median of several rounds after a discarded one."""
    model = model_of(model)

    def work() -> object:
        return model(**inputs)

    with undisturbed(), evaluating(model), torch.inference_mode():
        repeats = repeats_of(timed(work, input_device(model)), SHORTEST)
        return median(timed(work, input_device(model), repeats) for _ in range(rounds))


def in_turns(
    works: Sequence[Work], rounds: int, device: torch.device, shortest: float = SHORTEST
) -> Float[np.ndarray, "round work"]:
    """Seconds of each call in each round; the order changes from round to round.

    A discarded round before the first one warms up and sets how often short calls are repeated.
    """
    with undisturbed(), torch.inference_mode():
        first = [timed(work, device) for work in works]
        again = [timed(work, device) for work in works]
        repeats = repeats_of(min(*first, *again), shortest)
        check_free_memory(rounds * len(works) * 8, f"the times of {rounds:,} rounds")
        seconds_RW = np.zeros((rounds, len(works)))
        turns = zip(seconds_RW, islice(cycle(orders(len(works))), rounds), strict=True)
        for row_W, order in paced(turns, rounds, "rounds"):
            for index in order:
                row_W[index] = timed(works[index], device, repeats)
    return seconds_RW


def orders(count: int) -> list[tuple[int, ...]]:
    """Orders in which each call has each place equally often, each order followed by its reverse.

    >>> orders(3)
    [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1), (1, 0, 2)]
    """
    rotations = [tuple((start + i) % count for i in range(count)) for start in range(count)]
    return [order for rotation in rotations for order in (rotation, rotation[::-1])]


def repeats_of(seconds: float, shortest: float) -> int:
    """Number of repeats that make a call take at least a given time."""
    return max(1, min(MOST_REPEATS, math.ceil(shortest / max(seconds, 1e-9))))


def timed(work: Work, device: torch.device, repeats: int = 1) -> float:
    """Seconds of one call, as the median of its repeats; waits until the device is done."""
    seconds = []
    for _ in range(repeats):
        _finish(device)
        start = time.perf_counter()
        work()
        _finish(device)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, garbage collection is off, so that it can't disturb a measurement."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _finish(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


CONFIDENCE = 0.95


@final
@dataclass(frozen=True)
class Ratio:
    """A mean ratio with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float] | Float[np.ndarray, " round"]) -> "Ratio":
        """The geometric mean over two or more rounds.

        >>> print(Ratio.of([1.5, 1.5, 1.5]), Ratio.of([1.0, 1.1, 1.2]))
        1.50 (1.50–1.50) 1.10 (0.87–1.38)
        """
        from scipy.stats import t as student

        log_R = np.log(np.asarray(ratios, dtype=float))
        assert len(log_R) > 1
        half = student.ppf((1 + CONFIDENCE) / 2, len(log_R) - 1)
        half *= log_R.std(ddof=1) / np.sqrt(len(log_R))
        middle = log_R.mean()
        ends = np.exp([middle, middle - half, middle + half])
        return cls(*(float(each) for each in ends))

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}–{self.high:.2f})"

    @property
    def distance(self) -> float:
        """Largest distance of the interval from 1, as a share: the change that noise can cause."""
        return max(self.high, 1 / self.low) - 1


@final
@dataclass(frozen=True)
class Machine:
    """What times depend on besides the models."""

    device: str
    name: str
    """Name of the GPU or of the CPU."""
    cores: int | None
    """Number of cores; None if the system does not say."""
    threads: int
    """Number of threads that torch uses."""
    load: float | None
    """Mean number of runnable processes before the run; None where the system has no number."""
    dtype: str
    """Number format of the model."""
    attention: str | None
    """Attention implementation of the model."""
    versions: Mapping[str, str]
    """Versions of the packages."""

    @classmethod
    def of(cls, model: PreTrainedModel) -> "Machine":
        """The machine that a model is on."""
        device = input_device(model)
        return cls(
            device=str(device),
            name=torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
            cores=os.cpu_count(),
            threads=torch.get_num_threads(),
            load=load(),
            dtype=str(model.dtype).removeprefix("torch."),
            attention=implementation_of(model),
            versions=versions(),
        )


def load() -> float | None:
    """Mean number of runnable processes in the last minute; None where the system has no number."""
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):  # Windows has none
        return None
