"""The clock: order, repeats and the median, on a clock that only calls advance."""

import gc
from collections import Counter

import pytest
import torch

from headcount.speed import latency
from headcount.speed import timing as clock
from headcount.speed.timing import in_turns, orders, repeats_of, timed
from tests.examined import examined
from tests.speed.clock_of_steps import Steps

CPU = torch.device("cpu")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def test_orders_are_fair() -> None:
    """Each call is equally often first, second and third; every order comes with its reverse."""
    found = orders(3)
    assert len(set(found)) == 6
    for place in range(3):
        assert set(Counter(order[place] for order in found).values()) == {2}
    assert all(one == other[::-1] for one, other in zip(found[::2], found[1::2], strict=True))


def test_rounds_put_seconds_where_they_belong(steps: Steps) -> None:
    works = [
        steps.work(name, lambda _, each=each: each)
        for name, each in (("dense", 3.0), ("pruned", 2.0), ("again", 5.0))
    ]
    seconds_RW = in_turns(works, 4, CPU)
    assert seconds_RW.tolist() == [[3.0, 2.0, 5.0]] * 4
    warm, measured = steps.called[:6], steps.called[6:]
    assert warm == ["dense", "pruned", "again"] * 2
    assert measured[:3] == ["dense", "pruned", "again"] == measured[5:2:-1]
    assert len(measured) == 12 and measured[6:9] == ["pruned", "again", "dense"]


def test_short_calls_are_repeated_and_their_median_taken(steps: Steps) -> None:
    """The median of repeats of 1, 1 and 40 seconds is 1."""
    work = steps.work("work", lambda number: 40.0 if number % 3 == 2 else 1.0)
    assert timed(work, CPU, 3) == 1.0 and len(steps.called) == 3
    steps.called.clear()
    in_turns([steps.work("short", lambda _: 0.25)], 2, CPU, shortest=1.75)
    assert len(steps.called) == 2 + 2 * 7


def test_repeats_have_bounds() -> None:
    assert repeats_of(0.0, 1.0) == clock.MOST_REPEATS
    assert repeats_of(9.0, 1.0) == 1
    assert repeats_of(0.3, 1.0) == 4


def test_latency_is_a_median_and_leaves_the_model_as_it_was(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = examined("bert")
    seen = []
    work = steps.work("forward", lambda number: [7.0, 1.0, 9.0, 2.0, 3.0, 4.0][number])

    def forward(**inputs: torch.Tensor) -> None:
        seen.append((model.training, torch.is_inference_mode_enabled(), gc.isenabled()))
        work()

    monkeypatch.setattr(model, "forward", forward)
    model.train()
    assert latency(model, {"input_ids": torch.ones(1, 3).long()}) == 3.0
    assert model.training and gc.isenabled() and seen == [(False, True, False)] * 6
    model.eval()
