"""Tiny models with real tasks to prune."""

from pathlib import Path
from typing import Any

from headcount.pruning import PruningContext, Units
from tests.tasks.loaded import TASKS

TRAINED: dict[str, dict[str, Any]] = {"causal-gates": {"updates": 2, "update_examples": 4}}
"""Options with which scores that are trained take little time."""


def context(name: str, state: Path | None = None, sites: Any = None, **more: Any) -> PruningContext:
    """What heads are chosen with, from a task of `tests.tasks.loaded`."""
    loaded, task = TASKS[name]()
    return PruningContext(loaded, task, Units.of(loaded.anatomy, sites), state=state, **more)
