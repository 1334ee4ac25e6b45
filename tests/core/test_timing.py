"""Seconds of steps, and short hashes."""

import time

from headcount.core import Stopwatch


def test_laps_follow_each_other() -> None:
    started = time.perf_counter()
    watch = Stopwatch()
    time.sleep(0.02)
    watch.lap("first")
    seconds = watch.lap("second")
    assert [*seconds] == ["first_s", "second_s"] and seconds["first_s"] >= 0.02
    passed = time.perf_counter() - started
    assert 0 <= seconds["second_s"] <= sum(seconds.values()) <= passed + 0.002
