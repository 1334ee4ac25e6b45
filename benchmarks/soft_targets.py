"""Cost of the loss with label smoothing and a teacher, beside a chain of torch functions.

Both sides take the loss and its gradient for the same logits, in one process and in turns; a ratio
is the median over rounds of ratios within a round.

    python benchmarks/soft_targets.py
    python benchmarks/soft_targets.py --answers 30522 --threads 1
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isclose
from statistics import median
from typing import Literal

import torch
import tyro
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from headcount.training.distillation import Targets, soft_cross_entropy

WAYS = {
    "label smoothing": Targets(0.1),
    "teacher": Targets(0.0, 0.5),
    "both": Targets(0.1, 0.5),
    "both, T = 2": Targets(0.1, 0.5, 2.0),
}


@dataclass(frozen=True)
class Arguments:
    """Time losses."""

    places: int = 2000
    """Number of predicted tokens."""
    answers: int = 8000
    """Size of the vocabulary."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Dtype of the logits, that of the training."""
    rounds: int = 9
    """Number of rounds."""
    threads: int = 2
    """Number of torch threads."""


def main() -> None:
    """Print a Markdown table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(arguments.threads)
    generator, dtype = torch.Generator().manual_seed(0), getattr(torch, arguments.dtype)
    shape = (arguments.places, arguments.answers)
    student, teacher = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    labels = torch.randint(arguments.answers, shape[:1], generator=generator)
    print("| loss | one pass, of the time in a row | milliseconds, in a row |")
    print("|---|---|---|")
    for name, targets in WAYS.items():
        sides = [
            timed(way, student, labels, targets, teacher) for way in (soft_cross_entropy, in_a_row)
        ]
        first = [side() for side in sides]
        assert isclose(first[0][1], first[1][1], rel_tol=1e-3), first
        pairs = [turn(sides, number % 2 == 1) for number in range(arguments.rounds)]
        ratios = sorted(ours / usual for ours, usual in pairs)
        spread = f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        print(
            f"| {name} | {spread} | {1000 * median(usual for _, usual in pairs):.0f} |", flush=True
        )


def in_a_row(student: Tensor, labels: Tensor, targets: Targets, teacher: Tensor) -> Tensor:
    """The same loss from torch's own functions."""
    student = student.float()
    loss = cross_entropy(student, labels, label_smoothing=targets.smoothing)
    if not targets.distilled:
        return loss
    log_s, log_t = (
        log_softmax(each / targets.temperature, -1) for each in (student, teacher.float())
    )
    apart = targets.temperature**2 * kl_div(log_s, log_t, reduction="batchmean", log_target=True)
    return (1 - targets.distilled) * loss + targets.distilled * apart


def timed(
    way: Callable[..., Tensor], student: Tensor, labels: Tensor, targets: Targets, teacher: Tensor
) -> Callable[[], tuple[float, float]]:
    """A function that computes loss and gradient and returns its seconds and the loss."""

    def run() -> tuple[float, float]:
        logits = student.clone().requires_grad_()
        start = time.perf_counter()
        loss = way(logits, labels, targets, teacher)
        loss.backward()
        return time.perf_counter() - start, loss.item()

    return run


def turn(sides: list[Callable[[], tuple[float, float]]], backwards: bool) -> list[float]:
    """Seconds of each side; the two sides take turns in going first."""
    if backwards:
        return [side()[0] for side in sides[::-1]][::-1]
    return [side()[0] for side in sides]


if __name__ == "__main__":
    main()
