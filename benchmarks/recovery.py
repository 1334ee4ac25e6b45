"""Cost of a recovery step in the compact model, beside one in the gated model.

Both sides take the same batch of `headcount:en-de` with random heads and the dense model as
teacher: forward, backward and the optimizer's step, in one process and in turns; a ratio is the
median over rounds of ratios within a round.

    python benchmarks/recovery.py
    python benchmarks/recovery.py --keep 72 --optimizer adamw
"""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from math import isclose
from statistics import median
from typing import Literal

import torch
import tyro

from headcount import Plan, load
from headcount.compaction import restorable
from headcount.gates import Fixed, gating
from headcount.models import Loaded
from headcount.tasks import Translation, evaluate
from headcount.training import FinetuneConfig
from headcount.training.batches_trainer import quicker_steps
from headcount.training.distillation import DistillationLoss
from headcount.training.muon import MuonAdamW

SENTENCE = "the old dog that nobody wanted sleeps in the sun before our house ."


@dataclass(frozen=True)
class Arguments:
    """Time recovery steps."""

    keep: tuple[int, ...] = (72, 36, 12)
    """Number of kept heads."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """Optimizer of the layers' matrices."""
    tokens: int = 1500
    """Approximate number of tokens in a batch."""
    rounds: int = 9
    """Number of rounds."""
    threads: int = 2
    """Number of torch threads."""


def main() -> None:
    """Print a Markdown table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(arguments.threads)
    loaded = load("headcount:en-de")
    print("| heads that stay | a compact step, of the gated one's time | seconds, gated |")
    print("|---|---|---|")
    for keep in arguments.keep:
        stay = random.Random(0).sample(list(loaded.heads), keep)
        plan = Plan.keeping(loaded.heads, stay)
        smaller = restorable(loaded, plan)
        assert smaller is not None
        with ExitStack() as stack:
            gates = Fixed(plan.gates(loaded.heads))
            gated = Loaded(deepcopy(loaded.model), loaded.tokenizer, loaded.name)
            stack.enter_context(gating(gated.model, gates))
            refuse_other_loss(smaller, gated)
            steps = [stepper(each, loaded, arguments) for each in (smaller, gated)]
            for step in steps:
                step()
            pairs = [in_turns(steps, number % 2 == 1) for number in range(arguments.rounds)]
        ratios = sorted(compact / usual for compact, usual in pairs)
        spread = f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        seconds = median(usual for _, usual in pairs)
        print(f"| {keep} of {len(list(loaded.heads))} | {spread} | {seconds:.2f} |", flush=True)


def refuse_other_loss(smaller: Loaded, gated: Loaded) -> None:
    """Check that both sides compute the same."""
    task = Translation(smaller, {"source": [SENTENCE], "target": [SENTENCE]})
    losses = [evaluate(each.model, task).loss for each in (smaller, gated)]
    assert isclose(*losses, rel_tol=1e-4), losses


def in_turns(steps: list[Callable[[], float]], backwards: bool) -> list[float]:
    """Seconds of each side; the two sides take turns in going first."""
    if backwards:
        return [step() for step in steps[::-1]][::-1]
    return [step() for step in steps]


def stepper(student: Loaded, teacher: Loaded, arguments: Arguments) -> Callable[[], float]:
    """A function that makes one step and returns its seconds."""
    length = len(student.encoder().tokenizer(SENTENCE)["input_ids"])
    texts = [SENTENCE] * (arguments.tokens // length)
    task = Translation(student, {"source": texts, "target": texts})
    (batch,) = task.batches(10**6)
    tuning = FinetuneConfig(distilled=0.5, label_smoothing=0.1, optimizer=arguments.optimizer)
    lesson = DistillationLoss(student.model.train(), task, tuning, teacher.model)
    if arguments.optimizer == "muon":
        optimizer: torch.optim.Optimizer = MuonAdamW(lesson, 1e-9, 0.999)
    else:
        optimizer = torch.optim.AdamW(lesson.parameters(), 1e-9, fused=True)

    def step() -> float:
        start = time.perf_counter()
        with quicker_steps(student.model.device):
            loss = lesson(batch)["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(lesson.parameters(), tuning.clip)
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    return step


if __name__ == "__main__":
    main()
