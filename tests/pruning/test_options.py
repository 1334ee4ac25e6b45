"""Methods and options from text; presets, limits, searches, and impossible requests."""

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from headcount.core import InputError
from headcount.core.options import default_of
from headcount.pruning import BY_SCORE, PruneSettings, Subset, method, preset, with_options
from headcount.pruning.command import TrialArguments
from headcount.pruning.methods.learned import L0, swept
from headcount.pruning.methods.registry import method_class
from headcount.pruning.options import METHOD_OPTIONS, PRESETS
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


def test_a_sample_has_an_example() -> None:
    with pytest.raises(InputError, match="Expected calibration of at least 1, got 0"):
        PruneSettings(calibration=0)


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
            "Expected a number from 0 to 1 for step",
        ),
        ("l0", {"coefficient": -0.1}, "Expected a finite number of at least 0 for coefficient"),
        ("l0", {"sweep": -1}, "Expected sweep of at least 0 trainings, got -1"),
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
