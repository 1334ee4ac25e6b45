"""Densities of gates: shares by definition, gates that decide and gates that don't, a training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount.core import Document, Head, Table, styled
from headcount.gates import Stretched
from headcount.papers import read_gates
from headcount.papers.reproduce.gate_densities import (
    BINS,
    GateRecorder,
    GateRow,
    densities_figure,
    densities_section,
    density,
    gate_rows,
    recorded_gates,
    write_gates,
)
from headcount.pruning import curve
from headcount.pruning.curves import Trial
from headcount.pruning.methods.learned import L0
from headcount.results import ALL, CurvePoint
from headcount.training import FinetuneConfig
from tests.pruning.context import context
from tests.textbook.gates import hard_concrete

POINT = CurvePoint(method="l0", seed=0, keep=2, kept={}, numbers={}, heads=(Head.parse("enc.0.1"),))
VALUES = {"enc.0.0": -3.0, "enc.0.1": 2.5, "dec.0.0": 0.1, "cross.1.1": -0.7}


def draws(log_a: float) -> np.ndarray:
    """Gates at evenly spaced noise, by definition."""
    return np.array([hard_concrete(log_a, (each + 0.5) / 20_000) for each in range(20_000)])


@pytest.mark.parametrize("value", [0.0, 0.1, 0.5, 0.9])
def test_the_distribution_is_that_of_draws(value: float) -> None:
    found = Stretched().at_most(np.array([*VALUES.values()]), value)
    expected = [(draws(each) <= value).mean() for each in VALUES.values()]
    assert found == pytest.approx(expected, abs=2e-4)


def test_shares_of_a_gate_are_those_of_draws() -> None:
    rows = gate_rows(POINT, VALUES)
    assert [row.head for row in rows if row.is_kept] == ["enc.0.1"]
    assert [row.site for row in rows][2:] == ["decoder.self", "decoder.cross"]
    for row, log_a in zip(rows, VALUES.values(), strict=True):
        gates = draws(log_a)
        shares = (gates == 0, gates < 0.1, gates > 0.9, gates == 1, (gates >= 0.1) & (gates <= 0.9))
        found = (row.closed, row.below, row.above, row.open, row.between)
        assert found == pytest.approx([each.mean() for each in shares], abs=2e-4)
        assert row.mean == pytest.approx(min(1, max(0, -0.1 + 1.2 / (1 + np.exp(-log_a)))))


def test_the_density_is_that_of_all_draws() -> None:
    found = density(gate_rows(POINT, VALUES))
    gates = np.concatenate([draws(each) for each in VALUES.values()])
    inside = gates[(gates > 0) & (gates < 1)]
    counts = np.histogram(inside, BINS, (0, 1))[0] / len(gates)
    assert found == pytest.approx([(gates == 0).mean(), *counts, (gates == 1).mean()], abs=3e-4)
    assert found.sum() == pytest.approx(1)


def shares(rows: list[GateRow]) -> tuple[tuple[str, ...], ...]:
    """The cells of the table."""
    (found,) = [each for each in densities_section(rows) if isinstance(each, Table)]
    return found.rows


def test_gates_that_decide_are_nowhere_between() -> None:
    (cells,) = shares(gate_rows(POINT, {"enc.0.0": -9.0, "enc.0.1": 9.0}))
    assert [*cells] == ["2", "50.0", "50.0", "0.0", "50.0", "50.0", "0 of 2"]
    (cells,) = shares(gate_rows(POINT, {"enc.0.0": 0.0, "enc.0.1": 0.2}))
    assert float(cells[3]) > 20 and cells[-1] == "2 of 2"


@pytest.mark.slow
def test_gates_of_a_training_are_recorded_and_found_again(tmp_path: Path) -> None:
    quick = FinetuneConfig(updates=2, batch_tokens=200, warmup=1, gate_rate=0.3)
    recorder = GateRecorder(L0(quick, voita2019=True), "l0")
    assert repr(recorder) == repr(recorder.method)
    given = context("classes-bert", tmp_path / "state")
    trial = Trial(given, given.train, controls=False)
    points = curve(trial, {"l0": recorder}, [2, 4], seeds=[0])
    rows = recorded_gates(recorder, tmp_path / "state", points)
    heads = [str(head) for head in given.units.heads]
    assert [(row.keep, row.head) for row in rows] == [(k, head) for k in (4, 2) for head in heads]
    assert all(sum(row.is_kept for row in rows if row.keep == keep) == keep for keep in (2, 4))
    for keep in (2, 4):
        own = [row for row in rows if row.keep == keep]
        least = min(row.log_a for row in own if row.is_kept)
        assert all(row.log_a <= least for row in own if not row.is_kept)
    document = Document("", tuple(densities_section(rows)))
    assert "Densities of gates (figure 6)" in document.markdown()
    assert list(document.charts) == ["gate_densities"]
    drawn = document.charts["gate_densities"]()
    assert drawn is not None and len(drawn.axes) == 2
    write_gates(rows, tmp_path)
    assert read_gates(tmp_path) == tuple(rows)
    assert [point.method for point in points.points].count(ALL) == 1
    assert recorded_gates(GateRecorder(recorder.method, "else"), tmp_path / "state", points) == []


@pytest.mark.slow
@pytest.mark.parametrize("budgets", [1, 4])
def test_the_legend_is_inside_the_figure(budgets: int) -> None:
    rows = [row for keep in range(budgets) for row in gate_rows(replace(POINT, keep=keep), VALUES)]
    with styled():
        figure = densities_figure(rows)
        figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and len(figure.axes) == budgets


def test_points_of_an_earlier_version_have_no_gates(tmp_path: Path) -> None:
    document = Document("", tuple(densities_section([])))
    assert "not recorded" in document.markdown() and document.charts == {}
    write_gates([], tmp_path)
    assert not (tmp_path / "gates.parquet").exists()
