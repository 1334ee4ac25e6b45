"""A plan in JSON names every layer once, as a number is written, and its version as a number."""

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


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2])
def test_a_version_that_is_not_the_number(version: Any) -> None:
    with pytest.raises(InputError, match="Expected a plan of version 1, got"):
        Plan.from_json(plan(version=version))
