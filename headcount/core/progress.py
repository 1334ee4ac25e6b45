"""Progress: how far a long run has got, reported to a callback."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done, and all steps (0 if not known)."""


Steps = Callable[[int, int], None]
"""Called with the steps done and all steps of one stage."""


def silent_steps(done: int, total: int) -> None:
    """The steps of a stage that nobody watches."""


def silent(stage: str, done: int, total: int) -> None:
    """The progress of a run that nobody watches."""
