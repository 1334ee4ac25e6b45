"""Pace: work of more than a day is refused by its first units, and what takes long is announced."""

import warnings
from collections.abc import Callable, Iterator
from itertools import count, repeat

import pytest

import headcount
from headcount.core import InputError, LongRunWarning, Pace, paced, spread


def every(seconds: float) -> Callable[[], float]:
    """A clock on which a unit takes some seconds."""
    return count(0.0, seconds).__next__


def lasting(seconds: float, total: int) -> list[int]:
    """Units that take some seconds each."""
    return [*paced(range(total), total, "draws", clock=every(seconds))]


def test_more_than_a_day_is_refused_after_the_first_units() -> None:
    seen, units = list[int](), paced(range(10**9), 10**9, "draws", clock=every(1.0))
    with pytest.raises(headcount.ConsentError) as refused:
        seen.extend(units)
    assert str(refused.value) == (
        "Expected work of at most a day, but 1,000,000,000 draws would take about 11,574 days. Ask "
        "for fewer, or accept it with --yes (in Python: headcount.accepting())."
    )
    with pytest.raises(headcount.ConsentError):
        for each in paced(range(10**9), 10**9, "draws", clock=every(1.0)):
            seen.append(each)
    assert seen[-1] <= 3


def test_accepted_work_runs_with_an_estimate() -> None:
    with headcount.accepting(), pytest.warns(LongRunWarning, match="5 draws will take about 2 d"):
        assert lasting(40_000.0, 5) == [*range(5)]
    with pytest.warns(LongRunWarning, match="^100 draws will take about 17 minutes$"):
        assert lasting(10.0, 100) == [*range(100)]


@pytest.mark.parametrize(("seconds", "total"), [(5.0, 100), (50_000.0, 1), (50_000.0, 0)])
def test_short_work_and_a_slow_first_unit_are_no_news(seconds: float, total: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lasting(seconds, total) == [*range(total)]


def test_the_first_unit_is_not_timed_and_the_estimate_takes_some_seconds() -> None:
    """Loading takes an hour here; the units after it are short, and one alone is no estimate."""
    times = iter([3600.0, 3601.0, 3602.5])
    pace = Pace(1000, "draws", clock=times.__next__)
    for _ in range(3):
        assert not pace.is_judged
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LongRunWarning)
            pace.step()
    assert pace.is_judged
    pace.step()
    assert next(times, None) is None, "the clock is not asked again"


def test_what_is_held_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.core.memory.free_memory", lambda: 10**6)
    made = list[bytes]()

    def units() -> Iterator[bytes]:
        for each in repeat(b"0" * 1000):
            made.append(each)
            yield each

    expected = r"Expected 10.18 GB of free memory for 10,000,000 texts, got 1.0 MB. Ask for fewer"
    with headcount.accepting(), pytest.raises(InputError, match=expected):
        tuple(paced(units(), 10**7, "texts", held=True))
    assert len(made) == 1


def test_only_the_main_process_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert len(lasting(10_000.0, 20)) == 20
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(headcount.ConsentError):
        lasting(10_000.0, 20)


def test_shared_work_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.core.progress.monotonic", every(10_000.0))
    with pytest.raises(headcount.ConsentError, match="20 texts would take about 2 days"):
        tuple(spread(str, range(20), "texts"))
    monkeypatch.undo()
    assert [*spread(str, range(8), "texts")] == [*map(str, range(8))]
