"""Causal gates: against a loop over sets, examples and heads, and what is left on other data."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import Head, Heads, InputError
from headcount.importance import CausalGatesOptions, Options, assess, causal_gates
from headcount.importance.gate_sets import GateSets, gate_facts, split
from headcount.models import Loaded
from headcount.pages import document_of
from headcount.results import ImportanceRecord
from headcount.tap import gated
from headcount.tasks import Losses, Task, TaskBatch, evaluate
from headcount.testing import leaving_no_trace
from tests.tasks.loaded import TASKS
from tests.textbook import causal_gates as textbook

CASES = [
    *(("masked-bert", 4096, 300), ("causal-llama", 40, 1), ("translation-Marian", 4096, 1)),
    *(("similarity-bert", 40, 1), ("choice-gpt2", 4096, 1)),
]
"""Tasks, tokens of a batch, and a factor of losses: gradients above 1 are clipped set by set."""
REWARD, RATE, UPDATES = 0.3, 0.7, 2


@contextmanager
def hooked(loaded: Loaded, gates: Tensor) -> Iterator[None]:
    """The slow way: every head's slice of what enters its output projection, times its gate."""
    gate = dict(zip(map(str, loaded.heads), gates, strict=True))
    handles = []
    for layer in loaded.anatomy.layers:
        names = [str(Head(layer.site, layer.layer, head)) for head in range(layer.num_heads)]
        each = torch.stack([gate[name] for name in names]).repeat_interleave(layer.head_dim)

        def multiply(module: nn.Module, args: Any, each: Tensor = each) -> Any:
            return (args[0] * each.to(args[0].dtype), *args[1:])

        projection = loaded.model.get_submodule(layer.output or "")
        handles.append(projection.register_forward_pre_hook(multiply))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def halves(number: int) -> tuple[list[int], list[int], list[int]]:
    """The examples of both halves, and those that train nothing."""
    order = np.random.default_rng(0).permutation(number).tolist()
    middle = (number + number // 4) // 2
    ends = (0, number // 4, middle, number)
    rest, one, other = (sorted(order[start:end]) for start, end in pairwise(ends))
    return one, other, rest


def louder(task: Task, factor: int) -> Task:
    """A task with larger losses."""

    def losses(model: PreTrainedModel, batch: TaskBatch) -> Losses:
        found = task.losses(model, batch)
        return replace(found, loss_E=found.loss_E * factor)

    loud: Any = copy(task)
    loud.losses = losses
    return loud


@pytest.mark.slow
@pytest.mark.parametrize(("name", "max_tokens", "factor"), CASES)
def test_scores_are_those_of_a_loop_over_sets_examples_and_heads(
    name: str, max_tokens: int, factor: int
) -> None:
    """Grouped queries, cross-attention, two rows for an example, several rows for a prompt."""
    loaded, task = TASKS[name]()
    task = louder(task, factor)
    options = CausalGatesOptions(2, UPDATES, update_examples=2, reward=REWARD, rate=RATE)
    found = causal_gates(loaded, task, options, max_tokens=max_tokens)
    drawn = torch.rand((2, len(loaded.heads)), generator=torch.Generator().manual_seed(0))
    expected = []
    for half in halves(task.num_examples)[:2]:
        order = np.random.default_rng(0).permutation(len(half)).tolist()
        updates = [[half[at] for at in order[:2]], [half[at] for at in order[2:4]]]

        def loss(example: int, gates: Tensor) -> Tensor:
            batch = task.batch(np.array([example]))
            with hooked(loaded, gates):
                losses = task.losses(loaded.model, batch)
            return losses.loss_E.sum() / max(1, int(losses.count_E.sum()))

        for start in drawn.logit().tolist():
            first = textbook.logits_after(start, loss, updates, 0.0, RATE)
            stages = [
                textbook.logits_after(first, loss, updates, sign * REWARD, RATE) for sign in (1, -1)
            ]
            gates = torch.tensor(stages, dtype=torch.float64).sigmoid().T.tolist()
            kinds = [textbook.kinds(opened, closed) for opened, closed in gates]
            expected.append([facilitating - interfering for facilitating, interfering, _ in kinds])
    ours = [float(found[head.layer_id][head.index]) for head in loaded.heads]
    np.testing.assert_allclose(ours, np.mean(expected, 0), atol=2e-3)


SETS = GateSets(
    Heads({"encoder.self": (5, 5)}),
    2,
    opened_SH=np.array(
        [
            [0.9, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.4],
            [0.9, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
            [0.9, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
            [0.9, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
        ]
    ),
    closed_SH=np.array(
        [
            [0.8, 0.1, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.7, 0.0],
            [0.6, 0.1, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.0],
            [0.9, 0.1, 0.7, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9, 0.0],
            [0.7, 0.1, 0.6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9, 0.0],
        ]
    ),
)


def test_columns_are_means_and_ends_over_starts_and_halves() -> None:
    parts = {name: torch.cat([*each.values()]).tolist() for name, each in SETS.parts().items()}
    assert parts["facilitating"][0] == pytest.approx(0.75)
    assert (parts["facilitating_low"][8], parts["facilitating_high"][8]) == (0.3, 0.9)
    assert parts["interfering"][1] == pytest.approx(0.75)
    assert parts["interfering_low"][9] == pytest.approx(0.1)
    assert parts["interfering_high"][9] == pytest.approx(0.6)
    assert parts["irrelevant"][0] == pytest.approx(0.9 * np.mean([0.2, 0.4, 0.1, 0.3]))
    scores = torch.cat([*SETS.scores().values()]).tolist()
    assert scores[1] == pytest.approx(0.1 - 0.75)
    assert [name.shape for name in SETS.scores().values()] == [(5,), (5,)]


@pytest.mark.slow
def test_what_all_sets_agree_on_is_checked_on_examples_that_trained_nothing() -> None:
    loaded, task = TASKS["masked-bert"]()
    task = task.some(np.array([*range(7), *range(7), *range(7), *range(7)]))  # 28 examples
    facts = gate_facts(loaded, task, SETS)
    assert (facts.facilitating, facts.interfering) == (("enc.0.0", "enc.0.2"), ("enc.0.1",))
    assert (facts.facilitating_each, facts.interfering_each) == ((3, 2, 3, 3), (2, 1, 1, 1))
    assert facts.facilitating_chance == pytest.approx(10 * 0.3 * 0.2 * 0.3 * 0.3)
    assert facts.interfering_chance == pytest.approx(10 * 0.2 * 0.1**3)
    rest = halves(28)[2]
    assert (facts.num_trained, facts.num_held_out) == ((10, 11), len(rest) == 7 and 7)
    held_out = task.some(np.array(rest))
    dense = evaluate(loaded.model, held_out).loss
    assert facts.loss == pytest.approx(dense)

    def rise(removed: set[str]) -> float:
        with gated(loaded, dict.fromkeys(removed, 0.0)):
            return evaluate(loaded.model, held_out).loss - dense

    every = {str(head) for head in loaded.heads}
    by_left = {each.left: each for each in facts.checks}
    assert [*by_left] == [
        *("only facilitating", "only random", "without interfering", "without random", "without"),
    ]
    kept = by_left["only facilitating"]
    assert kept.delta == pytest.approx(rise(every - {"enc.0.0", "enc.0.2"}), abs=1e-5)
    assert (kept.num_kept, by_left["without random"].num_kept) == (2, 9)
    assert kept.low < kept.delta < kept.high
    for alone in (by_left["without interfering"], by_left["without"]):
        assert alone.delta == pytest.approx(rise({"enc.0.1"}), abs=1e-5)
    assert by_left["without"].head == "enc.0.1"
    singles = [rise({name}) for name in every]
    random = by_left["without random"]
    assert min(singles) - 1e-5 <= random.low <= random.delta <= random.high <= max(singles) + 1e-5


@pytest.mark.slow
def test_spread_over_starts_and_halves() -> None:
    loaded, task = TASKS["masked-bert"]()
    halves = np.array([[4.0, 3, 2, 1], [4, 3, 1, 2], [1, 2, 3, 4], [1, 2, 4, 3]]) / 10
    sets = GateSets(Heads({"encoder.self": (4,)}), 2, halves, halves)
    facts = gate_facts(loaded, task, sets)
    assert facts.starts_rho == pytest.approx(0.8)
    assert facts.halves_rho == pytest.approx(-1)
    alone = gate_facts(loaded, task, GateSets(sets.heads, 1, halves[::2], halves[::2]))
    assert np.isnan(alone.starts_rho) and alone.halves_rho == pytest.approx(-1)


@pytest.mark.slow
def test_an_assessment_has_columns_facts_and_a_document(tmp_path: Path) -> None:
    loaded, task = TASKS["classes-bert"]()
    options = Options(("causal-gates",), starts=2, updates=2, update_examples=3)
    with leaving_no_trace(loaded.model, dict(task.batch(np.array([0])).inputs)):
        found = assess(loaded, task, options)
    facts = found.record.causal_gates
    assert facts is not None and facts.starts == 2 and len(facts.facilitating_each) == 4
    assert "causal-gates:updates=2,update_examples=3" in found.record.signature
    assert any("from 1 held-out example are rough" in each for each in found.record.warnings)
    columns = found.columns
    np.testing.assert_allclose(
        columns["causal_gates"], columns["facilitating"] - columns["interfering"], atol=1e-12
    )
    found.write(tmp_path)
    assert str(ImportanceRecord.read(tmp_path).causal_gates) == str(facts)
    text = str(document_of(found))
    assert "facilitating in all 4 sets of gates" in text
    assert "2 sets of gates learned from 3 examples, and as many from 3 examples" in text
    assert "What is left on other examples" in text


def test_progress_counts_updates() -> None:
    loaded, task = TASKS["classes-bert"]()
    seen: list[tuple[int, int]] = []
    watched: Task = task.watched(lambda done, total: seen.append((done, total)))
    causal_gates(loaded, watched, CausalGatesOptions(updates=2))
    assert seen == [(done, 12) for done in range(13)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": 0}, "Expected starts of at least 1, got 0."),
        ({"update_examples": -1}, "Expected update_examples of at least 1, got -1"),
        ({"reward": 0.0}, "Expected a finite number above 0 for reward, got 0.0."),
        ({"rate": float("inf")}, "Expected a finite number above 0 for rate, got inf"),
    ],
)
def test_options_out_of_their_range(options: dict[str, Any], message: str) -> None:
    loaded, task = TASKS["classes-bert"]()
    with pytest.raises(InputError, match=message):
        Options(("causal-gates",), **options)
    with pytest.raises(InputError, match=message):
        causal_gates(loaded, task, CausalGatesOptions(**options))


def test_too_few_examples() -> None:
    _, task = TASKS["classes-bert"]()
    with pytest.raises(InputError, match="at least 4 examples for causal gates, .* got 3"):
        split(task.some(np.arange(3)))
