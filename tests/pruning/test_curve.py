"""A curve: every point is a gated forward, a run resumes, and figures and document agree."""

from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
import pytest

from headcount.core import InputError, ModelError, Table, UnsuitedError, styled
from headcount.pages import document_of, write_documents
from headcount.pages.curves import score_curve
from headcount.pruning import (
    Keep,
    Method,
    PruningContext,
    Selection,
    Trial,
    curve,
    curve_of,
    method,
)
from headcount.pruning.document import curve_document, numbers_table, sentences
from headcount.pruning.methods.learned import L0, Subset
from headcount.results import ALL, Curve, CurvePoints, CurveRecord, Signature
from headcount.tap import gated
from headcount.tasks import TaskSplits, drawn, evaluate
from headcount.training import FinetuneConfig, TrainingRun, finetune
from tests.pruning.context import context

METHODS = {name: method(name) for name in ("norm", "random")}
KEEPS = [3, 7]
METRIC = ("perplexity", False)
"""A score, and whether higher is better."""


def measured(state: Path | None = None, key: str = "", **more) -> CurvePoints:
    given = context("causal-gpt2", state, **more)
    return curve(Trial(given, given.train, given.train), METHODS, KEEPS, seeds=[0, 1], key=key)


def recorded(points: CurvePoints) -> Curve:
    heads = context("causal-gpt2").loaded.heads.counts
    said = tuple(sentences(points, *METRIC))
    facts = CurveRecord(
        metric=METRIC[0],
        heads=heads,
        sentences=said,
        warnings=("a warning",),
        signature="signed",
    )
    return Curve(facts, points)


@pytest.fixture(scope="module")
def points() -> CurvePoints:
    """What `measured` returns."""
    return measured()


def test_rows(points: CurvePoints) -> None:
    given, frame = context("causal-gpt2"), points.frame
    assert list(frame["method"]) == [ALL, *["norm"] * 2, *["random"] * 4]
    assert list(frame["keep"]) == [10, 7, 3, 7, 3, 7, 3]
    assert list(frame["seed"]) == [0, 0, 0, 0, 0, 1, 1]
    assert frame["heads"].iloc[3] != frame["heads"].iloc[5]  # another seed
    for row in frame.to_dict("records"):
        left = row["heads"]
        assert len(left) == row["keep"] == row["kept_decoder.self"]
        gone = {str(head): 0.0 for head in given.loaded.heads if str(head) not in left}
        with gated(given.loaded.model, gone):
            expected = evaluate(given.loaded.model, given.train)
        assert row["loss"] == row["test_loss"] == pytest.approx(expected.loss, rel=1e-6)
        assert row["score"] == pytest.approx(given.train.score(expected), rel=1e-6)


def test_each_data_set_has_its_own_numbers(tmp_path: Path) -> None:
    """Heads are chosen on one, and points measured on the other two."""
    given = context("causal-gpt2")
    dev, test = (given.train.some(np.array(rows)) for rows in ([0, 1], [2, 3, 4]))
    points = curve(Trial(given, dev, test), {"norm": METHODS["norm"]}, [3])
    assert {point.method for point in points.points} >= {ALL, "norm"}
    for prefix, task in (("", dev), ("test_", test)):
        for point in points.points:
            gone = {str(head): 0.0 for head in given.loaded.heads if head not in point.heads}
            with gated(given.loaded.model, gone):
                expected = evaluate(given.loaded.model, task).loss
            assert point.numbers[f"{prefix}loss"] == pytest.approx(expected, rel=1e-6)


def test_random_orders_differ_by_seed_and_others_do_not_run_twice(points: CurvePoints) -> None:
    first, second = (
        {
            each.keep: each.heads
            for each in points.points
            if (each.method, each.seed) == ("random", s)
        }
        for s in (0, 1)
    )
    assert first != second
    assert {each.seed for each in points.points if each.method == "norm"} == {0}


def test_methods_that_were_left_out_are_warned_of(points: CurvePoints) -> None:
    given = context("causal-gpt2")
    splits = TaskSplits(given.train, given.train, warnings=("dev is train",))
    left = {"norm": "It has no norm."}
    found = curve_of(points, given.loaded, splits, METHODS, "", left_out=left)
    assert found.record.warnings == ("dev is train", "norm is left out: It has no norm")


@pytest.mark.slow
def test_budgets_are_of_the_heads_that_may_go() -> None:
    """With one site, the others keep all heads, and axes and refusals refer to that site."""
    given = context("translation-Marian", sites=["encoder.self"])
    heads = given.loaded.heads.counts
    trial = Trial(given, given.train, scores=False)
    parts = Signature.parse(replace(trial, test=given.train).signature)
    data = [parts.get("corpus"), parts.get("dev"), parts.get("test")]
    assert [*map(len, filter(None, data))] == [12] * 3 and len({*data}) == 1
    frame = curve(trial, {"norm": method("norm")}, [4, 1]).frame
    assert (
        list(frame["keep"])
        == list(frame["kept_encoder.self"])
        == [sum(heads["encoder.self"]), 4, 1]
    )
    for site in ("decoder.self", "decoder.cross"):
        assert set(frame[f"kept_{site}"]) == {sum(heads[site])}
    with pytest.raises(InputError, match=f"between 0 and {sum(heads['encoder.self'])} heads to"):
        curve(trial, {"norm": method("norm")}, [99])


def test_what_can_not_be_trained_is_refused_before_anything_is_measured() -> None:
    given = context("causal-gpt2")
    way = L0(replace(L0().tuning, trained="encoder"))

    def reported(*_: object) -> None:
        raise AssertionError("measured")

    trial = Trial(replace(given, progress=reported), given.train)
    with pytest.raises(InputError, match="Expected a model with an encoder"):
        curve(trial, {"l0": way}, KEEPS)


@final
class Fussy(Method):
    """A method that can only keep seven heads."""

    name = "fussy"

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        if keep == 7:
            return METHODS["norm"].choose(context, keep)
        raise UnsuitedError(f"no {keep} heads")


@pytest.mark.slow
def test_methods_that_do_not_suit_the_model(points: CurvePoints, tmp_path: Path) -> None:
    """Such methods raise an error or are left out with all points, whatever was done before."""
    given = context("causal-gpt2", tmp_path)
    trial, ways = Trial(given, given.train, scores=False), {"fussy": Fussy(), **METHODS}
    with pytest.raises(InputError, match="no 3 heads"):
        curve(trial, ways, KEEPS, seeds=[0, 1])
    left_out: dict[str, str] = {}
    frame = curve(trial, ways, KEEPS, seeds=[0, 1], unsuited=left_out.__setitem__).frame
    assert left_out == {"fussy": "no 3 heads"}
    wrong = {"frozen": L0(replace(L0().tuning, trained="encoder")), **ways}
    with pytest.raises(InputError, match="Expected a model with an encoder"):
        curve(trial, wrong, KEEPS, seeds=[0, 1], unsuited={}.__setitem__)
    expected = points.frame.drop(columns=["seconds"]).filter(regex="^(?!.*score|test_)")
    pd.testing.assert_frame_equal(frame.drop(columns="seconds"), expected)
    with pytest.raises(InputError, match="No method can choose heads of this model: .*no 3 heads"):
        curve(trial, {"fussy": Fussy()}, [3], unsuited={}.__setitem__)


@pytest.mark.slow
def test_goes_on(points: CurvePoints, tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("points", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path, progress=stop)
    first = (tmp_path / "points.json").read_text()
    again = measured(tmp_path)
    whole = points.frame
    pd.testing.assert_frame_equal(
        again.frame.drop(columns="seconds"), whole.drop(columns="seconds")
    )
    assert first.count('"heads"') == 4
    assert measured(tmp_path) == again, "seconds too: nothing is run"
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        measured(tmp_path, key="another")


@pytest.mark.slow
def test_other_data_and_other_options_are_another_curve(tmp_path: Path) -> None:
    given = context("causal-gpt2", tmp_path)
    trial = Trial(given, given.train, scores=False)
    first = curve(trial, {"a": method("random")}, [3], seeds=[0])
    same = curve(trial, {"a": method("random")}, [3], seeds=[0])
    assert same == first
    other = curve(trial, {"a": method("norm")}, [3], seeds=[0])
    alone = curve(replace(trial, context=replace(given, state=None)), {"b": method("norm")}, [3])
    losses = [list(each.frame["loss"]) for each in (other, alone, first)]
    assert losses[0] == losses[1] != losses[2]
    half = drawn(given.train, given.train.num_examples // 2)
    with pytest.raises(InputError, match="--resume needs the same model, data and options"):
        curve(replace(trial, dev=half), {"a": method("random")}, [3], seeds=[0])


@pytest.mark.slow
def test_controls(tmp_path: Path) -> None:
    """All heads trained as each method trains, once for methods that train alike."""
    fields = {"updates": 4, "warmup": 0, "batch_tokens": 90, "peak": 0.01, "distilled": 0.5}
    ways = {
        name: kind(replace(kind().tuning, **{**fields, **more}))
        for name, kind, more in (
            ("l0", L0, {}),
            ("subset", Subset, {}),
            ("longer", L0, {"updates": 5}),
            ("frozen", L0, {"trained": "gates"}),
        )
    }
    given = context("causal-gpt2", tmp_path)
    trial = Trial(given, given.train, scores=False)
    points = curve(trial, ways | {"norm": method("norm")}, [3], seeds=[2])
    assert points.methods == [*ways, "norm"] and points.keeps == [3]
    assert list(points.controls) == ["l0", "subset", "longer"]
    dense, controls = points.dense.numbers["loss"], points.controls
    alone = FinetuneConfig(updates=4, warmup=0, batch_tokens=90, peak=0.01)
    expected = evaluate(
        finetune(given.loaded, given.train, alone, run=TrainingRun(2)).loaded.model, given.train
    )
    assert controls["l0"].numbers["loss"] == pytest.approx(expected.loss, rel=1e-6)
    assert controls["l0"].numbers == controls["subset"].numbers != controls["longer"].numbers
    assert controls["l0"].numbers["loss"] != dense and len(controls["l0"].heads) == 10
    assert {path.name for path in tmp_path.glob("control-*")} == {"control-l0", "control-longer"}
    table = numbers_table(points, "loss")
    assert table.headers[2] == "10 (all), control"
    assert [row[2] for row in table.rows] == [
        *(f"{controls[name].numbers['loss']:.2f}" for name in ("l0", "subset", "longer")),
        "–",
        "–",
    ]
    reported = sentences(points, *METRIC, {"l0": 4})
    assert "Compare it with its control: the dense model after as many updates" in reported[-1]
    with styled():
        (axes,) = score_curve(points, "loss", "loss (nats)").axes
    labels = axes.get_legend_handles_labels()[1]
    assert [label for label in labels if "control" in label] == [
        "l0, control",
        "subset, control",
        "longer, control",
    ]


@pytest.mark.slow
def test_document_and_figures(points: CurvePoints, tmp_path: Path) -> None:
    roles = {str(head): ["sink"] for head in points.dense.heads}
    found = recorded(points)
    found.write(tmp_path)
    write_documents(found, document_of(found, roles | {"dec.0.0": []}), tmp_path)
    paths = [*(tmp_path / "figures").iterdir()]
    assert {path.stem for path in paths} == {
        "curve_score",
        "curve_loss",
        "curve_test_score",
        "curve_test_loss",
        "sites",
        "layers",
        "functions",
    }
    assert all(path.stat().st_size > 1000 for path in paths) and len(paths) == 21
    shown = points.first_seed("random")
    assert [(point.keep, point.seed) for point in shown] == [(3, 0), (7, 0), (10, 0)]
    text = (tmp_path / "curve.md").read_text()
    assert "Warning: a warning." in text and "## perplexity, test set" in text
    page = (tmp_path / "curve.html").read_text()
    assert "Warning: a warning." in page and "perplexity, test set" in page and "<svg" in page
    assert Curve.read(tmp_path).points == points


@pytest.mark.slow
@pytest.mark.usefixtures("one_format")
def test_figures_of_an_earlier_run_go(points: CurvePoints, tmp_path: Path) -> None:
    """The earlier run had a test set and roles."""
    roles = {str(head): ["sink"] for head in points.dense.heads}
    found = recorded(points)
    write_documents(found, document_of(found, roles), tmp_path)
    kept = tmp_path / "figures" / "mine.svg"
    kept.write_text("of the user")
    untested = points.frame.drop(columns=["test_loss", "test_score"])
    found = recorded(CurvePoints.of(untested))
    write_documents(found, document_of(found), tmp_path)
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"curve_score", "curve_loss", "sites", "layers", "mine"}


def test_the_best_method_and_those_no_better_than_random(points: CurvePoints) -> None:
    frame = points.frame
    better = frame.assign(score=[1.0, 2, 4, 5, 9, 7, 9])
    points = CurvePoints.of(better)
    assert sentences(points, *METRIC) == [
        "Best mean perplexity on dev over the budgets: norm (3.00).",
        "Random heads: 7.50. Every method is better.",
    ]
    worse = CurvePoints.of(frame.assign(score=[1.0, 9, 9, 5, 8, 7, 8]))
    assert sentences(worse, *METRIC)[1] == "Random heads: 7.00. No better than random: norm."
    equal = CurvePoints.of(frame.assign(score=[1.0, 7, 7, 7, 7, 7, 7]))
    assert sentences(equal, *METRIC)[1] == "Random heads: 7.00. No better than random: norm."
    alone = CurvePoints.of(better.query("method != 'norm'"))
    assert sentences(alone, *METRIC) == ["Random heads: 7.50."]
    broken = CurvePoints.of(frame.assign(score=[1.0, 9, np.nan, 5, 8, 7, 8]))
    assert sentences(broken, *METRIC) == sentences(CurvePoints.of(frame.head(1)), *METRIC) == []
    trained = (*METRIC, {"l0": 1000})
    assert "l0 also trained the weights, 1,000 updates per point" in sentences(worse, *trained)[2]
    assert "there is no control" in sentences(worse, *trained)[2]
    tables = [each for each in curve_document(recorded(points)).blocks if isinstance(each, Table)]
    score = tables[-2]
    assert score.headers == ("heads kept", "10 (all)", "7", "3")
    assert [row[:3] for row in score.rows] == [
        ("norm", "1.00", "2.00"),
        ("random", "1.00", "6.00 (5.00 to 7.00)"),
    ]


def test_a_training_that_fails_is_no_method_that_does_not_suit(tmp_path: Path) -> None:
    """A curve only leaves out what can never work on this model."""
    given = context("causal-gpt2", tmp_path)
    fields = {"updates": 3, "warmup": 0, "batch_tokens": 90, "peak": 1e30}
    wild = L0(replace(L0().tuning, **fields))
    trial = Trial(given, given.train, scores=False, controls=False)
    with pytest.raises(ModelError, match="finite"):
        curve(trial, {"l0": wild}, [3], unsuited={}.__setitem__)
