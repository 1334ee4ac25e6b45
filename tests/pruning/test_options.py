"""Methods and options from text; presets, limits, searches, and impossible requests."""

import math
import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf

from headcount.core import Head, InputError
from headcount.core.options import default_of
from headcount.pruning import (
    BY_SCORE,
    BudgetSpec,
    Compensation,
    Keep,
    Method,
    PruneSettings,
    Pruning,
    PruningContext,
    Random,
    Selection,
    Subset,
    Units,
    method,
    preset,
    with_options,
)
from headcount.pruning.before_after import drop, evaluate_gated
from headcount.pruning.command import TrialArguments
from headcount.pruning.limit import Chosen, broken_limit, choose, kept_limit, last_within
from headcount.pruning.methods.learned import L0, swept
from headcount.pruning.methods.registry import method_class
from headcount.pruning.options import METHOD_OPTIONS, PRESETS
from headcount.pruning.pipeline import milliseconds
from headcount.tap import examine
from headcount.tasks import evaluate
from tests import tiny
from tests.pruning.context import context


def test_methods_have_their_names() -> None:
    for name in METHOD_OPTIONS:
        assert method(name).name == name
        assert (method(name).tuning is not None) == (name in ("l0", "subset"))


def test_the_sample_is_drawn_by_the_seed() -> None:
    """As many examples as the calibration says, or all if there are fewer."""
    samples = [context("causal-gpt2", seed=seed, calibration=3).sample for seed in (0, 1, 0)]
    assert [sample.num_examples for sample in samples] == [3] * 3
    hashes = [sample.sha256 for sample in samples]
    assert hashes[0] == hashes[2] != hashes[1]
    given = context("causal-gpt2")
    assert given.sample.num_examples == given.train.num_examples


def test_options() -> None:
    found = method("gradient", step=0.1, normalise=False, level="token")
    assert isinstance(found, BY_SCORE["gradient"])
    assert vars(found) == {"step": 0.1, "level": "token", "normalise": False}
    tuning = replace(L0().tuning, updates=7, trained="encoder")
    assert method("l0", tuning=tuning) == L0(tuning)
    assert vars(METHOD_OPTIONS["l0"]()) == vars(L0())


def test_a_method_has_its_options_as_fields() -> None:
    """What the command line takes is what the method does."""
    for name, options in METHOD_OPTIONS.items():
        assert issubclass(method_class(name), options)
        assert method_class(name).__init__.__annotations__ == options.__init__.__annotations__, name
        made = with_options(options())
        learns = made.tuning is not None
        assert options.uses_data == (not learns and name != "random"), name


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("gradient", {"steps": 1}, "Expected an option of gradient out of step, level, normalise"),
        ("random", {"seed": 1}, "got 'seed'"),
        (
            "gradient",
            {"step": 2.0},
            "Expected a share of the heads from 0 to 1 as the step",
        ),
        ("l0", {"coefficient": -0.1}, "Expected a finite number of at least 0 for coefficient"),
        ("l0", {"sweep": -1}, "Expected a sweep of at least 0 trainings, got -1"),
        ("magnitude", {"a": 1}, "Expected a method out of gradient, relevance, .*, got 'magni"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        method(name, **options)


def test_a_method_names_the_options_that_were_changed() -> None:
    tuning = replace(L0().tuning, peak=0.001)
    changed = method("l0", tuning=tuning, coefficient=0.2, voita2019=True, sweep=0)
    assert changed.changed_options == ["tuning.peak=0.001", "coefficient=0.2", "voita2019=true"]
    assert method("fisher", step=0.5).changed_options == ["step=0.5"]
    assert method("random").changed_options == method("subset").changed_options == []


def test_presets_are_what_the_papers_did() -> None:
    made = {
        name: with_options(each(["encoder.self"], "translation")) for name, each in PRESETS.items()
    }
    assert made["michel2019"] == method("gradient", step=0.1, level="sample", normalise=True)
    voita, li = made["voita2019"], made["li2021"]
    assert isinstance(voita, L0) and voita.voita2019 and voita.tuning.trained == "encoder"
    assert voita.sweep == 8 and voita.coefficient is None and voita.tuning.label_smoothing == 0.1
    assert isinstance(li, Subset) and li.tuning.trained == "all" and not li.straight_through
    assert li.hot == 0.1, "translation"
    bert = with_options(preset("li2021")(["encoder.self"], "classification"))
    assert isinstance(bert, Subset) and (bert.hot, bert.cold) == (1000, 1e-8)
    with pytest.raises(InputError, match="softmax_gradient has no effect without straight_through"):
        method("subset", softmax_gradient=True)
    both = with_options(preset("voita2019")(["encoder.self", "decoder.self"], "similarity"))
    assert isinstance(both, L0) and both.tuning.trained == "all"
    assert both.tuning.label_smoothing == 0
    with pytest.raises(InputError, match="Expected a preset out of voita2019, michel2019, li2021"):
        preset("he2020")


def test_a_sweep_begins_above_zero() -> None:
    with pytest.raises(InputError, match="Expected a coefficient above 0 to start a sweep, got 0"):
        method("l0", sweep=3, coefficient=0.0)


@pytest.mark.parametrize(
    ("wanted", "trials", "nearest", "tried"),
    [
        (24, 8, 24, [0.1]),
        (3, 8, 3, [0.1, 0.4, 1.6]),
        (38, 8, 38, [0.1, 0.025, 0.00625]),
        (28, 8, 28, [0.1, 0.025, 0.05, 0.0707, 0.0595]),
        (28, 3, 30, [0.1, 0.025, 0.05]),
        (50, 3, 38, [0.1, 0.025, 0.00625]),
    ],
)
def test_a_sweep_closes_in(wanted: int, trials: int, nearest: int, tried: list[float]) -> None:
    """The search runs on simulated numbers of open gates, a function of the penalty."""
    found = swept(lambda coefficient: [int(6 / (coefficient + 0.15))], list, [wanted], 0.1, trials)
    assert found[0] == [nearest]
    assert [*found[1]] == pytest.approx(tried, rel=1e-2)


def test_a_sweep_takes_the_larger_of_two_that_miss_as_far() -> None:
    """If the numbers do not drop with the penalty, the nearest one is taken."""
    found = swept(lambda coefficient: [12 if coefficient < 1 else 8], list, [10], 1.0, 2)
    assert found[0] == [12]
    numbers = iter([20, 3, 11, 4, 2])
    found = swept(lambda coefficient: [next(numbers)], list, [10], 1.0, 5)
    assert found[0] == [11] and [*found[1].values()] == [20, 3, 11, 4, 2]


def test_sites_with_numbers_of_their_own_miss_by_site() -> None:
    """The sum drives and ends the sweep; the nearest result is chosen site by site."""
    numbers = iter([(9, 2), (6, 3), (0, 10)])
    found = swept(lambda coefficient: next(numbers), list, [5, 5], 1.0, 3)
    assert found[0] == (6, 3) and [*found[1].values()] == [11, 9, 10]


@pytest.mark.parametrize("seed", range(20))
def test_a_sweep_ends_whatever_comes_out(seed: int) -> None:
    """No coefficient is tried twice, which would never end."""
    generator = random.Random(seed)
    tried: list[float] = []

    def train(coefficient: float) -> list[int]:
        assert coefficient not in tried
        tried.append(coefficient)
        return [generator.choice([3, 8, 12, 30])]

    assert len(swept(train, list, [10], 0.1, 12)[1]) == len(tried) == 12


def test_one_limit() -> None:
    for given, reported in (
        ({"max_drop": math.nan}, "Expected a finite largest drop, got nan"),
        ({"latency": math.nan}, "Expected a finite latency above 0 ms, got nan"),
        ({"latency": 0.0}, "Expected a finite latency above 0 ms, got 0.0"),
        ({"cache": 0.0}, "Expected a share of the cache above 0 and up to 1, got 0.0"),
        ({"cache": 90.0}, "Expected a share of the cache above 0 and up to 1, got 90.0"),
    ):
        with pytest.raises(InputError, match=reported):
            BudgetSpec(**given)  # pyright: ignore[reportArgumentType]
    for given, came in (({}, "none"), ({"keep": 3, "max_drop": 0.5}, "--keep and --max-drop")):
        with pytest.raises(InputError, match=f"--max-drop and --latency, got {came}"):
            BudgetSpec(**given)


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
        assert BudgetSpec(cache=part).budget(units, anatomy) == heads
    single = Units.of(anatomy, whole_groups=False)
    with pytest.raises(InputError, match="Leave out --no-groups"):
        BudgetSpec(cache=0.5).budget(single, anatomy)
    guarded = units.protecting([Head("decoder.self", 0, 0), Head("decoder.self", 1, 3)])
    with pytest.raises(InputError, match="from 4 of 16 heads in groups of 2, got 0.2. Raise it"):
        BudgetSpec(cache=0.2).budget(guarded, anatomy)
    bert = examine(tiny.MODELS["bert"]())
    with pytest.raises(InputError, match="Expected a causal language model .* at encoder.self"):
        BudgetSpec(cache=0.5).budget(Units.of(bert), bert)


@pytest.mark.parametrize("limit", [0.0, 0.4, 0.99, 1.0, 2.7, 20.0])
def test_search_is_a_linear_scan(limit: float) -> None:
    drops = {10: -0.2, 8: 0.0, 7: 0.1, 5: 0.9, 4: 1.0, 2: 2.0, 1: 9.0}
    found = last_within(list(drops), drops.__getitem__, limit, "a drop")
    assert found.keep == [budget for budget, drop in drops.items() if drop <= limit][-1]
    assert found.tried.items() <= drops.items() and len(found.tried) <= 4


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
        lambda selection: float(len(selection.plan.kept_heads(given.loaded.heads))),
    )
    assert chosen.keep == len(chosen.selection.plan.kept_heads(given.loaded.heads)) == 5
    assert len(asked) == len(set(asked))


def test_a_drop_is_searched_on_the_development_set(tmp_path: Path) -> None:
    """Heads are chosen on other examples. Other development data are another search."""
    given = replace(context("causal-gpt2"), state=tmp_path)
    first, second = (given.train.some(np.array(rows)) for rows in ([0, 1], [2, 3, 4]))
    base = evaluate(given.loaded.model, first)
    limit, ranking = BudgetSpec(max_drop=5.0), Random()
    chosen = choose(limit, ranking, given, first, base)
    assert chosen.found is not None and len(chosen.found.tried) > 2
    assert next(iter(chosen.found.tried.items())) == (len(given.loaded.heads), 0.0)
    assert chosen.found.tried[chosen.found.keep] <= 5.0
    for keep, tried in chosen.found.tried.items():
        plan = ranking.choose(given, keep).plan
        assert tried == pytest.approx(drop(first, base, evaluate_gated(given.loaded, plan, first)))
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
        return factor * len(selection.plan.kept_heads(given.loaded.heads))

    def search(factor: float, limit: float = 4.5, seed: int = 0) -> Chosen:
        return choose(
            BudgetSpec(latency=limit),
            Random(),
            replace(given, seed=seed),
            given.train,
            base,
            lambda selection: slow(selection, factor),
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
        "headcount.pruning.pipeline.latency",
        lambda model, inputs, rounds: seen.append(inputs) or 2.0,
    )
    assert milliseconds(given.loaded, given.train) == 2000
    batches = list(given.train.batches(1))
    expected = batches[len(batches) // 2].inputs["input_ids"]
    assert seen[0]["input_ids"].shape == expected.shape


def test_the_model_that_comes_out_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is the number of its heads here."""
    given = context("similarity-bert")
    monkeypatch.setattr(
        "headcount.pruning.pipeline.milliseconds", lambda loaded, task: float(len(loaded.heads))
    )
    limit, nothing = BudgetSpec(latency=4.5), Compensation(fold=False, rescale=False)
    found = Pruning(given, method("random"), limit, given.train, stages=nothing).run()
    assert len(found.record.kept) == 4 and found.record.pipeline is not None
    assert found.record.pipeline.latency_ms == 4.0


def test_a_drop_is_kept_on_every_data_set_or_reported() -> None:
    limit = BudgetSpec(max_drop=0.3)
    kept = kept_limit(limit, {"dev": 0.3, "test": 0.31}, None)
    assert kept == {"dev": True, "test": False}
    (sentence,) = broken_limit(limit, kept, None)
    assert "the drop on --test exceeds 0.3" in sentence
    assert broken_limit(limit, {"dev": True, "test": True}, None) == []
    first, second = broken_limit(limit, {"dev": False}, None)
    assert "the drop on --dev" in first and "no --test was given" in second


def test_a_latency_is_kept_by_the_pruned_model_or_reported() -> None:
    limit = BudgetSpec(latency=5.0)
    assert kept_limit(limit, {}, 5.0) == {"latency": True}
    assert broken_limit(limit, {"latency": True}, 5.0) == []
    assert kept_limit(limit, {}, 5.25) == {"latency": False}
    (sentence,) = broken_limit(limit, {"latency": False}, 5.25)
    assert "the model, timed again, takes 5.25 ms, more than 5.0" in sentence
    assert kept_limit(BudgetSpec(keep=3), drops={}, latency=None) is None
    assert broken_limit(BudgetSpec(keep=3), None, None) == []


def test_a_limit_out_of_reach() -> None:
    for lost in (0.5, float("nan")):
        with pytest.raises(InputError, match="Expected a drop of at most 0.1, got .* with 6 he"):
            last_within([6, 5], lambda keep, lost=lost: lost, 0.1, "a drop")


def test_the_command_prunes_by_default_as_python_does() -> None:
    command, ours = (
        {each.name: default_of(each) for each in fields(kind)}
        for kind in (TrialArguments, PruneSettings)
    )
    names = {"site": "sites", "groups": "whole_groups"}
    shared = {name: names.get(name, name) for name in command if names.get(name, name) in ours}
    assert len(shared) >= 5
    assert {name: command[name] or None for name in shared} == {
        name: ours[other] or None for name, other in shared.items()
    }
