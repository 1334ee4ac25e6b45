"""A clock that only calls advance, so that measured times are known."""

from collections.abc import Callable

import pytest

from headcount.speed import timing as clock


class Steps:
    """Stands in for the clock; `work(name, seconds)` makes a call that takes that long."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.called: list[str] = []
        patch.setattr(clock.time, "perf_counter", lambda: self.now)

    def work(self, name: str, seconds: Callable[[int], float]) -> Callable[[], None]:
        """A call whose time depends on the number of calls before."""

        def call() -> None:
            self.now += seconds(len(self.called))
            self.called.append(name)

        return call
