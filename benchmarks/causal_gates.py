"""Causal gates beside those of the authors' package, on prompts of indirect objects.

python benchmarks/causal_gates.py MODEL OUT

Both are trained by as many updates of as many prompts. The authors' package (PyPI
nam-causal-head-gating, which no part of headcount needs) trains two sets on all 64 prompts, ours
one on each of two halves. What is left with facilitating heads only is measured on 32 prompts that
trained nothing. Trained gates are kept in OUT, so that a run that was stopped goes on.
"""

import random
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tyro

import headcount
from headcount.core import Head, Plan
from headcount.importance.choices import CausalGatesOptions
from headcount.importance.gate_sets import gate_sets
from headcount.models import Loaded
from headcount.statistics import rank_correlations
from headcount.tap import Tap
from headcount.tasks import CausalLanguageModelling, Task, evaluate

NAMES = (
    *("Mary", "John", "Tom", "Sarah", "Anna", "Paul", "Mark", "David", "Peter", "James", "Emma"),
    *("Lucy", "Kate", "Jack", "Laura", "Simon", "Alice", "Robert"),
)
TEMPLATES = (
    "When {a} and {b} went to the store, {s} gave a drink to",
    "After {a} and {b} sat down for lunch, {s} passed the salt to",
    "Then {a} and {b} had a long argument, and {s} said sorry to",
    "While {a} and {b} were working at the office, {s} gave a letter to",
    "When {a} and {b} walked to the park, {s} handed a flower to",
    "Friends {a} and {b} found a ring at the beach, and {s} gave it to",
)
TRAINED, HELD_OUT, DRAWS = 64, 32, 5


@dataclass(frozen=True)
class Arguments:
    """Facilitating heads by two implementations."""

    model: tyro.conf.Positional[str]
    """A language model."""
    out: tyro.conf.Positional[Path]
    """Folder for trained gates."""
    updates: int = 60
    """Number of updates in each stage."""
    prompts: int = 4
    """Number of prompts in an update."""


def drawn(number: int, seed: int = 0) -> list[tuple[str, str]]:
    """Prompts of indirect objects, each with the name that follows."""
    chance, found = random.Random(seed), list[tuple[str, str]]()
    while len(found) < number:
        a, b = chance.sample(NAMES, 2)
        subject = chance.choice([a, b])
        rest = a if subject == b else b
        row = (chance.choice(TEMPLATES).format(a=a, b=b, s=subject), f" {rest}")
        if row not in found:
            found.append(row)
    return found


def names_task(loaded: Loaded, rows: list[tuple[str, str]]) -> Task:
    """A task whose loss is that of the name after every prompt, one token."""
    task = CausalLanguageModelling(loaded, {"text": ["".join(row) for row in rows]})
    task.pieces = [(ids, [False] * (len(ids) - 1) + [True]) for ids, _ in task.pieces]
    return task


def ours(loaded: Loaded, task: Task, arguments: Arguments) -> Mapping[str, np.ndarray]:
    """Gates of a set on each half."""
    options = CausalGatesOptions(1, arguments.updates, arguments.prompts)
    found = gate_sets(loaded, task, options)
    return {"opened": found.opened_SH, "closed": found.closed_SH}


def theirs(loaded: Loaded, task: Any, arguments: Arguments) -> Mapping[str, np.ndarray]:
    """Gates of two sets by the authors' package, in float32."""
    package: Any = import_module("causal_head_gating")  # not installed with headcount
    torch.manual_seed(0)
    size = max(len(ids) for ids, _ in task.pieces)
    ids_NT = torch.zeros(len(task.pieces), size, dtype=torch.long)
    asked_NT = torch.zeros(ids_NT.shape, dtype=torch.bool)
    for row, (ids, asked) in enumerate(task.pieces):
        ids_NT[row, : len(ids)], asked_NT[row, : len(ids)] = torch.tensor(ids), torch.tensor(asked)
    data = package.CHGDataset.from_tokens(ids_NT, asked_NT, 0)
    model = loaded.model.requires_grad_(False)
    trainer = package.CHGTrainer(model, data, num_masks=2, batch_size=arguments.prompts)
    with patch("torch.amp.autocast", lambda *_, **__: nullcontext()):  # it takes bfloat16
        for _ in trainer.fit(arguments.updates, arguments.updates, verbose=False):
            pass
    found = trainer.get_final_masks()
    # Their names are the wrong way round: "necessary" gates are those whose opening is rewarded
    return {
        "opened": found["necessary"].flatten(1).double().numpy(),
        "closed": found["sufficient"].flatten(1).double().numpy(),
    }


def loss_with(loaded: Loaded, task: Task, kept: np.ndarray) -> float:
    """The loss with some heads only, by a boolean for every head."""
    heads: list[Head] = [head for head, stays in zip(loaded.heads, kept, strict=True) if stays]
    gates = Plan.keeping(loaded.heads, heads).gates(loaded.heads)
    with Tap(loaded.model, loaded.anatomy, gates=gates):
        return evaluate(loaded.model, task).loss


def show(name: str, loaded: Loaded, task: Task, kept: np.ndarray) -> None:
    """Print the loss with some heads only, beside as many random ones."""
    chance = np.random.default_rng(0)
    random_losses = [loss_with(loaded, task, chance.permutation(kept)) for _ in range(DRAWS)]
    print(
        f"{name}: {kept.sum()} heads, loss {loss_with(loaded, task, kept):.3f}, random "
        f"{np.mean(random_losses):.2f} ({min(random_losses):.2f} to {max(random_losses):.2f})",
        flush=True,
    )


def rho(one: np.ndarray, other: np.ndarray) -> str:
    """A rank correlation."""
    return f"{rank_correlations(one[None], other[None])[0]:.2f}"


def main(arguments: Arguments) -> None:
    """Train what is not there yet, and print what is left."""
    loaded = headcount.load(arguments.model)
    rows = drawn(TRAINED + HELD_OUT)
    train, held_out = (names_task(loaded, part) for part in (rows[:TRAINED], rows[TRAINED:]))
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, trained in {"ours": ours, "theirs": theirs}.items():
        file = arguments.out / f"{name}.npz"
        if not file.exists():
            np.savez(file, **trained(loaded, train, arguments))
        found[name] = dict(np.load(file))
    everything = np.ones(len(loaded.heads), dtype=bool)
    print(f"dense: loss {loss_with(loaded, held_out, everything):.3f}")
    for name, gates in found.items():
        is_open_SH, is_closed_SH = gates["closed"] > 0.5, gates["opened"] < 0.5
        for number, is_open_H in enumerate(is_open_SH):
            show(f"{name}, set {number}", loaded, held_out, is_open_H)
        show(f"{name}, all sets", loaded, held_out, is_open_SH.all(0))
        print(f"{name}: interfering {is_closed_SH.sum(1)}, all sets {is_closed_SH.all(0).sum()}")
        show(f"{name}, without interfering", loaded, held_out, ~is_closed_SH.all(0))
        for one, other in combinations(range(len(is_open_SH)), 2):
            print(f"{name}: sets {one} and {other} rho {rho(*gates['closed'][[one, other]])}")
    print(f"means: rho {rho(*(each['closed'].mean(0) for each in found.values()))}")
    for one in found["ours"]["closed"]:
        print("one of ours and theirs:", *(rho(one, each) for each in found["theirs"]["closed"]))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
