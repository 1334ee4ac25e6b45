"""A plan in JSON names every layer once, as a number is written, and its version as a number."""

from pathlib import Path
from typing import Any

import pytest

from headcount.core import InputError, Plan


def plan(**more: Any) -> dict[str, Any]:
    return {"version": 1, "kept": {"encoder.self": {"0": [0, 2]}}} | more


def test_a_plan_is_read() -> None:
    assert Plan.from_json(plan()).kept == {"encoder.self": {0: (0, 2)}}


@pytest.mark.parametrize("name", ["00", "٠", "-0", "0 ", "x"])
def test_a_layer_that_could_be_named_twice(name: str) -> None:
    kept = {"encoder.self": {"0": [0, 2], name: [1]}}
    with pytest.raises(InputError, match=f"Expected layers of a plan as integers, got '{name}'"):
        Plan.from_json(plan(kept=kept))


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 3])
def test_a_version_that_is_not_the_number(version: Any) -> None:
    with pytest.raises(InputError, match="Expected a plan of version 1 or 2, got"):
        Plan.from_json(plan(version=version))


NEURONS = {"encoder.mlp": {"1": [3, 0]}}


def test_neurons_come_with_the_second_version(tmp_path: Path) -> None:
    found = Plan.from_json(plan(version=2, neurons=NEURONS))
    assert found.neurons == {"encoder.mlp": {1: (0, 3)}}
    found.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == found
    assert '"version": 2' in (tmp_path / "plan.json").read_text()
    with pytest.raises(InputError, match="KeyError: 'neurons'"):
        Plan.from_json(plan(version=2))


def test_a_plan_of_heads_is_written_and_hashed_as_ever(tmp_path: Path) -> None:
    """Folders of earlier versions name this hash."""
    old = Plan.from_json(plan())
    old.write(tmp_path / "plan.json")
    assert '"version": 1' in (tmp_path / "plan.json").read_text()
    assert old.sha256 == "88fbc485f3499b667791cc18aebf8922f762adc1037fcfe18112e01a7d28a507"
    assert old.sha256 != Plan.from_json(plan(version=2, neurons=NEURONS)).sha256


@pytest.mark.parametrize(
    ("neurons", "said"),
    [
        ({"encoder.self": {"0": [1]}}, "Expected sites of a plan out of encoder.mlp, decoder.mlp"),
        ({"encoder.mlp": {"0": [1, 1]}}, "Expected neurons of a plan to be named once"),
        ({"encoder.mlp": {"x": [1]}}, "Expected layers of a plan as integers, got 'x'"),
        ({"encoder.mlp": 3}, "Expected a plan"),
    ],
)
def test_neurons_that_are_none(neurons: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Plan.from_json(plan(version=2, neurons=neurons))
