"""Results from the times of a case, and when not to trust them."""

import math

import numpy as np
import pytest

from headcount.speed import Case, Cost, Timing

CASE = Case("forward", 4, 128)


def timing(rounds: list[tuple[float, float, float]], ceiling: float = 2.0) -> Timing:
    dense, pruned = Cost(0.5, 3e6, round(1000 * ceiling)), Cost(0.25, 2e6, 1000)
    return Timing(CASE, dense, pruned, np.array(rounds))


def test_gain_share_and_noise() -> None:
    """Dense takes 2 and 4.5, pruned 2: sqrt(9) / 2 = 1.5 times, half of the possible gain."""
    found = timing([(2.0, 2.0, 4.5), (4.5, 2.0, 2.0)])
    assert found.speedup.value == pytest.approx(1.5)
    assert found.ceiling == 2 and found.reached == pytest.approx(0.5)
    assert found.noise.value == pytest.approx(1)
    assert math.isnan(timing([(2.0, 2.0, 2.0)] * 2, ceiling=1.0).reached)


def test_a_clear_gain_is_believed() -> None:
    assert timing([(3.0, 2.0, 3.0), (3.1, 2.0, 3.0), (3.0, 2.0, 3.1)]).warning() is None


def test_noise_as_large_as_the_gain_is_reported() -> None:
    text = timing([(2.4, 2.0, 2.0), (2.0, 2.0, 2.4), (2.4, 2.0, 2.0)]).warning()
    assert (
        text is not None
        and "forward, batch 4, 128 tokens: a change of +9.5\u202f% is within" in text
    )
    assert "more --rounds" in text


def test_a_gain_whose_interval_holds_none_is_reported() -> None:
    """The dense model is steady, the pruned one is not."""
    text = timing([(3.0, 1.0, 3.0), (3.0, 4.0, 3.0), (3.0, 2.0, 3.0)]).warning()
    assert text is not None and "within the noise" in text


def test_a_ratio_above_its_ceiling_is_an_error() -> None:
    sure = timing([(3.0, 2.0, 3.0), (3.1, 2.0, 3.0), (3.0, 2.0, 3.1)], ceiling=1.2).warning()
    assert sure is not None and "1.516 is above its ceiling of 1.200" in sure
    assert "work that FLOPs don't count" in sure
    chance = timing([(3.0, 2.0, 3.0), (4.0, 2.0, 3.0), (3.0, 2.0, 2.0)], ceiling=1.45).warning()
    assert chance is not None and "its interval includes the ceiling" in chance
    swapped = timing([(3.0, 4.0, 3.0), (3.1, 4.0, 3.0), (3.0, 4.0, 3.1)], ceiling=0.8).warning()
    assert swapped is not None and "1.25 times the FLOPs of the first" in swapped


def test_records() -> None:
    found = timing([(2.0, 1.0, 2.0), (2.0, 1.0, 2.0)]).record()
    assert found["dense"] == {
        "latency_s": 0.5,
        "examples_per_s": 8,
        "tokens_per_s": 1024,
        "peak_bytes": 3e6,
        "flops": 2000,
    }
    assert found["rounds_s"] == {"dense": [2, 2], "pruned": [1, 1], "dense_again": [2, 2]}
    assert found["speedup"] == {"value": 2, "low": 2, "high": 2}
    generation = Case("generate", 4, 128, 32)
    assert Cost(0.5, 0.0, 0).record(generation)["tokens_per_s"] == 4 * 32 / 0.5
    assert str(generation) == "generate, batch 4, 128 + 32 tokens"
