"""Seconds of the steps of a run, as records hold them."""

from time import perf_counter
from typing import final


@final
class Stopwatch:
    """Times steps that follow each other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Seconds of each step, to the millisecond, by its name and `_s`."""
        self._since = perf_counter()

    def lap(self, name: str) -> dict[str, float]:
        """End a step; returns the seconds of all."""
        now = perf_counter()
        self.seconds[f"{name}_s"] = round(now - self._since, 3)
        self._since = now
        return self.seconds
