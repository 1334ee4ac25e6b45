"""Damaged folders and files are read, or refused in a sentence that says which file and why."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headcount.core import Heads, Plan
from headcount.pages import render, report_view
from headcount.results import Certificate, Curve, PruneRecord, read_run
from tests.commanding import headcount
from tests.faults.damage import Damage, damaged, damages, number_of_tries
from tests.faults.tally import survive

DATA = Path(__file__).parents[1] / "results" / "data"
SAMPLES = Path(__file__).parents[2] / "headcount" / "data"
HEADS = Heads({"encoder.self": (3, 3)})

Read = Callable[[Path], object]


def tried(least: int) -> settings:
    return settings(
        max_examples=number_of_tries(least),
        deadline=None,
        derandomize=number_of_tries(0) == 0,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
        database=None,
    )


def check(what: str, folder: Path, damage: Damage, read: Read, sealed: bool = True) -> None:
    with TemporaryDirectory() as place:
        copy = damaged(folder, damage, Path(place), sealed)
        survive(what, damage.kind, damage, lambda: read(copy))


def _curve(folder: Path) -> None:
    points = Curve.read(folder).points
    assert points.methods is not None and points.keeps is not None and points.dense in points.points


def _pruned(folder: Path) -> None:
    from headcount.artifact import head_card as card

    card(PruneRecord.read(folder)).markdown()
    Certificate.read(folder).of_now(folder)
    Plan.read(folder / "plan.json").check_heads(HEADS)


@pytest.mark.slow
@tried(12)
@given(damages(DATA / "run"), st.booleans())
def test_a_run(damage: Damage, sealed: bool) -> None:
    check("run", DATA / "run", damage, lambda folder: render(report_view(read_run(folder))), sealed)


@tried(40)
@given(damages(DATA / "curve"), st.booleans())
def test_a_curve(damage: Damage, sealed: bool) -> None:
    check("curve", DATA / "curve", damage, _curve, sealed)


@pytest.mark.slow
@tried(60)
@given(damages(DATA / "pruned", ["prune.json", "certificate.json", "plan.json"]))
def test_records_of_a_pruned_model(damage: Damage) -> None:
    check("records of a pruned model", DATA / "pruned", damage, _pruned)


@pytest.mark.slow
@tried(8)
@given(damages(DATA / "pruned"))
def test_a_pruned_model(damage: Damage) -> None:
    check("pruned model", DATA / "pruned", damage, lambda each: headcount("doctor", each)[0])
