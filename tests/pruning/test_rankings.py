"""Every ranking orders the heads that may be pruned; scores come from the remaining model."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pytest
import torch

from headcount.core import Head, InputError, LayerId, ModelError, Plan
from headcount.importance import Scores, gradient, norm, relevance, sink
from headcount.importance.norm_score import OutputNorm
from headcount.importance.query_means import query_means
from headcount.models import Loaded
from headcount.pruning import BY_SCORE, Greedy, PruningContext, Random, Ranking, Units, choose_heads
from headcount.pruning.budget import Unit
from headcount.pruning.methods.by_score import Stepwise
from headcount.pruning.methods.method import ascending
from headcount.tap import tapped
from headcount.tasks import Translation, evaluate
from headcount.tasks.options import TranslationMetric
from headcount.testing import leaving_no_trace
from tests.examined import examined_double
from tests.importance.test_gate_gradient import by_differences
from tests.pruning.context import TRAINED, context
from tests.tasks.loaded import TRANSLATIONS
from tests.tasks.tiny_task import TinyTask
from tests.textbook import pruning as textbook
from tests.turns import slow

Gradient, Norm = BY_SCORE["gradient"], BY_SCORE["norm"]
RANKINGS: list[Ranking] = [
    *(each(**TRAINED.get(name, {})) for name, each in BY_SCORE.items()),
    *(Greedy(step=0.3), Random()),
]


def names(heads: Sequence[Head]) -> list[str]:
    return [str(head) for head in heads]


@pytest.mark.once
@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda ranking: ranking.name)
@pytest.mark.parametrize("calibration", [5, *slow(2000)])
@pytest.mark.parametrize("task", ["similarity-bert", "causal-llama", "translation-Marian"])
def test_a_head_order_is_a_permutation(ranking: Ranking, task: str, calibration: int) -> None:
    """Rankings on all examples and on a random subset."""
    given = context(task, calibration=calibration)
    assert given.sample.num_examples == min(calibration, given.train.num_examples)
    with leaving_no_trace(given.loaded.model, next(given.train.batches()).inputs):
        order = ranking.order(given)
    assert sorted(names([*order])) == sorted(names(list(given.loaded.heads)))
    unit_of = {head: unit for unit in given.units.units for head in unit}
    runs = list(dict.fromkeys(unit_of[head] for head in order))
    assert [head for unit in runs for head in unit] == [*order]


@pytest.mark.once
@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda ranking: ranking.name)
def test_only_heads_of_the_sites_asked_for_go(ranking: Ranking) -> None:
    given = context("translation-Marian", sites=["encoder.self"])
    plan = ranking.choose(given, {"encoder.self": 3}).plan
    gone = plan.pruned_heads(given.loaded.heads)
    assert len(gone) == 7 and {head.site for head in gone} == {"encoder.self"}


def test_scores_are_those_of_importance() -> None:
    given = context("similarity-bert")
    model, task, anatomy = given.loaded.model, given.train, given.loaded.anatomy
    expected = {
        "gradient": gradient(model, task, anatomy=anatomy),
        "relevance": relevance(model, task, anatomy=anatomy).scores,
        "norm": norm(model, task, anatomy),
        "sink": sink(model, task, anatomy),
    }
    for ranking in (BY_SCORE[name]() for name in expected):
        order, scores = ranking.order(given), expected[ranking.name]
        values = [float(scores[head.layer_id][head.index]) for head in order]
        assert values == pytest.approx(sorted(values), rel=1e-12)
        assert [order[head] for head in order] == pytest.approx(values, rel=1e-12)


@pytest.mark.parametrize("name", ["bert", *slow("marian")])
def test_fisher_is_the_mean_of_squared_derivatives(name: str) -> None:
    model, anatomy = examined_double(name)
    loaded = Loaded(model, None, name)
    given = PruningContext(loaded, TinyTask(model), Units.of(anatomy))
    found = BY_SCORE["fisher"]().scores(given, given.units.units)
    for place, heads in by_differences(model, anatomy).items():
        expected = [textbook.fisher(derivatives) for derivatives in heads]
        torch.testing.assert_close(
            found[place], torch.tensor(expected).double(), rtol=1e-4, atol=1e-9
        )


@pytest.mark.slow
@pytest.mark.parametrize("task", ["similarity-bert", "causal-llama"])
def test_greedy_takes_the_head_that_is_missed_least(task: str) -> None:
    given = context(task)

    def loss_without(heads: list[Head]) -> float:
        gates = {str(head): 0.0 for head in heads}
        with tapped(given.loaded.model, gates=gates, anatomy=given.loaded.anatomy):
            return evaluate(given.loaded.model, given.train).loss

    expected = textbook.greedy_order(given.units.units, loss_without)
    order = Greedy(step=0.0).order(given)
    assert names([*order]) == names([head for unit in expected for head in unit])
    last = expected[-1]
    rise = loss_without([head for unit in expected for head in unit])
    rise -= loss_without([head for unit in expected[:-1] for head in unit])
    assert order[last[0]] == pytest.approx(rise, abs=1e-5)


def by_letters(loaded: Loaded) -> Translation:
    """A task with short outputs: a random model does not end by itself."""
    return Translation(
        loaded, TRANSLATIONS, metric="chrf", num_beams=1, generation={"max_new_tokens": 6}
    )


@pytest.mark.parametrize("task", ["similarity-bert", *slow("translation-Marian")])
def test_greedy_by_score_takes_the_head_whose_score_is_missed_least(task: str) -> None:
    given = context(task)
    if task == "translation-Marian":  # a random model has BLEU 0 with any heads
        given = replace(given, train=by_letters(given.loaded))
    model, anatomy, heads = given.loaded.model, given.loaded.anatomy, list(given.loaded.heads)
    places = dict.fromkeys(head.layer_id for head in heads)
    # Layers, not heads: one head less changes no translation of a random model.
    units = [tuple(each for each in heads if each.layer_id == place) for place in places]
    gone = {str(heads[0]): 0.0}
    with tapped(model, gates=gone, anatomy=anatomy):
        found = Greedy(quantity="score").scores(given, units)

    def score(unit: Unit) -> float:
        with tapped(model, gates=gone | {str(head): 0.0 for head in unit}, anatomy=anatomy):
            return given.train.score(evaluate(model, given.train, texts=True))

    harms = [score(()) - score(unit) for unit in units]
    assert any(abs(harm) > 1e-3 for harm in harms)
    for unit, harm in zip(units, harms, strict=True):
        for head in unit:
            assert found[head.layer_id][head.index] == pytest.approx(harm, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", ["loss", "score"])
def test_a_killed_sweep_of_an_ablation_resumes(quantity: Any, tmp_path: Path) -> None:
    """Measurements are not repeated; the step's file is removed afterwards."""
    name = "similarity-bert" if quantity == "loss" else "translation-Marian"
    greedy = Greedy(step=1.0, quantity=quantity)
    units = context(name).units.units[:4]
    small: dict[str, Any] = {"state": tmp_path}
    if quantity == "loss":  # measured batch by batch, not ablation by ablation
        small["max_tokens"] = 40

    def made(**more: Any) -> PruningContext:
        given = context(name, **more)
        return given if quantity == "loss" else replace(given, train=by_letters(given.loaded))

    def stop(stage: str, done: int, total: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        greedy.scores(made(progress=stop, **small), units)
    file = next(each for each in tmp_path.iterdir() if each.suffix != ".1")
    reported: list[int] = []
    given = made(progress=lambda _, number, __: reported.append(number), **small)
    if quantity == "score":
        kept = json.loads(file.read_text())["done"]
        assert list(kept) == ["no ablation", *(str(head) for (head,) in units[:2])]
    found = greedy.scores(given, units)
    assert not list(tmp_path.iterdir())
    dense = greedy.scores(made(), units)
    for place, scores in dense.items():
        torch.testing.assert_close(found[place], scores, atol=1e-6, rtol=1e-4, equal_nan=True)
    if quantity == "loss":
        assert min(reported) >= 2, "goes on behind what was done"
    greedy.scores(context(name, progress=lambda *_: None, **small), units[:2])
    with pytest.raises(KeyboardInterrupt):
        greedy.scores(made(progress=stop, **small), units)
    with pytest.raises(InputError, match="--resume needs the same"):
        greedy.scores(context(name, **small), context(name).units.units[1:5])


@pytest.mark.slow
def test_an_order_that_goes_back_a_step_finds_no_later_steps_ablation(tmp_path: Path) -> None:
    """Its newest state is damaged while a later step is half done."""
    greedy, stages = Greedy(step=0.3), list[str]()

    def stop(stage: str, done: int, total: int) -> None:
        if stage.startswith("ablation") and stage not in stages:
            stages.append(stage)
        if len(stages) == 3 and done:
            raise KeyboardInterrupt

    given = context("similarity-bert", state=tmp_path, max_tokens=40)
    with pytest.raises(KeyboardInterrupt):
        greedy.order(replace(given, progress=stop))
    (tmp_path / "order.json").write_text("torn")
    with pytest.warns(
        UserWarning, match=r"order of heads .* again: it holds 2 units: gone \(3\), left \(7\)"
    ):
        order = greedy.order(given)
    assert [*order.items()] == [*greedy.order(replace(given, state=None)).items()]
    assert {path.name for path in tmp_path.iterdir()} == {"order.json", "order.json.1"}


def test_heads_are_scored_again_without_those_that_are_pruned() -> None:
    given = context("similarity-bert")  # 10 heads, so a step of 0.3 is 3 of them
    model, anatomy = given.loaded.model, given.loaded.anatomy
    order = Gradient(step=0.3).order(given)
    assert [*order][:3] == [*Gradient().order(given)][:3]
    gone = {str(head): 0.0 for head in [*order][:3]}
    with tapped(model, gates=gone, anatomy=anatomy):
        again = gradient(model, given.train, anatomy=anatomy)
    left = [unit for unit in given.units.units if unit[0] not in [*order][:3]]
    assert [*order][3:6] == [*ascending(left, again)][:3]
    first = Gradient().order(given)
    assert any(order[head] != first[head] for head in [*order][3:])


def test_heads_that_have_gone_add_nothing_to_their_layer() -> None:
    """A layer's norm counts only the remaining heads."""
    given = context("similarity-bert")
    model, anatomy = given.loaded.model, given.loaded.anatomy
    order = Norm(step=0.3).order(given)
    gone = set([*order][:3])
    with tapped(model, gates={str(head): 0.0 for head in gone}, anatomy=anatomy):
        means = query_means(model, given.train, OutputNorm(), anatomy)
    for head in [*order][3:6]:
        of_layer = means[head.layer_id].tolist()
        left = [
            0.0 if Head(head.site, head.layer, index) in gone else each
            for index, each in enumerate(of_layer)
        ]
        expected = of_layer[head.index] / (sum(left) / len(left))
        assert order[head] == pytest.approx(expected, rel=1e-5)
    assert any(head.layer_id == one.layer_id for head in gone for one in [*order][3:6])


@pytest.mark.slow
def test_sites_with_budgets_of_their_own_lose_no_more_than_that() -> None:
    """While one site is measured, the other site's kept heads are active."""
    given = context("translation-Marian")
    heads, keep = given.loaded.heads, {"encoder.self": 9, "decoder.cross": 31}
    room = {site: sum(heads.counts[site]) - number for site, number in keep.items()}

    def loss_without(gone: list[Head]) -> float:
        with tapped(
            given.loaded.model,
            gates={str(head): 0.0 for head in gone},
            anatomy=given.loaded.anatomy,
        ):
            return evaluate(given.loaded.model, given.train).loss

    gone: list[Head] = []
    while sum(room.values()) > len(gone):
        open_sites = [
            site for site, number in room.items() if sum(h.site == site for h in gone) < number
        ]
        left = [head for head in heads if head.site in open_sites and head not in gone]
        gone.append(min(left, key=lambda head: loss_without([*gone, head])))
    found = Greedy(step=0.0).choose(given, keep)
    assert set(found.plan.pruned_heads(heads)) == set(gone)


def test_a_site_that_has_lost_its_share_is_left_as_it_is() -> None:
    given = context("translation-Marian")
    heads, keep = given.loaded.heads, {"encoder.self": 9, "decoder.cross": 4}
    num = {site: sum(heads.counts[site]) for site in keep}
    counted = Counted(step=0.25)
    order = counted.order(given, keep)
    assert Counter(head.site for head in order) == num
    going = Counter(head.site for head in [*order][: sum(num.values()) - 13])
    assert going == {site: num[site] - number for site, number in keep.items()}
    # The first step of 11 prunes 1 head of the encoder; later steps do not change it.
    assert counted.asked == [43, 33 - 10, 33 - 10 - 11]


@final
@dataclass(frozen=True)
class Counted(Stepwise):
    """A method whose scores count its calls."""

    name: ClassVar[str] = "counted"
    asked: list[int] = field(default_factory=list, repr=False)

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        self.asked.append(len(left))
        return {
            LayerId(site, layer): torch.arange(count).double() + 10 * layer
            for site, counts in context.loaded.heads.counts.items()
            for layer, count in enumerate(counts)
        }


@pytest.mark.parametrize("keep", [7, {"encoder.self": 7}])
def test_units_of_several_sizes_are_ordered_to_the_end(keep: Any) -> None:
    """A budget may skip a head, so any of them may be pruned."""
    given = context("similarity-bert")
    heads = list(given.loaded.heads)
    units = [tuple(heads[n : n + 2]) for n in (0, 2, 4, 6)] + [(heads[8],), (heads[9],)]
    given = replace(given, units=Units(given.loaded.heads, tuple(units)))
    counted = Counted(step=0.0)
    plan = counted.choose(given, keep).plan
    assert names(plan.pruned_heads(given.loaded.heads)) == ["enc.0.0", "enc.0.1", "enc.1.3"]
    assert counted.asked == [6, 5, 4, 3, 2, 1]


def test_no_units_have_no_order() -> None:
    given = replace(
        context("similarity-bert"), units=Units(context("similarity-bert").loaded.heads, ())
    )
    assert Norm().order(given) == {}
    assert Norm().choose(given, 10).plan.pruned_heads(given.loaded.heads) == []


def test_kept_heads_follow_unit_by_unit() -> None:
    given = context("causal-llama")
    order = Gradient(step=0.2).order(given, len(given.loaded.heads) - 2)
    assert sorted(names([*order])) == sorted(names(list(given.loaded.heads)))
    unit_of = {head: unit for unit in given.units.units for head in unit}
    runs = list(dict.fromkeys(unit_of[head] for head in order))
    assert [head for unit in runs for head in unit] == [*order]
    means = [sum(order[head] for head in unit) / len(unit) for unit in runs]
    assert means == sorted(means), "of one scoring all"


def test_scores_are_taken_no_longer_than_the_budget_asks(tmp_path: Path) -> None:
    counted, given = Counted(step=0.0), context("similarity-bert", tmp_path)
    first = counted.choose(given, 8)
    assert counted.asked == [10, 9], "two heads go"
    assert len(first.scores) == 10, "kept heads have a score too"
    second = counted.choose(given, 7)
    assert counted.asked == [10, 9, 8], "and one more, from where it was"
    assert set(first.plan.pruned_heads(given.loaded.heads)) < set(
        second.plan.pruned_heads(given.loaded.heads)
    )
    counted.choose(given, 9)
    assert counted.asked == [10, 9, 8]


def test_an_interrupted_order_resumes(tmp_path: Path) -> None:
    dense = [*Gradient(step=0.2).order(context("similarity-bert")).items()]

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "ranking" and done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Gradient(step=0.2).order(context("similarity-bert", tmp_path, progress=stop))
    done: list[int] = []

    def report(stage: str, number: int, total: int) -> None:
        if stage == "ranking":
            done.append(number)

    given = context("similarity-bert", tmp_path, progress=report)
    assert [*Gradient(step=0.2).order(given).items()] == dense
    assert done == [6, 8, 10]
    again = [*Gradient(step=0.2).order(given).items()]
    assert again == dense and done == [6, 8, 10], "read, told nothing"
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        Gradient(step=0.3).order(given)
    first, last = (given.train.some(np.arange(6) + start) for start in (0, 1))
    Gradient().order(replace(given, train=first, state=tmp_path / "first"))
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        Gradient().order(replace(given, train=last, state=tmp_path / "first"))
    for name in ("order.json", "order.json.1"):
        (tmp_path / name).write_text("[")
    with pytest.raises(InputError, match="Expected an order of heads in .*, but it can't be read"):
        Gradient(step=0.2).order(given)


def test_a_step_is_a_share() -> None:
    for step in (-0.1, 1.5, float("nan")):
        with pytest.raises(InputError, match="Expected a number from 0 to 1 for step"):
            Gradient(step=step).order(context("similarity-bert"))


def test_a_head_without_a_score() -> None:
    units = context("similarity-bert").units.units
    scores = {
        LayerId("encoder.self", layer): torch.full((5,), torch.nan).double() for layer in (0, 1)
    }
    with pytest.raises(ModelError, match="got none for enc.0.0 and 9 others"):
        ascending(units, scores)


def test_units_have_the_mean_of_their_heads() -> None:
    units = context("causal-llama").units.units[:2]
    scores = {LayerId("decoder.self", 0): torch.tensor([5.0, 5, 0, 1, 9, 1]).double()}
    assert [*ascending(units, scores)] == [*units[0], *units[1]]
    scores = {LayerId("decoder.self", 0): torch.tensor([5.0, 5, 2, 1, 9, 1]).double()}
    assert [*ascending(units, scores)] == [*units[1], *units[0]]


def test_random_is_seeded() -> None:
    orders = [[*Random().order(context("similarity-bert", seed=seed))] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_a_plan_is_exact_and_nested(tmp_path: Path) -> None:
    given = context("similarity-bert", tmp_path)
    before: set[Head] = set()
    for keep in range(10, -1, -1):
        selection = Norm().choose(given, keep)
        gone = set(selection.plan.pruned_heads(given.loaded.heads))
        assert len(gone) == 10 - keep and before <= gone
        before = gone
    assert selection.plan.model is not None
    assert set(selection.scores) == set(names(list(given.loaded.heads)))
    selection.plan.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == selection.plan
    with pytest.raises(InputError, match="got 11. The nearest is 10"):
        Norm().choose(given, 11)


def test_pruning_takes_a_plain_model_and_the_name_of_a_method_too() -> None:
    given = context("similarity-bert")
    plans = [
        choose_heads(model, given.train, method, keep=4)
        for model, method in [
            (given.loaded, Norm()),
            (given.loaded.model, Norm()),
            (given.loaded, "norm"),
        ]
    ]
    assert plans[0] == plans[1] == plans[2]
    assert len(plans[0].kept_heads(given.loaded.heads)) == 4
    with pytest.raises(InputError, match="Expected a method out of gradient, .* got 'norms'"):
        choose_heads(given.loaded, given.train, "norms", keep=4)


def test_an_order_by_score_is_of_one_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work begun with BLEU is not resumed under another score; losses have no score."""
    given = context("translation-Marian", sites=["encoder.self"])
    scores: list[tuple[TranslationMetric, int]] = [("bleu", 1), ("bleu", 2), ("chrf", 1)]
    counted = Counted()
    monkeypatch.setattr(Greedy, "scores", lambda _, *given: counted.scores(*given))
    for way in (Greedy(1.0, "score"), Greedy(1.0, "loss")):
        again = [
            replace(
                given,
                state=tmp_path / way.quantity,
                train=Translation(given.loaded, TRANSLATIONS, metric=metric, num_beams=beams),
            )
            for metric, beams in scores
        ]
        order = [*way.order(again[0]).items()]
        for other in again[1:]:
            if way.quantity == "loss":
                assert [*way.order(other).items()] == order
                continue
            with pytest.raises(InputError, match="resume"):
                way.order(other)
        assert [*way.order(again[0]).items()] == order
    assert len(counted.asked) == 2
