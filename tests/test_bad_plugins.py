"""Doors by kinds of misbehaviour: whatever a plug-in does, a sentence says what, and names it.

What is a fault of one door alone, such as sums of another shape, is tested beside that door. That a
plug-in takes long is named by the guard that all share (`test_registry.py`).
"""

import copy
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, final

import pytest

import headcount
from headcount.core import PluginError, PluginWarning, registries
from headcount.corpora import Corpus
from headcount.importance import assess
from headcount.models import Loaded
from headcount.pruning import METHODS, choose_heads, options_of_method
from headcount.skills import skills
from headcount.tasks import TASKS, build, score
from tests import saved
from tests.analysis.test_bad_plugins import Next, Peak, Vowels, analysed
from tests.explanation.test_bad_plugins import Halved, explained
from tests.importance.test_own_scores import Place
from tests.pruning.context import context
from tests.pruning.test_own_methods import Last as LastHeads
from tests.skills.test_own_skills import Last as LastSkill
from tests.skills.test_skills import OPTIONS, TEXTS
from tests.tasks.loaded import TASKS as TINY
from tests.tasks.test_own_tasks import DATA, Length

Case = tuple[Loaded, Callable[[Loaded], Sequence[str]]]
"""A model, and what is run on it, which returns the sentences of its record."""


@cache
def _saved(name: str) -> Loaded:
    return headcount.load(getattr(saved, name)(Path(mkdtemp())))


def of_analysis() -> Case:
    return _saved("bert"), lambda loaded: analysed(loaded).record.warnings


def of_explanation() -> Case:
    return _saved("llama"), lambda loaded: explained(loaded, "zero", "halved").record.warnings


def of_scores() -> Case:
    loaded, task = TINY["causal-gpt2"]()
    return loaded, lambda its: assess(its, task, methods=["norm", Place]).record.warnings


def of_tasks() -> Case:
    return TINY["masked-bert"]()[
        0
    ], lambda its: score(its, build("length", its, DATA)).record.warnings


def of_methods() -> Case:
    given = context("masked-bert")
    return given.loaded, lambda its: [str(choose_heads(its, given.train, "last", keep=2))]


def of_skills() -> Case:
    few = replace(OPTIONS, skills=())
    return _saved(
        "llama"
    ), lambda its: skills(its, Corpus(TEXTS), few, own=[LastSkill]).record.warnings


@final
@dataclass(frozen=True)
class Door:
    """One thing of a plug-in, what of it is called, and what runs it."""

    thing: Any
    calls: str
    does: str
    """What it is asked to do, in sentences."""
    run: Callable[[], Case]


DOORS = {
    "task": Door(Length, "losses_of", "compute losses of the task length", of_tasks),
    "score": Door(Place, "of", "score heads by place", of_scores),
    "method": Door(LastHeads, "order", "choose heads by last", of_methods),
    "effect": Door(Halved, "outputs", "compute the effect halved", of_explanation),
    "skill": Door(LastSkill, "scores", "score heads by last", of_skills),
    "measure": Door(Peak, "of", "take the sums of the measure peak", of_analysis),
    "trait": Door(Vowels, "has", "say which keys are in the class vowels", of_analysis),
    "relation": Door(Next, "links", "link words of", of_analysis),
}


def raises(loaded: Loaded) -> None:
    raise ValueError("nothing works")


def exits(loaded: Loaded) -> None:
    raise SystemExit(3)


def prints(loaded: Loaded) -> None:
    print("hello")


def changes(loaded: Loaded) -> None:
    next(loaded.model.parameters()).data.mul_(1.01)


def is_empty(loaded: Loaded) -> None:
    """Nothing is returned."""


FAULTS: dict[Callable[[Loaded], None], str] = {
    raises: "Expected the plug-in {} to {}.*, got ValueError: nothing works .*line",
    exits: "Expected the plug-in {} to {}.*, got SystemExit: 3",
    prints: "the plug-in {} printed [0-9]+ lines?: hello",
    changes: "Expected the plug-in {}.* to leave the model as it is, got changed param",
    is_empty: "{0}.*(None|got object of shape)|no text has links of next of the plug-in {0}",
}
"""What a plug-in does wrong, and the sentence."""


@pytest.fixture(autouse=True)
def _registered() -> Any:
    for each in (Length, LastHeads):
        headcount.register(each)
    yield
    TASKS.remove("length")
    METHODS.remove("last")
    options_of_method.cache_clear()


@pytest.mark.once
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("always::headcount.core.PluginWarning")
def test_it_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, door: str, fault: Callable[[Loaded], None]
) -> None:
    its = DOORS[door]
    shared, run = its.run()
    loaded, does = copy.deepcopy(shared), getattr(its.thing, its.calls)
    is_of_class = its.calls == "of" and its.thing is Peak

    def broken(*given: Any) -> Any:
        fault(loaded)
        if fault is is_empty:
            return None
        return does(*given[1:]) if is_of_class else does(*given)

    monkeypatch.setattr(its.thing, its.calls, classmethod(broken) if is_of_class else broken)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            said = [*run(loaded)]
        except PluginError as error:
            said = [str(error)]
    said += [str(each.message) for each in told if each.category is PluginWarning]
    expected = FAULTS[fault].format(re.escape(its.thing.__module__), its.does)
    assert any(re.search(expected, each, re.DOTALL) for each in said), said


@pytest.mark.parametrize("door", DOORS)
def test_a_name_that_is_taken_names_both(door: str) -> None:
    thing = DOORS[door].thing
    (registry,) = [each for each in registries() if each._has(thing)]
    if thing.name not in registry:
        headcount.register(thing)
    other = type("Other", (thing,), {"__module__": "elsewhere"})
    expected = f"of elsewhere, got {thing.name}, which {thing.__module__} has. Choose another"
    try:
        with pytest.raises(PluginError, match=expected):
            headcount.register(other)
    finally:
        if door not in ("task", "method"):
            registry.remove(thing.name)
