"""A method of one's own chooses heads by name, and one that chooses others is a sentence."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headcount import Plan, choose_heads, register
from headcount.core import ChangedModelError, Head, PluginError, PluginWarning
from headcount.pruning import METHODS, Ranking, Selection, Trial, curve, method, options_of_method
from headcount.results import ALL
from tests.pruning.context import context


@dataclass(frozen=True)
class Last(Ranking):
    """Prunes the last heads first, or the first ones."""

    first: bool = False
    """Whether the first heads are pruned first."""
    name = "last"

    def order(self, context: Any, keep: Any = None) -> Any:
        heads = list(context.units.heads)
        return dict.fromkeys(heads if self.first else heads[::-1], float("nan"))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(Last)
    yield
    METHODS.remove("last")
    options_of_method.cache_clear()


def test_it_chooses_by_name_with_options() -> None:
    given = context("masked-bert")
    heads = list(given.loaded.heads)
    kept = choose_heads(given.loaded, given.train, "last", keep=2).kept_heads(given.loaded.heads)
    assert kept == heads[:2]
    first = method("last", first=True)
    kept = choose_heads(given.loaded, given.train, first, keep=2).kept_heads(given.loaded.heads)
    assert kept == heads[-2:]


def too_many(method: Any, context: Any, keep: Any) -> Selection:
    heads = context.loaded.heads
    return Selection(Plan.keeping(heads, heads), context.loaded)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda *_: 1 / 0, "to choose heads by last, got ZeroDivisionError"),
        (lambda *_: 3, "Expected a Selection of last of the plug-in .*, got int"),
        (
            too_many,
            "Expected 2 heads of those that can be pruned to be kept by last .*, got 10, and",
        ),
    ],
)
def test_a_broken_method_is_a_sentence_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch, found: Any, expected: str
) -> None:
    given = context("masked-bert")
    monkeypatch.setattr(Last, "choose", found)
    with pytest.raises(PluginError, match=expected):
        choose_heads(given.loaded, given.train, "last", keep=2)
    trial, ways = (
        Trial(given, given.train, scores=False),
        {"last": Last(), "random": method("random")},
    )
    with pytest.warns(PluginWarning, match=expected):
        points = curve(trial, ways, [2], [0], unsuited=None)
    assert "random" in {each.method for each in points.points} and "last" not in {
        e.method for e in points.points
    }


def test_points_from_before_it_changed_the_model_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    given, left = context("masked-bert"), dict[str, str]()
    given = replace(given, loaded=copy.deepcopy(given.loaded))

    def changing(method: Any, context: Any, keep: Any) -> Any:
        next(context.loaded.model.parameters()).data.mul_(1.01)

    monkeypatch.setattr(Last, "choose", changing)
    ways = {"random": method("random"), "last": Last(), "norm": method("norm")}
    trial = Trial(given, given.train, scores=False)
    points = curve(trial, ways, [2], [0], failed=left.__setitem__)
    assert {each.method for each in points.points} == {ALL, "random"}
    assert f"the plug-in {__name__} to leave the model as it is" in left["last"]
    assert left["norm"] == "not measured on the model that last changed"
    with pytest.raises(ChangedModelError):
        curve(replace(trial, context=given), {"last": Last()}, [2], [0])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (list, "got a list"),
        (lambda order: None, "got a NoneType"),
        (lambda order: {"dec.9.9": 1.0}, "got dec.9.9, which is none of them"),
        (lambda order: {Head("decoder.self", 9, 9): 1.0}, "got dec.9.9, which is none of them"),
        (lambda order: dict([*order.items()][1:]), "got no enc.1.4"),
        (lambda order: dict.fromkeys(order, "a"), "got str for enc.1.4"),
    ],
)
def test_an_order_of_other_heads_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, change: Any, expected: str
) -> None:
    given, order = context("masked-bert"), Last.order
    monkeypatch.setattr(Last, "order", lambda *asked: change(order(*asked)))
    with pytest.raises(PluginError) as found:
        choose_heads(given.loaded, given.train, "last", keep=2)
    assert f"The plug-in {__name__} could not choose heads by last. Expected an order" in str(
        found.value
    )
    assert expected in str(found.value)
