"""Sets of gates: gates of all heads, trained on a task in several sets at once, weights frozen.

Every row of a batch is repeated for each set, with that set's gates. What the gates of
`causal_gates_score.py` minimise is written there.

Checks of causal gates, on examples that trained none of them: what is left of the model.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    Head,
    Heads,
    InputError,
    Plan,
    check_free_memory,
    paced,
    silent_steps,
    spread,
)
from headcount.importance.choices import CausalGatesOptions
from headcount.importance.gradients import Scores, by_layer, frozen, slopes
from headcount.importance.nested_gates import drawn_examples
from headcount.models import Loaded
from headcount.results import AGREED, CausalGates, GateCheck
from headcount.statistics import loss_deltas, rank_correlations
from headcount.tap import Anatomy, AnyModel, Tap, evaluating, examined, input_device
from headcount.tasks import Evaluation, Task, evaluate, groups

_LARGEST = 4.0
"""Size of a gate's logit beyond which neither open nor closed gates are rewarded."""
_SEED = 0
"""Seed of the halves, the first gates and the order of examples."""


@final
@dataclass(frozen=True)
class GateSets:
    """Gates of every set after training, in the order of the model's heads."""

    heads: Heads
    starts: int
    """Number of sets on each half; the sets of a half follow each other."""
    opened_SH: Float64[np.ndarray, "set head"]
    """Gates where open gates are rewarded, g+."""
    closed_SH: Float64[np.ndarray, "set head"]
    """Gates where closed gates are rewarded, g-."""

    @property
    def facilitating_SH(self) -> Float64[np.ndarray, "set head"]:
        """How far heads stay open although closed gates are rewarded."""
        return self.closed_SH

    @property
    def interfering_SH(self) -> Float64[np.ndarray, "set head"]:
        """How far heads stay closed although open gates are rewarded."""
        return 1 - self.opened_SH

    @property
    def by_role(self) -> Mapping[str, Float64[np.ndarray, "set head"]]:
        """Both, by name."""
        return {"facilitating": self.facilitating_SH, "interfering": self.interfering_SH}

    def agreed(self, numbers_SH: Float64[np.ndarray, "set head"]) -> tuple[Head, ...]:
        """The heads whose smallest number over all sets is above `AGREED`."""
        least_H = numbers_SH.min(0)
        return tuple(head for head, each in zip(self.heads, least_H, strict=True) if each > AGREED)

    def scores(self) -> Scores:
        """Facilitating minus interfering, the mean over sets."""
        score_SH = self.facilitating_SH - self.interfering_SH
        return by_layer(self.heads, torch.from_numpy(score_SH.mean(0)))

    def parts(self) -> Mapping[str, Scores]:
        """Facilitating, interfering and irrelevant by column, with their ends over the sets."""
        found = dict[str, np.ndarray]()
        for name, numbers_SH in self.by_role.items():
            found |= {
                name: numbers_SH.mean(0),
                f"{name}_low": numbers_SH.min(0),
                f"{name}_high": numbers_SH.max(0),
            }
        found["irrelevant"] = (self.opened_SH * (1 - self.closed_SH)).mean(0)
        return {name: by_layer(self.heads, torch.from_numpy(each)) for name, each in found.items()}


def gate_sets(
    model: AnyModel,
    task: Task,
    options: CausalGatesOptions,
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
) -> GateSets:
    """Train sets of gates on each of two halves of a task's examples.

    Args:
        model: Model whose heads get gates.
        task: Task that defines the loss.
        options: How gates are trained.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Raises:
        InputError: For fewer than 4 examples.
    """
    model, anatomy = examined(model, anatomy)
    *halves, _ = split(task)
    total = 3 * options.updates * len(halves)
    training = _Training(model, task, anatomy, options, max_tokens)
    task.steps(0, total)

    def trained(number: int) -> tuple[np.ndarray, np.ndarray]:
        before = number * total // 2
        return training.trained(halves[number], lambda done: task.steps(before + done, total))

    with evaluating(model), frozen(model), torch.enable_grad():
        found = [*spread(trained, range(len(halves)), "halves")]
    opened_SH, closed_SH = (np.concatenate(each) for each in zip(*found, strict=True))
    return GateSets(anatomy.heads, options.starts, opened_SH, closed_SH)


def split(task: Task) -> tuple[Task, Task, Task]:
    """Two halves of three quarters of a task's examples, and the other quarter.

    Raises:
        InputError: For fewer than 4 examples.
    """
    number = task.num_examples
    if number < 4:
        raise InputError(
            "Expected at least 4 examples for causal gates, which are trained on two halves and "
            f"measured on other examples, got {number}. Give more data."
        )
    order_N = np.random.default_rng(_SEED).permutation(number)
    held_out = number // 4
    middle = (number + held_out) // 2
    parts = (order_N[held_out:middle], order_N[middle:], order_N[:held_out])
    one, other, rest = (task.some(np.sort(part)).watched(silent_steps) for part in parts)
    return one, other, rest


@final
@dataclass(frozen=True)
class _Training:
    """How sets of gates are trained."""

    model: PreTrainedModel
    task: Task
    anatomy: Anatomy
    options: CausalGatesOptions
    max_tokens: int

    def trained(
        self, half: Task, step: Callable[[int], None]
    ) -> tuple[Float64[np.ndarray, "set head"], Float64[np.ndarray, "set head"]]:
        """Gates of sets trained on some examples: where open, and where closed ones are rewarded.

        Args:
            half: The examples.
            step: Called with the number of updates so far.
        """
        updates, reward = self.options.updates, self.options.reward
        num = self.options.starts * len(self.anatomy.heads)
        check_free_memory(num * 4, f"gates of {self.options.starts:,} starts")
        generator = torch.Generator().manual_seed(_SEED)
        drawn_SH = torch.rand(
            (self.options.starts, len(self.anatomy.heads)), generator=generator
        ).clamp(1e-6, 1 - 1e-6)
        first_SH = self._stage(half, drawn_SH.logit(), 0.0, step)
        opened_SH = self._stage(half, first_SH, reward, lambda done: step(updates + done))
        closed_SH = self._stage(half, first_SH, -reward, lambda done: step(2 * updates + done))
        opened, closed = (each.sigmoid().double().numpy() for each in (opened_SH, closed_SH))
        return opened, closed

    def _stage(
        self,
        half: Task,
        start_SH: Float[Tensor, "set head"],
        reward: float,
        step: Callable[[int], None],
    ) -> Float[Tensor, "set head"]:
        """Logits after the updates of a stage."""
        logit_SH = start_SH.clone().requires_grad_()
        optimizer = torch.optim.Adam([logit_SH], lr=self.options.rate)
        random = np.random.default_rng(_SEED)
        drawn = drawn_examples(random, half.num_examples, self.options.update_examples)
        updates = self.options.updates
        for number, index_E in enumerate(paced(islice(drawn, updates), updates, "updates"), 1):
            rewarded = reward * logit_SH.clamp(-_LARGEST, _LARGEST).mean(1).sum()
            (slope_SH,) = slopes(-rewarded, [logit_SH])
            slope_SH = slope_SH + self._slope(half, logit_SH, index_E)
            logit_SH.grad = slope_SH / slope_SH.norm(dim=1, keepdim=True).clamp_min(1)
            optimizer.step()
            step(number)
        return logit_SH.detach()

    def _slope(
        self, half: Task, logit_SH: Float[Tensor, "set head"], index_E: Int[np.ndarray, " example"]
    ) -> Float[Tensor, "set head"]:
        """The gradient of the sets' losses on some examples."""
        total_SH = torch.zeros_like(logit_SH)
        budget = max(1, self.max_tokens // len(logit_SH))
        for part in groups(half.length_N[index_E], budget):
            losses_SE = self._losses(half, logit_SH.sigmoid(), index_E[part])
            total_SH += slopes(losses_SE.sum() / len(index_E), [logit_SH])[0]
        return total_SH

    def _losses(
        self, half: Task, gate_SH: Float[Tensor, "set head"], index_E: Int[np.ndarray, " example"]
    ) -> Float[Tensor, "set example"]:
        """Every set's loss by term of some examples."""
        batch = half.batch(index_E).to(input_device(self.model))
        every = batch.repeated(len(gate_SH))
        set_R = every.example_R // batch.num_examples
        gate_RH = gate_SH.to(input_device(self.model))[set_R]
        with Tap(self.model, self.anatomy, gates=by_layer(self.anatomy.heads, gate_RH)):
            losses = half.losses(self.model, every)
        loss_E = losses.loss_E / losses.count_E.clamp_min(1)
        return loss_E.view(len(gate_SH), -1)


DRAWS = 10
"""Number of draws of random heads."""


class _Left(NamedTuple):
    """Heads that are kept while the others are removed."""

    left: str
    kept: Collection[Head]
    head: str = ""


def gate_facts(
    loaded: Loaded, task: Task, sets: GateSets, max_tokens: int = MAX_TOKENS
) -> CausalGates:
    """On which heads all sets of gates agree, and what these are worth on other examples.

    Args:
        loaded: The model.
        task: The task whose halves trained the gates.
        sets: The gates.
        max_tokens: Number of padded tokens in a batch.
    """
    *halves, held_out = split(task)
    found = {role: sets.agreed(numbers_SH) for role, numbers_SH in sets.by_role.items()}
    lefts = [*_lefts(loaded, **found)]
    task.steps(0, len(lefts) + 1)
    base, without = evaluate(loaded.model, held_out, max_tokens), list[Evaluation]()
    for each in lefts:
        task.steps(len(without) + 1, len(lefts) + 1)
        without.append(_evaluated(loaded, held_out, each.kept, max_tokens))
    task.steps(len(lefts) + 1, len(lefts) + 1)
    by_role = dict[str, Any]()
    for role, numbers_SH in sets.by_role.items():
        sizes_S = (numbers_SH > AGREED).sum(1)
        by_role |= {
            role: tuple(map(str, found[role])),
            f"{role}_each": tuple(sizes_S.tolist()),
            f"{role}_chance": _by_chance(sizes_S, len(sets.heads)),
        }
    starts_rho, halves_rho = _correlations(sets)
    return CausalGates(
        starts=sets.starts,
        num_trained=tuple(half.num_examples for half in halves),
        num_held_out=held_out.num_examples,
        loss=base.loss,
        **by_role,
        starts_rho=starts_rho,
        halves_rho=halves_rho,
        checks=tuple(_checks(lefts, without, base)),
    )


def _lefts(
    loaded: Loaded, facilitating: Sequence[Head], interfering: Sequence[Head]
) -> Iterator[_Left]:
    """What is kept in every check; random heads are drawn `DRAWS` times."""
    everything, generator = [*loaded.heads], np.random.default_rng(0)

    def at_random(number: int) -> list[Head]:
        return [everything[at] for at in generator.choice(len(everything), number, replace=False)]

    yield _Left("only facilitating", facilitating)
    for _ in range(DRAWS):
        yield _Left("only random", at_random(len(facilitating)))
    if interfering:
        yield _Left("without interfering", {*everything} - {*interfering})
        for _ in range(DRAWS):
            yield _Left("without random", at_random(len(everything) - len(interfering)))
    for head in interfering:
        yield _Left("without", {*everything} - {head}, str(head))


def _evaluated(loaded: Loaded, task: Task, kept: Collection[Head], max_tokens: int) -> Evaluation:
    """The evaluation with some heads only."""
    gates = Plan.keeping(loaded.heads, kept).gates(loaded.heads)
    with Tap(loaded.model, loaded.anatomy, gates=gates):
        return evaluate(loaded.model, task, max_tokens)


def _checks(
    lefts: Sequence[_Left], without: Sequence[Evaluation], base: Evaluation
) -> Iterator[GateCheck]:
    """The checks in order; those of random heads as one, with the range of their draws."""
    loss_AN = np.stack([each.loss_N for each in without])
    found = loss_deltas(loss_AN, base.loss_N, base.count_N)
    for number, one in enumerate(lefts):
        same = [at for at, each in enumerate(lefts) if each.left == one.left]
        is_random = one.left in ("only random", "without random")
        if is_random and number != same[0]:
            continue
        drawn = found.delta[same]
        low, high = (
            (drawn.min(), drawn.max()) if is_random else (found.low[number], found.high[number])
        )
        yield GateCheck(
            left=one.left,
            head=one.head,
            num_kept=len(one.kept),
            delta=float(drawn.mean() if is_random else found.delta[number]),
            low=float(low),
            high=float(high),
        )


def _by_chance(sizes_S: np.ndarray, num_heads: int) -> float:
    """How many heads independent random sets of these sizes share on average."""
    return float(num_heads * np.prod(sizes_S / num_heads))


def _correlations(sets: GateSets) -> tuple[float, float]:
    """Rank correlations of facilitation: between starts on the same half, and between halves."""
    half_HSN = sets.facilitating_SH.reshape(2, sets.starts, -1)
    pairs = [pair for half_SN in half_HSN for pair in combinations(half_SN, 2)]
    means = half_HSN.mean(1)
    return _mean_rho(pairs), _mean_rho([(means[0], means[1])])


def _mean_rho(pairs: Sequence[tuple[Float64[np.ndarray, " head"], ...]]) -> float:
    """The mean rank correlation of pairs; NaN without any."""
    if not pairs:
        return float("nan")
    one, other = (np.stack(each) for each in zip(*pairs, strict=True))
    return float(rank_correlations(one, other).mean())
