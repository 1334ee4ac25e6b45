"""Methods and their options by text; presets; limits; searches: and what can't be."""

import pytest

from headcount.errors import InputError
from headcount.pruning.gradient import Gradient
from headcount.pruning.l0 import L0
from headcount.pruning.limit import Limit
from headcount.pruning.methods import METHODS, TRAINED, method
from headcount.pruning.presets import PRESETS, preset
from headcount.pruning.ranked import Ranked
from headcount.pruning.search import last_within
from headcount.pruning.subset import Subset


def test_methods_have_their_names() -> None:
    for name in METHODS:
        assert method(name).name == name
        assert (method(name).tuning is not None) == (name in TRAINED)


def test_options() -> None:
    found = method("gradient", ["step=0.1", "normalise=false", "level=token"])
    assert found == Ranked(Gradient(0.1, "token", False))
    learned = method("l0", ["tuning.updates=7", "tuning.trained=encoder", "coefficient=none"])
    assert isinstance(learned, L0) and learned.coefficient is None
    assert (learned.tuning.updates, learned.tuning.trained) == (7, "encoder")
    assert learned.tuning.gate_rate == L0().tuning.gate_rate


@pytest.mark.parametrize(
    ("name", "option", "sentence"),
    [
        ("gradient", "steps=1", "with a name out of step, level, normalise; came 'steps=1'"),
        ("gradient", "step", "NAME=VALUE was expected"),
        ("gradient", "step=x", "step is float; came 'x'"),
        ("gradient", "level=y", "level is token, sample, batch; came 'y'"),
        ("gradient", "normalise=1", "normalise is true, false; came '1'"),
        ("random", "seed=1", "with a name out of none"),
        ("l0", "tuning.x=1", "with a name out of tuning.batch_tokens"),
        ("l0", "coefficient=q", "coefficient is float or none; came 'q'"),
        ("l0", "tuning.updates=0", "a finite updates above 0 was expected"),
        ("magnitude", "a=1", "a method out of gradient, relevance, .* was expected; came 'magni"),
    ],
)
def test_bad_options(name: str, option: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        method(name, [option])


def test_presets_are_what_the_papers_did() -> None:
    made = {name: method(each.method, each.of(["encoder.self"])) for name, each in PRESETS.items()}
    assert made["michel2019"] == Ranked(Gradient(0.1, "sample", True))
    voita, li = made["voita2019"], made["li2021"]
    assert isinstance(voita, L0) and voita.voita2019 and voita.tuning.trained == "encoder"
    assert isinstance(li, Subset) and li.tuning.trained == "all" and not li.straight_through
    both = preset("voita2019").of(["encoder.self", "decoder.self"])
    everything = method("l0", both)
    assert isinstance(everything, L0) and everything.tuning.trained == "all"
    with pytest.raises(InputError, match="a preset out of voita2019, michel2019, li2021"):
        preset("he2020")


def test_one_limit() -> None:
    for given, came in (({}, "none"), ({"keep": 3, "max_drop": 0.5}, "keep and max_drop")):
        with pytest.raises(InputError, match=f"--max-drop or --latency; came {came}"):
            Limit(**given)


@pytest.mark.parametrize("limit", [0.0, 0.4, 0.99, 1.0, 2.7, 20.0])
def test_search_is_a_linear_scan(limit: float) -> None:
    drops = {10: -0.2, 8: 0.0, 7: 0.1, 5: 0.9, 4: 1.0, 2: 2.0, 1: 9.0}
    found = last_within(list(drops), drops.__getitem__, limit, "a drop")
    assert found.keep == [budget for budget, drop in drops.items() if drop <= limit][-1]
    assert found.tried.items() <= drops.items() and len(found.tried) <= 4


def test_a_limit_out_of_reach() -> None:
    for drop in (0.5, float("nan")):
        with pytest.raises(InputError, match="a drop of at most 0.1 was asked for, but with 6 he"):
            last_within([6, 5], lambda keep, drop=drop: drop, 0.1, "a drop")
