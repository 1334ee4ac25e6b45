"""Matryoshka attribution as a score: gates by the book, learning by a loop, a planted head."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headcount.core import InputError
from headcount.importance import gates_of_size, matryoshka
from headcount.models import Loaded
from headcount.tasks import Task
from tests.tasks.loaded import TASKS

STEPS, EXAMPLES = 2, 2


def by_the_book(scores: list[float], size: float) -> list[float]:
    """Gates by a search for the threshold in steps that halve."""
    low, high = min(scores) - 100, max(scores) + 100
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(1 / (1 + math.exp(-(each - middle) / 0.5)) for each in scores)
        low, high = (middle, high) if total > size else (low, middle)
    return [1 / (1 + math.exp(-(each - low) / 0.5)) for each in scores]


def slope_by_the_book(scores: list[float], size: float, head: int) -> np.ndarray:
    """By how much each gate moves with a head's score, by a small step to either side."""
    ends = []
    for step in (1e-5, -1e-5):
        moved = [*scores]
        moved[head] += step
        ends.append(np.array(by_the_book(moved, size)))
    return (ends[0] - ends[1]) / 2e-5


def test_gates_add_up_to_a_size_and_have_its_slope() -> None:
    random = np.random.default_rng(0)
    scores, sizes = random.normal(0, 2, (3, 7)), [1.0, 3.5, 6.9]
    scores[2] = 0  # as at the start
    score_LH = torch.tensor(scores, requires_grad=True)
    gate_LH = gates_of_size(score_LH, torch.tensor(sizes))
    for row, size, gate in zip(scores, sizes, gate_LH.tolist(), strict=True):
        assert gate == pytest.approx(by_the_book(row.tolist(), size), abs=1e-6)
        assert sum(gate) == pytest.approx(size, abs=1e-6)
    weight_LH = random.normal(size=(3, 7))
    total = (gate_LH * torch.tensor(weight_LH)).sum()
    (slope_LH,) = torch.autograd.grad(total, score_LH)
    for learner, head in [(0, 0), (0, 4), (1, 2), (2, 6)]:
        slope_H = slope_by_the_book(scores[learner].tolist(), sizes[learner], head)
        expected = np.dot(slope_H, weight_LH[learner])
        assert float(slope_LH[learner, head]) == pytest.approx(expected, abs=1e-4)


@contextmanager
def projected(loaded: Loaded, change: Any) -> Iterator[None]:
    """Inside, what enters each layer's output projection is changed, by the layer's number."""
    handles = []
    for number, layer in enumerate(loaded.anatomy.layers):

        def before(module: nn.Module, args: Any, number: int = number) -> Any:
            new = change(number, args[0])
            return None if new is None else (new.to(args[0].dtype), *args[1:])

        module = loaded.model.get_submodule(layer.output or "")
        handles.append(module.register_forward_pre_hook(before))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def means_of(loaded: Loaded, task: Task) -> list[Tensor]:
    """The mean of what enters each projection, over the tokens of all examples, one at a time."""
    seen: list[list[Tensor]] = [[] for _ in loaded.anatomy.layers]

    def hear(number: int, given: Tensor) -> None:
        seen[number].append(given.flatten(0, -2).double())

    with torch.no_grad(), projected(loaded, hear):
        for example in range(task.num_examples):
            task.losses(loaded.model, task.batch(np.array([example])))
    return [torch.cat(each).mean(0) for each in seen]


def loss_of(
    loaded: Loaded, task: Task, example: int, gate_H: Tensor, means: list[Tensor]
) -> Tensor:
    """The loss by term of an example with every head in part as it is."""
    parts = gate_H.split([layer.num_heads for layer in loaded.anatomy.layers])

    def mix(number: int, given: Tensor) -> Tensor:
        gate = parts[number].repeat_interleave(loaded.anatomy.layers[number].head_dim)
        return gate * given + (1 - gate) * means[number]

    with projected(loaded, mix):
        losses = task.losses(loaded.model, task.batch(np.array([example])))
    return losses.loss_E.sum().double() / int(losses.count_E.sum())


@pytest.mark.parametrize("name", ["masked-bert", "causal-llama"])
def test_scores_are_those_of_a_loop_over_examples_and_heads(name: str) -> None:
    """Adam on slopes that go through each gate by itself; sizes from parts of the range."""
    loaded, task = TASKS[name]()
    total, means = len(loaded.heads), means_of(loaded, task)
    found = matryoshka(loaded, task, STEPS, EXAMPLES)
    random = np.random.default_rng(0)
    order = random.permutation(task.num_examples).tolist()
    scores, m, v = ([0.0] * total for _ in range(3))
    for t in range(1, STEPS + 1):
        examples = order[EXAMPLES * (t - 1) : EXAMPLES * t]
        share = random.uniform(size=EXAMPLES)
        slope_H = np.zeros(total)
        for place, example in enumerate(examples):
            size = total ** ((share[place] + place) / EXAMPLES)
            gate = torch.tensor(by_the_book(scores, size), dtype=torch.float64, requires_grad=True)
            whole = loss_of(loaded, task, example, torch.ones(total), means).detach()
            lost = loss_of(loaded, task, example, gate, means) - whole
            (slope,) = torch.autograd.grad(lost**2 / EXAMPLES, gate)
            for head in range(total):
                slope_H[head] += np.dot(slope_by_the_book(scores, size, head), slope.numpy())
        for head, g in enumerate(slope_H.tolist()):
            m[head], v[head] = 0.9 * m[head] + 0.1 * g, 0.999 * v[head] + 0.001 * g**2
            step = (m[head] / (1 - 0.9**t)) / (math.sqrt(v[head] / (1 - 0.999**t)) + 1e-8)
            scores[head] -= 0.05 * step
    ours = [float(found[head.layer_id][head.index]) for head in loaded.heads]
    np.testing.assert_allclose(ours, scores, atol=1e-3)


def test_what_can_not_be_learned_is_refused() -> None:
    loaded, task = TASKS["masked-bert"]()
    wrong: dict[str, Any]
    for wrong, says in [
        ({"steps": 0}, "Expected steps of at least 1, got 0"),
        ({"step_examples": -1}, "Expected step_examples of at least 1"),
    ]:
        with pytest.raises(InputError, match=says):
            matryoshka(loaded, task, **wrong)
