"""Folders that version 0.1.0 left are read, shown and loaded.

They hold a random encoder of 2 layers x 3 heads, analysed on twelve sentences of our sample
(`run`, with `--null`, an assessment and an evaluation), its curve, and it with four heads.
"""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch

import headcount
from headcount.core import Plan, encoded
from headcount.pages import render, report_view, write_report
from headcount.results import (
    Curve,
    CurvePoints,
    CurveRecord,
    EvaluationRecord,
    ImportanceRecord,
    RunRecord,
    read_run,
)

pytestmark = pytest.mark.filterwarnings("ignore:.* has no hashes of the files")

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (RunRecord, "run/run.json"),
        (ImportanceRecord, "run/importance.json"),
        (EvaluationRecord, "run/evaluation.json"),
        (CurveRecord, "curve/curve.json"),
    ],
)
def test_records_lose_nothing(kind: type, name: str):
    """What is read and written again is the same file, with the fields that came later."""
    path = DATA / name
    found, stored = kind.read(path.parent).to_json(), json.loads(path.read_text(encoding="utf-8"))
    if "warnings" in found:
        stored.setdefault("warnings", [])
    if "thresholds" in stored:
        stored["thresholds"] = found["thresholds"] | stored["thresholds"]
    assert found == stored


def test_examples_lose_nothing():
    run, path = read_run(DATA / "run"), DATA / "run" / "examples.json"
    assert encoded(run.examples) == json.loads(path.read_text(encoding="utf-8"))


def test_an_analysis_with_an_assessment_is_shown(tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(DATA / "run", folder)
    run = read_run(folder)
    assert [row.head for row in run.rows] == list(run.record.roles) and len(run.rows) == 6
    assert run.null_rows is not None and run.null_relation_rows is not None
    assert run.importance is not None and run.importance.across is not None
    assert write_report(folder).read_text(encoding="utf-8") == render(report_view(run))


def test_an_evaluation_has_its_score():
    record = EvaluationRecord.read(DATA / "run")
    assert list(record.scores) == ["spearman"] and record.num_examples == 12


def test_a_curve_has_its_points():
    found = Curve.read(DATA / "curve")
    points, record = found.points, found.record
    assert points.methods == ["norm", "random"] and points.keeps == [4, 2]
    assert record.metric == "perplexity" and record.heads == {"encoder.self": (3, 3)}
    assert len(points.dense.heads) == 6 and points.dense.kept == {"encoder.self": 6}


def test_the_control_in_an_old_table():
    frame = pd.read_parquet(DATA / "curve" / "curve.parquet")
    row = frame.iloc[[0]].assign(method="control of l0")
    points = CurvePoints.of(pd.concat([frame, row]))
    assert points.controls["l0"].heads == points.dense.heads
    assert points.methods == ["norm", "random"] and list(points.controls) == ["l0"]


@pytest.mark.slow
def test_a_plan_and_the_pruned_model_are_loaded():
    plan = Plan.read(DATA / "plan.json")
    loaded = headcount.load(str(DATA / "pruned"))
    assert len(plan.kept_heads(headcount.Heads({"encoder.self": (3, 3)}))) == 4
    assert len(loaded.heads) == 4
    with torch.inference_mode():
        logits = loaded.model(input_ids=torch.arange(5)[None] + 5).logits
    assert logits.isfinite().all()
