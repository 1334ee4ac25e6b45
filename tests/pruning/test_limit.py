"""Budgets: what is refused, searches, costs, and whether a limit was met."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf

from headcount.core import Head, InputError
from headcount.pruning import (
    BudgetSpec,
    Compensation,
    Keep,
    Method,
    Pruning,
    PruningContext,
    Random,
    Selection,
    Units,
    method,
)
from headcount.pruning.before_after import changes, evaluate_gated
from headcount.pruning.costs import Costs, compacted, median_example, milliseconds
from headcount.pruning.limit import (
    Chosen,
    broken_limit,
    choose,
    kept_limit,
    last_within,
    number_of_heads,
)
from headcount.results import MetricChange
from headcount.speed import Options, parameter_bytes
from headcount.tap import examine
from headcount.tasks import evaluate
from tests import tiny
from tests.pruning.context import context


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"max_drop": math.nan}, "Expected a finite largest drop, got nan"),
        ({"max_drop": "much"}, "Expected a number or a percentage such as 80%, got 'much'"),
        ({"latency": math.nan}, "Expected a finite latency above 0 ms, got nan"),
        ({"latency": 0.0}, "Expected a finite latency above 0 ms, got 0.0"),
        ({"speedup": 1.0}, "Expected a finite speedup above 1, got 1.0"),
        ({"size": 1.2}, "Expected a size between 0 and 100 % of the dense model's, got 120"),
        ({"cache": 0.0}, "Expected a share of the cache above 0 and up to 1, got 0.0"),
        ({"cache": 90.0}, "Expected a share of the cache above 0 and up to 1, got 90.0"),
        ({}, "at most one of --keep, --share, --keep-cache, got none"),
        ({"keep": 3, "share": 0.5}, "at most one of .*, got --keep and --share"),
        (
            {"keep": {"encoder.self": 3}, "size": 0.9},
            "one number of heads for all sites beside --s",
        ),
    ],
)
def test_no_possible_budget(given: dict[str, Any], reported: str) -> None:
    with pytest.raises(InputError, match=reported):
        BudgetSpec(**given)


def test_a_drop_in_per_cent_is_of_the_dense_score() -> None:
    assert BudgetSpec(max_drop="2%").largest_drop(-50.0) == pytest.approx(1.0)
    assert BudgetSpec(max_drop="0.02").largest_drop(50.0) == 0.02


def test_a_share_of_the_cache_counts_groups() -> None:
    """Of 4 layers with 2 groups of 2 heads, 0.6 of the cache is at most 4 groups, not 5."""
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "vocab_size": 50,
        "num_hidden_layers": 4,
    }
    config = hf.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    anatomy = examine(hf.LlamaForCausalLM(config))
    units = Units.of(anatomy)
    for part, heads in ((0.6, 8), (0.5, 8), (0.625, 10), (1.0, 16), (0.124, 0)):
        assert number_of_heads(BudgetSpec(cache=part), units, anatomy) == heads
    single = Units.of(anatomy, whole_groups=False)
    with pytest.raises(InputError, match="Leave out --no-groups"):
        number_of_heads(BudgetSpec(cache=0.5), single, anatomy)
    guarded = units.protecting([Head("decoder.self", 0, 0), Head("decoder.self", 1, 3)])
    with pytest.raises(InputError, match="from 4 of 16 heads in groups of 2, got 0.2. Raise it"):
        number_of_heads(BudgetSpec(cache=0.2), guarded, anatomy)
    bert = examine(tiny.MODELS["bert"]())
    with pytest.raises(InputError, match="Expected a causal language model .* at encoder.self"):
        number_of_heads(BudgetSpec(cache=0.5), Units.of(bert), bert)


@pytest.mark.parametrize("limit", [0.0, 0.4, 0.99, 1.0, 2.7, 20.0])
def test_search_is_a_linear_scan(limit: float) -> None:
    drops = {10: -0.2, 8: 0.0, 7: 0.1, 5: 0.9, 4: 1.0, 2: 2.0, 1: 9.0}
    found = last_within(list(drops), drops.__getitem__, limit, "a drop")
    assert found.keep == [budget for budget, drop in drops.items() if drop <= limit][-1]
    assert found.tried.items() <= drops.items() and len(found.tried) <= 4


def num_kept(given: PruningContext, selection: Selection) -> int:
    return len(selection.plan.kept_heads(given.loaded.heads))


def test_a_search_trains_once_a_budget() -> None:
    """The choice for the final budget is not repeated."""
    given, asked = context("similarity-bert"), []

    class Asked(Method):
        name = "asked"

        def choose(self, context: PruningContext, keep: Keep) -> Selection:
            asked.append(keep)
            return Random().choose(context, keep)

    base = evaluate(given.loaded.model, given.train)
    chosen = choose(
        BudgetSpec(latency=5.0),
        Asked(),
        given,
        given.train,
        base,
        {"latency": lambda selection: float(num_kept(given, selection))},
    )
    assert chosen.keep == num_kept(given, chosen.selection) == 5
    assert len(asked) == len(set(asked))


def test_a_drop_is_searched_on_the_development_set(tmp_path: Path) -> None:
    """By the upper end of the drop's interval. Other development data are another search."""
    given = replace(context("causal-gpt2"), state=tmp_path)
    first, second = (given.train.some(np.array(rows)) for rows in ([0, 1] * 4, [2, 3, 4]))
    base = evaluate(given.loaded.model, first)
    limit, ranking = BudgetSpec(max_drop=5.0), Random()
    chosen = choose(limit, ranking, given, first, base)
    assert chosen.found is not None and len(chosen.found.tried) > 2
    assert next(iter(chosen.found.tried.items())) == (len(given.loaded.heads), 0.0)
    assert chosen.found.tried[chosen.found.keep] <= 5.0
    for keep, tried in chosen.found.tried.items():
        plan = ranking.choose(given, keep).plan
        after = evaluate_gated(given.loaded, plan, first)
        found = changes(first, base, after).score
        assert tried == pytest.approx(found.high) and tried >= found.drop
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        choose(limit, ranking, given, second, evaluate(given.loaded.model, second))


def test_a_killed_search_ends_with_the_same_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timings are not repeated: another clock could give another result."""
    given, times = replace(context("similarity-bert"), state=tmp_path), []
    base = evaluate(given.loaded.model, given.train)

    def slow(selection: Selection, factor: float) -> float:
        times.append(factor)
        return factor * num_kept(given, selection)

    def search(factor: float, limit: float = 4.5, seed: int = 0) -> Chosen:
        return choose(
            BudgetSpec(latency=limit),
            Random(),
            replace(given, seed=seed),
            given.train,
            base,
            {"latency": lambda selection: slow(selection, factor)},
        )

    first = search(1.0)
    count = len(times)
    again = search(3.0)
    assert again.keep == first.keep == 4 and again.selection.plan == first.selection.plan
    assert len(times) == count and again.found == first.found
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        search(1.0, limit=3.5)
    monkeypatch.setattr("headcount.speed.timing.processor", lambda: "a faster one")
    with pytest.raises(InputError, match="on:name a faster one, cores"):
        search(1.0)


def test_latency_is_that_of_the_median_example(monkeypatch: pytest.MonkeyPatch) -> None:
    given = context("similarity-bert")
    seen: list[Any] = []
    monkeypatch.setattr(
        "headcount.pruning.costs.latency",
        lambda model, inputs, rounds: seen.append(inputs) or 2.0,
    )
    assert milliseconds(given.loaded, given.train) == 2000
    batches = list(given.train.batches(1))
    expected = batches[len(batches) // 2].inputs["input_ids"]
    assert seen[0]["input_ids"].shape == expected.shape


@pytest.mark.slow
def test_the_model_that_comes_out_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is the number of its heads here."""
    given = context("similarity-bert")
    monkeypatch.setattr(
        "headcount.pruning.costs.milliseconds", lambda loaded, task: float(len(loaded.heads))
    )
    limit, nothing = BudgetSpec(latency=4.5), Compensation(fold=False, rescale=False)
    found = Pruning(given, method("random"), limit, given.train, stages=nothing).run()
    assert len(found.record.kept) == 4 and found.record.pipeline is not None
    assert found.record.pipeline.latency_ms == 4.0


@pytest.mark.slow
def test_the_most_heads_within_a_size() -> None:
    """As a scan of all numbers of heads finds them."""
    given = context("similarity-bert")
    limit, base = BudgetSpec(size=0.93), evaluate(given.loaded.model, given.train)
    costs = Costs(limit, given, given.train).checked()
    chosen = choose(limit, Random(), given, given.train, base, costs)
    whole = parameter_bytes(given.loaded.model)

    def share(keep: int) -> float:
        plan = Random().choose(given, keep).plan
        return parameter_bytes(compacted(given.loaded, plan, None).model) / whole

    within = [keep for keep in given.units.possible() if share(keep) <= 0.93]
    assert chosen.keep == within[-1] < len(given.loaded.heads)
    assert chosen.found is not None and len(chosen.found.tried) > 1


HALF = np.array([[1.0, 0.5, 1.0]] * 2)
"""Seconds of two rounds in which the pruned model is twice as fast."""


@pytest.mark.slow
def test_a_speedup_is_shared_among_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any head, the model takes half the time. Its layers are alike."""
    monkeypatch.setattr("headcount.speed.comparison.in_turns", lambda *_: HALF)
    given = context("similarity-bert")
    base, total = evaluate(given.loaded.model, given.train), len(given.loaded.heads)
    limit = BudgetSpec(speedup=1.25, max_drop=1.0)
    costs = Costs(limit, given, given.train).checked()
    chosen = choose(limit, Random(), given, given.train, base, costs)
    # 1/1.25 = 80 % of the time: two fifths of the heads go
    assert chosen.keep == int(0.6 * total + 1e-9)
    both = BudgetSpec(keep=2, speedup=1.25)
    costs = Costs(both, given, given.train).checked()
    assert choose(both, Random(), given, given.train, base, costs).keep == 2
    with pytest.raises(InputError, match="still takes 50.0.% of the time .forward, batch 8, "):
        Costs(BudgetSpec(speedup=2.1), given, given.train).checked()


def test_a_size_out_of_reach() -> None:
    given = context("similarity-bert")
    with pytest.raises(
        InputError, match="still has .*% of the bytes, more than 1.0.%. Ask for les"
    ):
        Costs(BudgetSpec(size=0.01), given, given.train).checked()


@pytest.mark.slow
def test_a_pruned_model_is_timed_beside_the_dense_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.speed.comparison.in_turns", lambda *_: HALF)
    given, nothing = context("similarity-bert"), Compensation(fold=False, rescale=False)
    limit, timing = BudgetSpec(keep=3, speedup=1.9), Options((2,), (), ("forward",))
    run = Pruning(given, method("random"), limit, given.train, stages=nothing, timing=timing).run()
    record = run.record
    assert record.speed is not None and record.size is not None
    (case,) = record.speed.cases
    assert (case.batch, case.length) == (
        2,
        median_example(given.train).inputs["input_ids"].shape[1],
    )
    assert case.speedup.value == pytest.approx(2.0)
    assert record.size.pruned == parameter_bytes(run.model) < record.size.dense
    assert record.pipeline is not None and record.pipeline.within_limit == {"speedup": True}


def _drop(high: float, drop: float = 0.0) -> MetricChange:
    return MetricChange("accuracy", True, 0.5, 0.5 - drop, drop, -high, high, 1.0)


def test_a_drop_is_kept_on_every_data_set_or_reported() -> None:
    limit = BudgetSpec(max_drop=0.3)
    kept = kept_limit(limit, {"dev": _drop(0.3), "test": _drop(0.31)}, {})
    assert kept == {"dev": True, "test": False}
    (sentence,) = broken_limit(limit, kept, {})
    assert "the drop on --test may exceed 0.3" in sentence
    assert broken_limit(limit, {"dev": True, "test": True}, {}) == []
    first, second = broken_limit(limit, {"dev": False}, {})
    assert "the drop on --dev" in first and "no --test was given" in second
    assert kept_limit(BudgetSpec(max_drop="50%"), {"dev": _drop(0.26)}, {}) == {"dev": False}
    alone = _drop(math.nan, drop=0.2)  # a single example has no interval
    assert kept_limit(BudgetSpec(max_drop="50%"), {"dev": alone}, {}) == {"dev": True}


def test_costs_are_kept_by_the_pruned_model_or_reported() -> None:
    limit = BudgetSpec(latency=5.0, speedup=1.25, size=0.9)
    kept = kept_limit(limit, {}, {"latency": 5.0, "speedup": 0.8, "size": 0.9})
    assert kept == {"latency": True, "speedup": True, "size": True}
    assert broken_limit(limit, kept, {"latency": 5.0, "speedup": 0.8, "size": 0.9}) == []
    paid = {"latency": 5.25, "speedup": 0.85, "size": 0.91}
    late, slow, large = broken_limit(limit, kept_limit(limit, {}, paid), paid)
    assert "the model, timed again, takes 5.25 ms, more than 5" in late
    assert (
        "takes 85.0\u202f% of the dense model's time, more than the 80.0\u202f% of --speedup"
        in slow
    )
    assert "has 91.0\u202f% of the bytes of the dense one, more than 90.0\u202f%" in large
    assert kept_limit(BudgetSpec(keep=3), {}, {}) is None
    assert broken_limit(BudgetSpec(keep=3), None, {}) == []


def test_a_limit_out_of_reach() -> None:
    for lost in (0.5, float("nan")):
        with pytest.raises(InputError, match="Expected a drop of at most 0.1, got .* with 6 he"):
            last_within([6, 5], lambda keep, lost=lost: lost, 0.1, "a drop")
