"""The document shows measured changes of the score beside the published ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from headcount.core import SITES, Document, Heads, HeadTable, InputError, JsonObject, Table, styled
from headcount.papers import michel2019_document, read_michel2019
from headcount.papers.reproduce.michel2019 import ONE_LEFT_WMT, Ablated, histogram, two_data_sets
from headcount.results import ImportanceRecord
from tests.pages.drawn import assert_whole

HEADS = Heads({"encoder.self": (2, 3)})
DELTAS = [0.02, -0.01, 0.004, 0.0, 0.131]
EACH = [0.001, 0.009, 0.02, 1.0, 0.0001]


def alone(layer: int, head: str, delta: float, p: float) -> dict[str, Any]:
    place = {"site": "encoder.self", "layer": layer, "head": head}
    return place | {"delta": delta, "low": delta, "high": delta, "p": 1.0, "p_each": p}


def ablated(deltas: list[float] = DELTAS, **fields: Any) -> Ablated:
    left = [
        alone(0, "enc.0.0", 0.03, 0.5),
        alone(0, "enc.0.1", 0.02, 0.005),
        alone(1, "enc.1.0", 0.5, 0.5),
        alone(1, "enc.1.1", 0.4, 0.5),
        alone(1, "enc.1.2", 0.1, 0.5),
    ]
    record = {
        "task": "classification",
        "metric": "accuracy",
        "higher_is_better": True,
        "score": 0.84,
        "loss": 0.4,
        "num_examples": 872,
        "signature": "headcount:x|revision:y",
        "methods": ["ablation"],
        "ablation": {"quantity": "score", "replacement": "zero", "p_each": EACH},
        "all_but_one": left,
        "single_heads": [left[1], left[4]],
    }
    table = HeadTable.of(HEADS, {"ablation_delta": deltas, "ablation_p": [0.005, 1, 1, 1, 0.001]})
    found = JsonObject.of(record | fields, "importance.json", "headcount importance")
    return Ablated(table.frame, found.decode(ImportanceRecord))


def lines(document: Document, start: str) -> list[list[str]]:
    """Table rows that start with a cell."""
    tables = (each for each in document.blocks if isinstance(each, Table))
    return [[*row] for each in tables for row in each.rows if row[0] == start]


def test_a_fall_of_accuracy_is_a_negative_change_in_points() -> None:
    found = michel2019_document(ablated())
    assert "accuracy in points 84.00" in found.markdown() and "872 examples" in found.markdown()
    assert lines(found, "here")[0] == ["here", "5", "3", "0.05", "1", "2", "−13.10"]
    assert lines(found, "0")[0] == ["0", "−2.00*", "+1.00*", "–"]
    assert lines(found, "1")[0] == ["1", "−0.40", "0.00", "−13.10*"]


def test_a_rise_of_the_loss_is_a_positive_change() -> None:
    facts = {"quantity": "loss", "replacement": "zero", "p_each": EACH}
    found = michel2019_document(ablated(ablation=facts))
    assert "loss 0.40" in found.markdown()
    assert lines(found, "here")[0][2:5] == ["3", "0.05", "1"]  # without one head the loss drops
    assert lines(found, "0")[0][1:3] == ["+0.02*", "−0.01*"]


def test_perplexity_rises_where_a_head_helps() -> None:
    found = ablated(metric="perplexity", higher_is_better=False, score=9.5)
    assert found.unit == "perplexity" and found.base == 9.5
    np.testing.assert_allclose(found.change_H, DELTAS)


def test_the_head_that_is_left_is_chosen_on_one_data_set_and_measured_on_the_other() -> None:
    other = ablated(all_but_one=[alone(0, "enc.0.1", 0.07, 0.001), alone(1, "enc.1.2", 0.2, 0.5)])
    rows = lines(michel2019_document(ablated(), other), "Encoder self-attention")
    site = "Encoder self-attention"
    within = "−7.00 to −7.00"
    assert rows[0] == [site, "0", "enc.0.1", "−7.00*", within, "−1.31", "−0.01"]
    assert rows[1][3:] == ["−20.00", "−20.00 to −20.00", "−0.16", "+0.10"]
    assert lines(michel2019_document(ablated()), "Encoder self-attention")[0][3] == "−2.00*"


def test_the_head_that_is_left_is_chosen_by_one_half_and_measured_on_the_other() -> None:
    best = alone(0, "enc.0.1", 0.05, 0.005) | {"low": 0.03, "halves": ["enc.0.1", "enc.0.0"]}
    found = michel2019_document(ablated(single_heads=[best]))
    assert (
        "each half of the examples chose a head that was measured on the other half"
        in found.markdown()
    )
    row = lines(found, "Encoder self-attention")[0]
    assert row[2:5] == ["enc.0.1", "−5.00*", "−5.00 to −3.00"]
    assert "so its numbers are optimistic" in michel2019_document(ablated()).markdown()


def test_without_whole_layers_the_section_says_so() -> None:
    found = michel2019_document(ablated(all_but_one=[]))
    assert "Not measured: no layer has several heads, or a run left this out" in found.markdown()
    found = michel2019_document(ablated(), ablated(all_but_one=[]))
    assert "Not measured" in found.markdown()


def test_two_data_sets() -> None:
    other = ablated([3 * delta for delta in DELTAS])
    assert lines(michel2019_document(ablated(), other), "here")[1][1:] == [
        "1.00",
        "1.00 to 1.00",
        "1.00",
    ]
    assert "No second data set was given" in michel2019_document(ablated()).markdown()
    equal = ablated([0.0] * len(DELTAS))
    assert lines(michel2019_document(ablated(), equal), "here")[1][1:] == [
        "–",
        "– to –",
        "–",
    ]


@pytest.mark.slow
def test_figures_of_three_sites_are_whole() -> None:
    heads = Heads({site: (8,) * 6 for site in SITES})
    frame = HeadTable.of(heads, {"ablation_delta": np.linspace(-0.01, 0.1, len(heads))}).frame
    found = Ablated(frame, ablated().record)
    with styled():
        assert_whole(histogram(found), "histogram")
        assert_whole(two_data_sets(found, found), "two data sets")


def test_figures_show_the_score_without_each_head() -> None:
    """84 points less what each head is worth; on two data sets, the other one upwards."""
    found = ablated()
    (axes,) = histogram(found).axes
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    assert sum(bar.get_height() for bar in bars) == 5
    assert min(bar.get_x() for bar in bars) == pytest.approx(84 - 13.1)
    assert max(bar.get_x() + bar.get_width() for bar in bars) == pytest.approx(84 + 1)
    other = ablated([2 * delta for delta in DELTAS], score=0.7)
    (axes,) = two_data_sets(found, other).axes
    heads, star = (np.asarray(dots.get_offsets(), float) for dots in axes.collections)
    assert heads == pytest.approx(np.array([[84 - 100 * d, 70 - 200 * d] for d in DELTAS]))
    assert star.tolist() == [[84, 70]]


def test_published_numbers_are_those_of_the_paper() -> None:
    """The published table has six layers at three sites; the worst is the last cross-attention."""
    assert {len(each) for each in ONE_LEFT_WMT.values()} == {6}
    assert min(min(each) for each in ONE_LEFT_WMT.values()) == ONE_LEFT_WMT["decoder.cross"][5]


def test_a_folder_without_ablation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no importance.json. Run `headcount importance"):
        read_michel2019(tmp_path)
    (tmp_path / "importance.json").write_text(
        json.dumps({"files": {}, "task": "t", "num_examples": 7, "methods": ["norm"]}),
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="by ablation in .*, got one by norm"):
        read_michel2019(tmp_path)


def test_numbers_that_do_not_exist_are_dashes() -> None:
    left = [alone(0, "enc.0.0", 0.03, 0.5) | {"delta": None, "p_each": None}]
    found = michel2019_document(ablated(score=None, all_but_one=left, single_heads=left))
    assert "accuracy in points nan" in found.markdown()
    assert lines(found, "Encoder self-attention")[0][3] == "–"


def test_ablations_measured_in_another_way_are_refused(tmp_path: Path) -> None:
    way = {"quantity": "score", "replacement": "zero", "p_each": EACH}
    for name, quantity in (("one", "score"), ("other", "loss")):
        found = ablated(ablation=way | {"quantity": quantity})
        HeadTable(found.frame).write(tmp_path / name / "heads.parquet")
        found.record.write(tmp_path / name)
    with pytest.raises(InputError, match="zero\\), got others \\(classification, loss, zero"):
        read_michel2019(tmp_path / "one", tmp_path / "other")
