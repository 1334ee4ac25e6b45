"""Records of assessments and evaluations: what is written is read, anything else is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcount.core import InputError, JsonObject
from headcount.results import (
    AblationFacts,
    Across,
    Agreement,
    Correlation,
    Effect,
    EvaluationRecord,
    ImportanceRecord,
    SiteEffect,
)

ALONE = Effect(
    site="encoder.self", layer=1, head="enc.1.2", delta=0.1, low=0.0, high=0.3, p=0.2, p_each=0.01
)
R = Correlation(0.7, 0.5, 0.8, 61)
RECORD = ImportanceRecord(
    task="similarity",
    metric="spearman",
    num_examples=40,
    loss=0.5,
    score=0.8,
    methods=("gradient", "ablation"),
    signature="headcount:0.1.0|task:similarity",
    ablation=AblationFacts(replacement="zero", quantity="loss", p_each=(0.5, 0.01)),
    sites=(SiteEffect(site="encoder.self", delta=0.9, low=0.5, high=1.5, p=0.01, p_each=0.001),),
    layers=(replace(ALONE, head=""),),
    all_but_one=(ALONE, replace(ALONE, head="enc.1.0")),
    single_heads=(ALONE,),
    seconds={"gradient": 1.5},
    agreement=Agreement(
        names=("ablation_delta", "gradient"),
        rho=((1.0, 0.5), (0.5, 1.0)),
        low=((1.0, 0.25), (0.25, 1.0)),
        high=((1.0, 0.75), (0.75, 1.0)),
        num_heads=((6, 6), (6, 6)),
        best_predictor="gradient",
        sentence="On this model gradient predicts best.",
    ),
    arguments={"seed": 0},
    across=Across(task="similarity", num_examples=7, pearson=R, spearman=R, sentence="They agree."),
)
EVALUATION = EvaluationRecord(
    num_examples=40,
    loss=1.5,
    scores={"bleu": 36.5, "chrf": 60.25},
    score_signatures={"bleu": "nrefs:1", "chrf": "chrF2"},
    num_truncated=2,
    signature="headcount:0.1.0|task:translation",
    arguments={"num_beams": 4},
)


def unsealed(path: Path) -> dict[str, Any]:
    """A record without hashes."""
    found = json.loads(path.read_text())
    assert found.pop("files") == {} and found.pop("sha256")
    return found


def test_an_assessment_is_read_as_it_was_written(tmp_path: Path):
    path = tmp_path / "importance.json"
    RECORD.write(path.parent)
    assert ImportanceRecord.read(path.parent) == RECORD
    assert unsealed(path) == RECORD.to_json()


def test_what_was_not_measured_is_left_out():
    few = ImportanceRecord(task="t", num_examples=7, score=math.nan).to_json()
    assert few["score"] is None
    assert not {"ablation", "sites", "layers", "all_but_one", "agreement", "across"} & set(few)
    assert "head" not in RECORD.to_json()["layers"][0]


def test_quantities_in_words():
    assert (RECORD.quantity, RECORD.effect) == ("loss", "rise in the loss")
    score = replace(RECORD, metric="bleu", ablation=AblationFacts(replacement="", quantity="score"))
    assert (score.quantity, score.effect) == ("bleu", "drop in BLEU")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"num_examples": "many"}, "num_examples in .* to be a whole number, got .many."),
        ({"layers": [{"site": "enc", "layer": 0, "delta": 1}]}, r"layers\[0\]: expected a site"),
        ({"layers": [{"site": "encoder.self", "delta": 1}]}, r"layers\[0\]\.layer in .*, got none"),
        ({"agreement": {"names": ["a"], "rho": [], "low": [], "high": []}}, "a matrix of 1 x 1"),
        ({"version": 2}, "Expected version 1 in importance.json, got 2"),
    ],
)
def test_a_damaged_assessment(fields: dict, says: str):
    with pytest.raises(InputError, match=says):
        JsonObject.of(RECORD.to_json() | fields, "importance.json", "headcount importance").decode(
            ImportanceRecord
        )


def test_an_evaluation_is_read_as_it_was_written(tmp_path: Path):
    path = tmp_path / "evaluation.json"
    EVALUATION.write(path.parent)
    assert EvaluationRecord.read(path.parent) == EVALUATION
    assert unsealed(path) == {
        "examples": 40,
        "loss": 1.5,
        "bleu": 36.5,
        "bleu signature": "nrefs:1",
        "chrf": 60.25,
        "chrf signature": "chrF2",
        "truncated": 2,
        "signature": "headcount:0.1.0|task:translation",
        "warnings": [],
        "arguments": {"num_beams": 4},
    }


def test_a_damaged_evaluation():
    found = EVALUATION.to_json() | {"loss": "low"}
    with pytest.raises(InputError, match="loss in evaluation.json to be a number or null"):
        EvaluationRecord.from_json(JsonObject.of(found, "evaluation.json", "headcount evaluate"))
