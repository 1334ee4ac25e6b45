"""Nested gates: gates that add up to a number of heads, and scores that are learned through them.

What is minimised is written in `matryoshka_score.py`.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from headcount.core import MAX_TOKENS, paced, silent_steps
from headcount.importance.ablations import replacement
from headcount.importance.choices import MatryoshkaOptions
from headcount.importance.gradients import Scores, by_layer, frozen, slopes
from headcount.tap import Anatomy, AnyModel, Tap, evaluating, examined, input_device
from headcount.tasks import Task, evaluate, groups

TEMPERATURE, NESTED_RATE = 0.5, 0.05
"""T, and Adam's rate."""
_SEED = 0
"""Seed of the examples and of the numbers of heads."""


def gates_of_size(
    score_LH: Float[Tensor, "learner head"], size_L: Float[Tensor, " learner"]
) -> Float[Tensor, "learner head"]:
    """Gates between 0 and 1 that add up to a size, open first where scores are high."""
    found_LH = score_LH.detach()
    reach = TEMPERATURE * (math.log(found_LH.shape[1]) + 10)
    low_L1, high_L1 = found_LH.amin(1, True) - reach, found_LH.amax(1, True) + reach
    for _ in range(60):
        middle_L1 = (low_L1 + high_L1) / 2
        is_open = ((found_LH - middle_L1) / TEMPERATURE).sigmoid().sum(1, True) > size_L[:, None]
        low_L1, high_L1 = middle_L1.where(is_open, low_L1), high_L1.where(is_open, middle_L1)
    open_LH = ((found_LH - low_L1) / TEMPERATURE).sigmoid()
    slope_LH = open_LH * (1 - open_LH)
    share_LH = slope_LH / slope_LH.sum(1, True).clamp_min(torch.finfo(torch.float64).tiny)
    moved_L1 = (share_LH * (score_LH - found_LH)).sum(1, True)  # 0, with the slope of tau
    return ((score_LH - low_L1 - moved_L1) / TEMPERATURE).sigmoid()


def drawn_sizes(
    random: np.random.Generator, shape: tuple[int, ...], total: int
) -> Float64[np.ndarray, "..."]:
    """Numbers of heads, log-uniform from 1 to all; each place of the last axis has its own part."""
    share = (random.uniform(size=shape) + np.arange(shape[-1])) / shape[-1]
    return np.exp(share * math.log(total))


def nested_scores(
    model: AnyModel,
    task: Task,
    options: MatryoshkaOptions,
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
) -> Scores:
    """Learn one score for each head, so that the best heads of any number do the task.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        options: How scores are learned.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    model, anatomy = examined(model, anatomy)
    quiet, total = task.watched(silent_steps), len(anatomy.heads)
    task.steps(0, options.steps)
    stand_in = replacement("mean", model, quiet, anatomy, max_tokens)
    whole = evaluate(model, quiet, max_tokens)
    whole_N = torch.from_numpy(whole.loss_N / np.maximum(whole.count_N, 1))
    score_H = torch.zeros(total, dtype=torch.float64, requires_grad=True)
    adam, random = torch.optim.Adam([score_H], lr=NESTED_RATE), np.random.default_rng(_SEED)
    drawn = drawn_examples(random, task.num_examples, options.step_examples)
    with evaluating(model), frozen(model), torch.enable_grad():
        for step in paced(range(options.steps), options.steps, "learning steps"):
            index_E = next(drawn)
            size_E = torch.from_numpy(drawn_sizes(random, (len(index_E),), total))
            slope_H = torch.zeros_like(score_H)
            for part in groups(task.length_N[index_E], max_tokens):
                batch = quiet.batch(index_E[part]).to(input_device(model))
                gate_EH = gates_of_size(score_H.expand(len(part), -1), size_E[part])
                gate_RH = gate_EH.float().to(input_device(model))[batch.example_R]
                with Tap(
                    model, anatomy, gates=by_layer(anatomy.heads, gate_RH), replacement=stand_in
                ):
                    losses = quiet.losses(model, batch)
                loss_E = losses.loss_E / losses.count_E.clamp_min(1)
                there_E = whole_N[index_E[part]].to(loss_E)
                loss = ((loss_E - there_E) ** 2).sum() / len(index_E)
                slope_H += slopes(loss, [score_H])[0]
            score_H.grad = slope_H
            adam.step()
            task.steps(step + 1, options.steps)
    return by_layer(anatomy.heads, score_H.detach())


def drawn_examples(
    random: np.random.Generator, number: int, size: int
) -> Iterator[Int[np.ndarray, " example"]]:
    """Numbers of the examples of every step, without end; each once before one comes again."""
    while True:
        order_N = random.permutation(number)
        yield from (order_N[start : start + size] for start in range(0, number, size))
