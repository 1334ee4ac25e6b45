"""Records of pruning and fine-tuning: what is written is read again, and damage is named."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcount.core import InputError
from headcount.results import (
    Calibration,
    CeilingRecord,
    ChoiceRecord,
    Comparison,
    ControlChange,
    ControlRecord,
    ControlTraining,
    DataSetChange,
    FinetuneChange,
    FinetuneRecord,
    MetricChange,
    PipelineRecord,
    PruneRecord,
    RecoveryRecord,
    SliceChange,
    SpeedRecord,
    StageResult,
    StagesRecord,
    Survival,
)

pytestmark = pytest.mark.filterwarnings("ignore:.* has no hashes of the files")
"""Records are written by hand here."""

SCORE = MetricChange("bleu", True, 30.0, 29.0, 1.0, 0.5, 1.5, 0.01)
LOSS = MetricChange("loss", False, 2.0, 2.5, 0.5, 0.25, 0.75, 0.002)
SHORT = SliceChange(3, SCORE, LOSS)
CHANGE = DataSetChange(7, SCORE, LOSS, {"short (2 to 5)": SHORT})
SPEED = {
    "dense": {"parameters": 9},
    "cases": [
        {
            "mode": "forward",
            "batch": 1,
            "length": 128,
            "new_tokens": 0,
            "speedup": {"value": 1.5, "low": 1.25, "high": 1.75},
            "ceiling": 2.0,
            "rounds_s": {"dense": [0.5]},
        }
    ],
    "warnings": ["noisy"],
}
RECORD = PruneRecord(
    model="m",
    heads={"encoder.self": (2, 2)},
    kept=("enc.0.0",),
    pruned=("enc.0.1", "enc.1.0", "enc.1.1"),
    auto_class="AutoModelForMaskedLM",
    comparisons=(
        Comparison("compact and gated", 1e-6, 2.0, 5e-7, 1e-5, "float32", ("a.tsv",), "00", 7, 2),
    ),
    choice=ChoiceRecord(
        method="fisher",
        options="Fisher(step=1.0)",
        limit={"max_drop": 0.3},
        keep={"encoder.self": 1},
        tried={1: 0.25, 4: 0.0},
        scores={"enc.0.0": 2.0, "enc.0.1": 1.0},
        open={"encoder.self": 2},
        swept={"0.2": 3},
        history=({"step": 1, "loss": 2.0},),
    ),
    pipeline=PipelineRecord(
        stages=(StageResult("folding", 2.0, 1.5), StageResult("recovery", 1.5, 1.75, False)),
        facts=StagesRecord(Calibration("00", 7, 40), RecoveryRecord(({"step": 2},))),
        within_limit={"dev": True, "test": False},
        latency_ms=2.5,
        control=ControlRecord(
            (ControlTraining(settings={"updates": 3, "trained": "all"}, taught=True, kept=False),),
            {"dev": ControlChange(CHANGE, SliceChange(7, SCORE, LOSS))},
        ),
        seconds=3.5,
    ),
    ceiling=CeilingRecord(128, 1.5),
    data_sets={"dev": CHANGE, "test": replace(CHANGE, slices={})},
    compensated_by=("folding",),
    trained_on=4,
    functions=(Survival("sink", 2, ("enc.0.0",), ("enc.0.0",), ()), Survival("rare", 1, ())),
    speed=SpeedRecord.of(SPEED),
    warnings=("--data and --test share examples",),
    signature="headcount:0.1.0",
    arguments={"keep": [1]},
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    assert PruneRecord.read(tmp_path) == RECORD
    bare = PruneRecord(
        model="m", heads={"encoder.self": (2,)}, kept=("enc.0.0",), pruned=("enc.0.1",)
    )
    bare.write(tmp_path)
    assert PruneRecord.read(tmp_path) == bare
    keys = {"model", "heads", "staying", "leaving", "auto_class", "comparisons"}
    shared = {"warnings", "arguments", "headcount", "files", "sha256"}
    assert json.loads((tmp_path / "prune.json").read_text()).keys() == keys | shared
    none = replace(bare, functions=())
    none.write(tmp_path)
    assert PruneRecord.read(tmp_path).functions == ()


def test_the_keys_of_the_file_are_those_of_earlier_versions() -> None:
    found = RECORD.to_json()
    assert list(found["dev"]["score"]) == ["before", "after"]
    assert found["dev"]["drop"] == {"delta": 1.0, "low": 0.5, "high": 1.5, "p": 0.01}
    assert found["dev"]["rise"]["delta"] == 0.5 and found["dev"]["metric"] == "bleu"
    assert found["dev"]["slices"]["short (2 to 5)"]["examples"] == 3
    assert found["tried"] == {"1": 0.25, "4": 0.0} and found["keep"] == {"encoder.self": 1}
    assert found["gains"][1] == {"stage": "recovery", "before": 1.5, "after": 1.75, "kept": False}
    assert found["stages"]["calibration"] == {"data": "00", "examples": 7, "queries": 40}
    assert found["stages"]["recovery"] == {"history": [{"step": 2}]}
    control = found["control"]
    assert control["trainings"] == [{"updates": 3, "trained": "all", "taught": True, "kept": False}]
    beside = ("higher_is_better", "score", "loss", "drop", "rise")
    assert tuple(control["dev"]["pruned"]) == beside
    assert found["mended"] == ["folding"] and found["speed"] == SPEED


def test_numbers_that_do_not_exist_are_null(tmp_path: Path) -> None:
    """One example has no interval; a stage whose numbers overflow has no loss."""
    alone = replace(SCORE, low=math.nan, high=math.nan, p=math.nan)
    replace(RECORD, data_sets={"dev": DataSetChange(1, alone, LOSS)}).write(tmp_path)
    assert "NaN" not in (tmp_path / "prune.json").read_text()
    found = PruneRecord.read(tmp_path).data_sets["dev"].score
    assert math.isnan(found.low) and str(found) == "−1.00"


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        (
            ("dev", "score", "before"),
            "x",
            "Expected dev.score.before in .* a number or null, got .x.",
        ),
        (("dev", "examples"), True, "Expected dev.examples in .* to be a whole number, got true"),
        (("gains", 1, "kept"), 1, r"Expected gains\[1\].kept in .* to be true or false, got 1"),
        (
            ("comparisons", 0, "what"),
            None,
            r"Expected comparisons\[0\].what in .* text, got null",
        ),
        (("leaving", 2), 3, r"Expected leaving\[2\] in .*prune.json to be a text, got 3"),
        (("heads",), [], r"Expected heads in .*prune.json to be an object, got \[\]"),
        (("tried",), {"a": 1.0}, "Expected tried in .* an object with whole numbers as names, got"),
        (("speed", "cases"), {}, "Expected speed.cases in .* to be a list, got {}"),
    ],
)
def test_damage_is_named(
    path: tuple[str | int, ...], value: Any, reported: str, tmp_path: Path
) -> None:
    found = json.loads(json.dumps(RECORD.to_json()))
    part = found
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    (tmp_path / "prune.json").write_text(json.dumps(found))
    with pytest.raises(InputError, match=reported):
        PruneRecord.read(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="the folder of a pruned model, but .*prune.json can't be read: No "
    ):
        PruneRecord.read(tmp_path)
    (tmp_path / "prune.json").write_text("[]")
    with pytest.raises(InputError, match="Expected the contents in .*prune.json to be an object"):
        PruneRecord.read(tmp_path)
    (tmp_path / "prune.json").write_text('{"model": "m", "heads": {}, "staying": []}')
    with pytest.raises(InputError, match="Expected leaving in .*prune.json, got none"):
        PruneRecord.read(tmp_path)


def test_a_finetuning(tmp_path: Path) -> None:
    record = FinetuneRecord(
        data_sets={"dev": FinetuneChange(CHANGE, None), "test": FinetuneChange(CHANGE, CHANGE)},
        tuning={"updates": 3},
        warnings=("w",),
        signature="s",
        history=({"step": 1},),
        arguments={"out": "o"},
    )
    record.write(tmp_path)
    assert FinetuneRecord.read(tmp_path) == record
    assert json.loads((tmp_path / "finetune.json").read_text())["dev"]["teacher"] is None
