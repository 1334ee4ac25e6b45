"""The sections on a curve and on a pruned model, and what the map and cards say of kept heads."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount.artifact.page import PART, pruned_document
from headcount.core import Chart, Document, Facts, Heading, InputError, Text, Warned
from headcount.pages import render, report_view, write_report
from headcount.pages.curves import score_curve
from headcount.pages.kinds import NEITHER, kept_table, leading
from headcount.pages.map_view import keepings
from headcount.pruning.document import best_method, curve_document, curve_shown, numbers_table
from headcount.results import (
    SAME_MODEL,
    Analysis,
    ControlChange,
    ControlRecord,
    CurvePoints,
    MetricChange,
    PipelineRecord,
    Signature,
    SliceChange,
    StagesRecord,
    Survival,
    pruned_warnings,
    read_run,
)
from tests.commanding import headcount
from tests.pages.conftest import Open
from tests.pages.labelled import tables_of
from tests.pages.pruned_folder import BUDGETS, prune_record, write_curve_beside
from tests.pages.run_folder import Wish, write_run

pytestmark = pytest.mark.usefixtures("one_format")


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a curve, 3 x 8 heads."""
    folder = write_run(
        tmp_path_factory.mktemp("dense"), Wish(layers=3, heads=8, profiles=True, importance=True)
    )
    write_curve_beside(folder)
    return folder


@pytest.fixture(scope="module")
def pruned(dense: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model pruned from it, with 13 heads."""
    folder = tmp_path_factory.mktemp("pruned")
    heads = [row.head for row in read_run(dense).rows]
    prune_record(heads, heads[:13]).write(folder)
    return folder


@pytest.fixture(scope="module")
def run(dense: Path, pruned: Path) -> Analysis:
    return read_run(dense, pruned)


def lede(shown: Document | None) -> str:
    """What a document says first."""
    assert shown is not None
    return next(each.text for each in shown.blocks if isinstance(each, Text))


def of_curve(run: Analysis) -> CurvePoints:
    assert run.curve is not None
    return run.curve.points


def test_points_say_their_numbers(run: Analysis):
    (axes,) = score_curve(of_curve(run), "test_score", "BLEU").axes
    said = [text for marks in axes.collections for text in marks.get_urls() or () if text]
    assert "# fisher, 17 kept: 37.1" in said and "# norm, 24 kept: 41.3" in said
    assert "# random, 11 kept: 13.2 (11.7 to 14.7)" in said
    lines = {line.get_label(): line for line in axes.lines}
    marks = next(each for each in axes.collections if "# norm, 24 kept: 41.3" in each.get_urls())
    drawn = np.asarray(marks.get_offsets())
    assert drawn == pytest.approx(np.asarray(lines["norm"].get_xydata()))


def test_the_section_on_the_curve(run: Analysis):
    shown = curve_shown(run)
    assert shown is not None
    charts = [each for each in shown.blocks if isinstance(each, Chart)]
    open_ = [each.name for each in charts if not each.is_detail]
    assert open_ == ["curve_test_score", "curve_test_loss"]
    tables = tables_of(shown)
    assert [*tables] == [
        "BLEU, test set",
        "Loss (nats), test set",
        "Loss (nats), development set",
        "What fisher keeps",
    ]
    scores = tables["BLEU, test set"]
    assert scores.headers == ("heads kept", "24 (all)", "17", "11", "5")
    assert {row[0]: row[3] for row in scores.rows} == {
        "fisher": "26.10",
        "norm": "25.90",
        "random": "13.20 (11.70 to 14.70)",
    }
    assert Heading("What fisher keeps") in shown.blocks
    assert curve_shown(replace(run, curve=None)) is None


def test_a_squared_distance_is_not_in_nats(run: Analysis):
    """The loss of similarity and regression, in tables and on axes."""
    assert run.curve is not None
    record = replace(run.curve.record, metric="spearman")
    shown = curve_document(replace(run.curve, record=record))
    losses = [title for title in tables_of(shown) if title.startswith("Loss")]
    unit = "(squared distance)"
    assert losses == [f"Loss {unit}, test set", f"Loss {unit}, development set"]
    (chart,) = (each for each in shown.blocks if getattr(each, "name", "") == "curve_test_loss")
    assert isinstance(chart, Chart) and chart.figure is not None
    assert chart.figure.axes[0].get_ylabel() == f"loss {unit}, test set"


def test_controls_stand_beside_the_dense_model(run: Analysis):
    """The dense model trained as a method trained; the other method has none."""
    points = of_curve(run).points
    control = replace(
        points[1], is_control=True, keep=24, numbers={**points[1].numbers, "test_score": 43.25}
    )
    table = numbers_table(CurvePoints((*points, control)), "test_score")
    assert table.headers[1:3] == ("24 (all)", "24 (all), control")
    assert [row[1:3] for row in table.rows] == [
        ("41.30", "43.25"),
        ("41.30", "–"),
        ("41.30", "–"),
    ]


def test_the_development_data_choose_the_method(run: Analysis):
    """Not the test data, on which another method is better."""
    points = [
        replace(each, numbers={**each.numbers, "test_loss": -each.numbers["loss"]})
        for each in of_curve(run).points
    ]
    assert best_method(CurvePoints(tuple(points))) == "fisher"


def test_choices_of_heads_say_what_chose_them(run: Analysis):
    pruned, *budgets = keepings(run)
    assert pruned.about == "The pruned model keeps 13 of 24 heads, chosen by fisher."
    assert [each.about for each in budgets] == [
        f"{keep} of 24 heads kept by fisher." for keep in BUDGETS
    ]


def test_heads_of_each_kind_are_counted_at_each_budget(run: Analysis):
    found = leading(run)
    choices = {each.key: each.kept for each in keepings(run)}
    assert [len(each) for each in choices.values()] == [13, *BUDGETS]
    table = kept_table(run, choices)
    assert table.headers == ("heads", "all", *choices)
    labels = {head: leads.kind.label if leads else NEITHER for head, leads in found.items()}
    assert {row[0] for row in table.rows} == {*labels.values()}
    for label, total, *kept in table.rows:
        heads = [head for head in labels if labels[head] == label]
        assert total == str(len(heads))
        assert kept == [str(sum(head in each for head in heads)) for each in choices.values()]


def test_the_section_on_the_pruned_model(run: Analysis):
    assert run.pruned is not None
    shown = pruned_document(run)
    assert shown is not None
    assert lede(shown) == "11 of 24 heads were pruned, chosen by fisher."
    (facts,) = (each for each in shown.blocks if isinstance(each, Facts))
    cost = (
        "BLEU 41.3 → 37.1 (−4.20 or 10\u202f% less; 95\u202f%: −7.30 to −1.10), on 89 held-out "
        "test examples"
    )
    assert ("Worse", cost) in facts.rows
    worse = f"Worse: {cost}."
    ((_, answer),) = PART.answers(run)
    assert (
        answer.startswith("11 of 24 heads were pruned, chosen by fisher. Worse: ")
        and worse in answer
    )
    taught = lede(pruned_document(replace(run, pruned=replace(run.pruned, trained_on=3000))))
    assert "Then the model was trained for 3,000 updates with the dense one as teacher." in taught
    tables = tables_of(shown)
    (score, loss) = tables["Before and after, test set (89 examples)"].rows
    assert score[3:] == ("−4.20", "−7.30 to −1.10", "0.003")
    assert (loss[0], loss[3]) == ("loss", "+0.300")
    (survived,) = tables["Functions"].rows
    assert (survived[0], survived[1], *survived[3:]) == ("positional", "7", "1", "enc.0.2")
    assert Warned("89 examples are few") in shown.blocks
    assert dict(report_view(run).opening.answers)["Pruned"] == answer
    score = run.pruned.data_sets["test"].score
    open_ = replace(run.pruned.data_sets["test"], score=replace(score, low=-1.0, high=9.0))
    unsure = replace(run, pruned=replace(run.pruned, data_sets={"test": open_}))
    ((_, answer),) = PART.answers(unsure)
    assert (
        " No loss found: BLEU 41.3 → 37.1 (−4.20; 95\u202f%: −9.00 to +1.00), on 89 held" in answer
    )


def test_numbers_on_both_data_sets_and_against_the_control(run: Analysis):
    """Test data, which chose nothing, come first."""
    assert run.pruned is not None
    test = run.pruned.data_sets["test"]
    score = MetricChange("bleu", True, 40.5, 36.2, 4.3, -0.4, 9.0, 0.03)  # p of another test
    dev = replace(test, score=score)
    against = SliceChange(
        89, MetricChange("bleu", True, 43.1, 37.1, 6.0, 2.0, 9.5, 0.004), test.loss
    )
    control = ControlRecord((), {"test": ControlChange(dev, against)})
    pipeline = PipelineRecord(stages=(), facts=StagesRecord(), control=control, seconds=1.0)
    kept, more = ("enc.0.1", "enc.0.3"), ("enc.0.2",)
    record = replace(
        run.pruned,
        data_sets={"dev": dev, "test": test},
        pipeline=pipeline,
        functions=(Survival("sink", 5, (*kept, "enc.1.0"), kept, more),),
    )
    shown = pruned_document(replace(run, pruned=record))
    assert shown is not None
    facts = [each.rows for each in shown.blocks if isinstance(each, Facts)]
    said = " ".join(f"{word}: {text}" for word, text in facts[0])
    tables = tables_of(shown)
    assert "Worse: BLEU 41.3 → 37.1 " in said and "40.5" not in said
    on = [tables[f"Before and after, {name} set (89 examples)"] for name in ("test", "development")]
    assert [(row[0], row[1], row[2], row[5]) for table in on for row in table.rows] == [
        ("BLEU", "41.3", "37.1", "0.003"),
        ("loss", "1.00", "1.30", "0.001"),
        ("control: BLEU", "40.5", "36.2", "–"),
        ("control: loss", "1.00", "1.30", "0.001"),
        ("from control to pruned: BLEU", "43.1", "37.1", "0.004"),
        ("from control to pruned: loss", "1.00", "1.30", "0.001"),
        ("BLEU", "40.5", "36.2", "–"),
        ("loss", "1.00", "1.30", "0.001"),
    ]
    assert tables["Functions"].rows == (("sink", "5", "3", "2", *more),)


def test_cards_say_where_a_head_is_kept(run: Analysis):
    cards = {card.head: card.fate for card in report_view(run).cards}
    assert cards["enc.0.0"] == (
        "The pruned model keeps it. The curve's best method, fisher, keeps it among 17, 11 and 5 "
        "heads."
    )
    assert cards["enc.1.4"] == (  # the 13th head
        "The pruned model keeps it. The curve's best method, fisher, keeps it among 17 heads and "
        "prunes it at 11 and 5."
    )
    assert cards["enc.2.7"] == (
        "The pruned model is without it. The curve's best method, fisher, prunes it at 17, 11 and "
        "5."
    )


@pytest.mark.slow
def test_heads_to_start_with_are_marked_if_they_are_pruned(run: Analysis):
    assert run.pruned is not None
    kept = replace(run.pruned, kept=(*run.pruned.kept, *run.pruned.pruned), pruned=())
    plain = report_view(replace(run, pruned=kept)).starts
    one = replace(kept, kept=kept.kept[1:], pruned=(plain[0].head,))
    first, *others = report_view(replace(run, pruned=one)).starts
    assert (first.head, first.why) == (plain[0].head, f"{plain[0].why} (pruned)")
    assert others == [*plain[1:]]


def test_a_model_of_other_heads_is_refused(dense: Path, tmp_path: Path):
    prune_record(["enc.0.0", "enc.0.1"], ["enc.0.0"]).write(tmp_path)
    with pytest.raises(InputError, match="with 24 heads, got .*, pruned from dense with 2"):
        read_run(dense, tmp_path)
    with pytest.raises(InputError, match=r"prune\.json"):
        read_run(dense, dense)


@pytest.mark.once
@pytest.mark.parametrize("name", list(SAME_MODEL))
def test_a_model_measured_in_another_way_is_refused(dense: Path, tmp_path: Path, name: str):
    """Every part of the signature that both commands depend on is named where it differs."""
    run = read_run(dense)
    heads = [row.head for row in run.rows]
    parts = {**run.record.signed.parts, "tokenizer": "t", "processor": "p", "torch": "2.13"}
    record = replace(prune_record(heads, heads[:5]), signature=str(Signature(parts)))
    record.write(tmp_path)
    assert not pruned_warnings(run.record, record)
    others = {**parts, name: "3.1" if SAME_MODEL[name].is_version else "another"}
    signed = replace(run.record, signature=str(Signature(others)))
    replace(run, record=signed).write(tmp_path / "run")
    with pytest.raises(InputError, match=rf"\({name}\) in both, got .* in the pruned model"):
        read_run(tmp_path / "run", tmp_path)


@pytest.mark.slow
def test_a_pruned_model_of_an_older_version_is_warned_of(dense: Path, pruned: Path):
    run = read_run(dense, pruned)
    assert run.pruned is not None
    found = pruned_warnings(run.record, run.pruned)
    assert len(found) == sum(each.is_stated for each in SAME_MODEL.values())
    assert found[0] == (
        "the kernel of attention (kernel, sdpa in the analysis) is not stated by results of "
        "earlier versions"
    )
    page = render(report_view(run))
    assert "is not stated by results of earlier versions" in page
    plan = replace(run.pruned, data_sets={})
    assert not pruned_warnings(run.record, plan), "a plan has no numbers"


@pytest.mark.slow
def test_the_command_takes_a_pruned_folder(dense: Path, pruned: Path, tmp_path: Path):
    status, _, errors = headcount("report", dense, "--pruned", pruned, "--formats", "svg")
    assert status == 0, errors
    assert "Before and after pruning" in (dense / "report.html").read_text()
    status, _, errors = headcount("report", dense, "--pruned", "headcount:en-de-36")
    assert status == 2 and "with 24 heads, got" in errors, "the shipped model was found"


@pytest.mark.slow
@pytest.mark.browser
def test_the_map_strikes_out_pruned_heads_and_counts_the_kept_ones(
    dense: Path, pruned: Path, open_page: Open
):
    write_report(dense, pruned)
    page = open_page(dense)
    page.click("[data-kept=pruned]")
    assert page.locator(".cell.gone").count() == 11
    assert str(page.get_attribute("[data-head='enc.2.7']", "aria-label")).endswith("; pruned")
    counts = page.locator(".chip.verdict[data-filter^=verdict] b").all_inner_texts()
    assert sum(int(text.split(" of ")[0]) for text in counts) == 13
    page.select_option("#colour-by", "confidence")
    assert page.locator(".cell.gone").count() == 11
    page.click("[data-kept=keep-5]")
    assert page.locator(".cell.gone").count() == 19
    page.click("[data-kept='']")
    assert page.locator(".cell.gone").count() == 0 and page.inner_text("#kept-about") == ""
    assert "pruned" not in str(page.get_attribute("[data-head='enc.2.7']", "aria-label"))
