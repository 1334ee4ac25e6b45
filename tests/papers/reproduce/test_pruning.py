"""Documents on pruning, against numbers computed by hand."""

from dataclasses import replace

import pytest

from headcount.core import SITES, Head, Heads, InputError, Plan
from headcount.papers.document import score_column
from headcount.papers.reproduce import li2021, michel2019_pruning, voita2019_table2
from headcount.papers.reproduce.michel2019_pruning import free_keep
from headcount.papers.reproduce.voita2019_table2 import from_scratch
from headcount.pruning import PruningContext, Subset, Trial, Units, method, numbers_table
from headcount.results import ALL, Curve, CurvePoint, CurvePoints, CurveRecord
from headcount.training import FinetuneConfig, FineTuned
from tests.pruning.context import context
from tests.speed.test_write import speed
from tests.tasks import loaded as small


def curve(rows: list[tuple[str, int, float]], column: str = "test_score") -> CurvePoints:
    """Points of a curve: method, heads kept, and one number."""
    return CurvePoints(
        tuple(
            CurvePoint(
                method=method.removeprefix("control of "),
                seed=0,
                keep=keep,
                is_control=method.startswith("control of "),
                kept=dict.fromkeys([*SITES][:3], keep // 3),
                numbers={"loss": 1.0, column: value},
                heads=(Head("encoder.self", 0, 0),),
            )
            for method, keep, value in rows
        )
    )


def test_which_column_is_compared() -> None:
    assert score_column(curve([(ALL, 9, 1.0)])) == "test_score"
    assert score_column(curve([(ALL, 9, 1.0)], "score")) == "score"
    assert score_column(curve([(ALL, 9, 1.0)], "test_loss")) == "test_loss"


@pytest.mark.parametrize(
    ("higher", "values", "kept"),
    [
        (True, {8: 40.1, 6: 39.7, 4: 39.5, 2: 39.9}, 6),  # results after a drop do not count
        (True, {8: 39.5, 6: 40.0}, 10),
        (False, {8: 40.3, 6: 39.0, 4: 40.5}, 6),  # for perplexity, lower is better
    ],
)
def test_what_is_free(higher: bool, values: dict[int, float], kept: int) -> None:
    rows = [(ALL, 10, 40.0), *(("gradient", keep, value) for keep, value in values.items())]
    assert free_keep(curve(rows, "score"), "gradient", higher) == kept
    losses = free_keep(curve(rows, "loss"), "gradient", True)
    assert losses == free_keep(curve(rows, "score"), "gradient", False)


def measured(points: CurvePoints, metric: str) -> Curve:
    return Curve(CurveRecord(metric=metric, heads={}, signature="signature"), points)


def test_michel_s_table() -> None:
    points = curve([(ALL, 10, 40.0), ("gradient", 8, 39.92), ("random", 8, 30.0)], "score")
    text = michel2019_pruning.pruning_document(
        measured(points, "bleu"), True, "Not measured.", "score"
    ).markdown()
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    assert ["", "here", "gradient", "20", "0.2", ""] in rows
    assert ["", "here", "random", "0", "0.0", ""] in rows
    assert "Not measured." in text and not any("ablation" in row for row in rows)
    assert "on the examples of the last column, which is therefore optimistic" in text
    assert "worse by, % (same examples)" in text


def test_the_free_share_is_chosen_on_one_set_and_measured_on_the_other() -> None:
    rows = [(ALL, 10, 40.0), ("gradient", 8, 39.9), ("gradient", 6, 30.0)]
    points = tuple(
        replace(each, numbers={**each.numbers, "test_score": 0.9 * each.numbers["score"] - lost})
        for each, lost in zip(curve(rows, "score").points, (0, 2.0, 0), strict=True)
    )
    text = michel2019_pruning.pruning_document(
        measured(CurvePoints(points), "bleu"), True, "Not measured.", "score"
    ).markdown()
    found = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    lost = 100 * (0.9 * 0.1 + 2.0) / 36
    assert ["", "here", "gradient", "20", f"{lost:.1f}", ""] in found
    assert "The test set of the last column did not choose the share" in text
    assert "worse by, % (test set)" in text


def test_the_first_temperature_is_the_papers() -> None:
    for task, hot in (("translation", 0.1), ("classification", 1000)):
        subsets = [m for m in li2021.li2021_methods(task=task).values() if isinstance(m, Subset)]
        assert [each.hot for each in subsets] == [hot] * 3
        assert [each.straight_through for each in subsets] == [False, False, True]
        assert not any(each.softmax_gradient for each in subsets)


def test_table_2() -> None:
    rows = [(ALL, 144, 50.0), ("trained", 75, 49.5), ("scratch", 144, 48.0), ("scratch", 75, 47.1)]
    rows.append(("control of trained", 144, 50.25))
    text = voita2019_table2.table2_document(
        measured(curve(rows), "bleu"), True, FinetuneConfig(updates=7)
    ).markdown()
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["25/25/25", "75", "49.50", "47.10", "−2.40"] in found
    assert ["48/48/48", "144", "50.00", "48.00", "−2.00"] in found
    assert ["WMT", "14/31/30", "75", "29.62", "29.47", "−0.15"] in found
    assert "bleu; test_score" in text and "as many updates, without gates: 50.25." in text
    rows = [(ALL, 72, 0.89), ("trained", 36, 0.8924), ("scratch", 72, 0.5), ("scratch", 36, 0.4)]
    text = voita2019_table2.table2_document(
        measured(curve(rows), "spearman"), True, FinetuneConfig(updates=7)
    ).markdown()
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["12/12/12", "36", "89.24", "40.00", "−49.24"] in found and "in points" in text
    heads = Heads({"encoder.self": (12,) * 6})
    units = Units(heads, tuple((head,) for head in heads))
    assert voita2019_table2.paper_keeps(units) == [38, 29, 18, 13]
    assert michel2019_pruning.tenths(units) == [65, 58, 50, 43, 36, 29, 22, 14, 7]


def test_new_weights_have_the_heads_of_their_own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    given, trained = context("causal-gpt2"), list[Plan]()
    heads = [*given.loaded.heads]
    plans = {keep: Plan.keeping(given.loaded.heads, heads[:keep]) for keep in (3, 7)}

    def train(context: PruningContext, plan: Plan, tuning: FinetuneConfig) -> FineTuned:
        trained.append(plan)
        return FineTuned(context.loaded, [])

    monkeypatch.setattr(voita2019_table2, "from_scratch", train)
    selection = voita2019_table2.FromScratch(plans, FinetuneConfig()).choose(given, 3)
    assert trained == [plans[3]] and selection.plan.kept == plans[3].kept


@pytest.mark.slow
def test_a_training_from_scratch_has_new_weights_and_keeps_to_the_plan() -> None:
    loaded, task = small.TASKS["classes-bert"]()
    plan = Plan.keeping(loaded.heads, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 3)])
    given = PruningContext(loaded, task, Units.of(loaded.anatomy), seed=1)
    scratch = from_scratch(given, plan, FinetuneConfig(updates=2, batch_tokens=100)).loaded.model
    words = "bert.embeddings.word_embeddings.weight"
    new, old = (each.get_parameter(words).detach() for each in (scratch, loaded.model))
    assert (new - old).abs().max() > 0.1, "new weights"
    query = "bert.encoder.layer.0.attention.self.query.weight"
    start = from_scratch(given, plan, FinetuneConfig(updates=1, peak=1e-12)).loaded.model
    rows, stock = (each.get_parameter(query).detach() for each in (scratch, start))
    moved = (rows - stock).abs().amax(1).view(5, 11).amax(1)
    assert (moved > 1e-6).tolist() == [False, True, False, False, False], "only kept heads"


def test_a_training_from_scratch_is_checked_before_anything_is_measured() -> None:
    def measured(*_: object) -> None:
        raise AssertionError("measured")

    given = context("causal-gpt2", progress=measured)
    trial, taught = Trial(given, given.train), FinetuneConfig(distilled=0.5)
    with pytest.raises(InputError, match="Training from scratch has no teacher"):
        voita2019_table2.table2(trial, method("norm"), [3], taught)


def test_a_method_with_a_point_of_all_heads() -> None:
    """The model trained from scratch does not get the given model's number."""
    rows = [(ALL, 9, 50.0), ("trained", 6, 49.5), ("scratch", 9, 48.0), ("scratch", 6, 47.0)]
    points = curve(rows, "score")
    assert points.keeps == [6]
    found = {name: [p.numbers["score"] for p in points.first_seed(name)] for name in points.methods}
    assert found == {"trained": [49.5, 50.0], "scratch": [47.0, 48.0]}
    assert points.mean("scratch", "score") == 47.0
    table = numbers_table(points, "score")
    assert table.headers[:2] == ("heads kept", "9 (all)")
    assert [row[1] for row in table.rows] == ["50.00", "48.00"]


def test_li_s_claim() -> None:
    values = {12: (45.0, 41.0, 42.0, 44.0, 30.0), 24: (47.5, 46.0, 45.0, 47.0, 40.0)}
    rows = [(ALL, 144, 50.0)]
    for keep, each in values.items():
        rows += [
            (name, keep, value) for name, value in zip(li2021.li2021_methods(), each, strict=True)
        ]
    text = li2021.li2021_document(measured(curve(rows), "bleu"), True).markdown()
    assert "joint subset minus l0, mean over the budgets: +0.75." in text
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["12", "45.00", "41.00", "42.00", "44.00", "30.00"] in found
    assert ["144 (all)", *["50.00"] * 5] in found
    text = li2021.li2021_document(measured(curve(rows), "perplexity"), False).markdown()
    assert "perplexity (lower is better); test_score" in text and "+0.75." in text
    points = [(name, keep, value / 100) for name, keep, value in rows]
    text = li2021.li2021_document(measured(curve(points), "accuracy"), True).markdown()
    assert "accuracy in points; test_score" in text and "+0.75." in text and " 47.50 |" in text


def test_li_s_controls_stand_below_the_dense_model() -> None:
    """Of the methods that train weights; the others have none."""
    rows = [(ALL, 144, 50.0), *((name, 12, 40.0) for name in li2021.li2021_methods())]
    rows.append((f"control of {li2021.JOINT}", 144, 51.25))
    text = li2021.li2021_document(measured(curve(rows), "bleu"), True).markdown()
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["144 (all), control", "51.25", "", "", "", ""] in found


def test_what_is_trained_is_not_tuned() -> None:
    """The paper's methods differ in it."""
    with pytest.raises(InputError, match="Leave trained out of --tune"):
        li2021.li2021_methods({"updates": 3, "trained": "gates"})


def test_an_unreliable_speed_is_reported() -> None:
    points = curve([(ALL, 10, 40.0), ("gradient", 8, 39.9)])
    text = michel2019_pruning.pruning_document(
        measured(points, "bleu"), True, speed(), "score"
    ).markdown()
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    row = ["4", "generate, 16 tokens", "+2.7", "+21.3", "+18.5 to +24.2", "+40.0"]
    assert row in found
    assert "Warning: forward at 512 tokens was left out." in text
