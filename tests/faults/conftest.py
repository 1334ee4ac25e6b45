"""Writes the table of tries after a run by hand."""

import os
from pathlib import Path

import pytest

from tests.faults.tally import write_table


def pytest_sessionfinish() -> None:
    """Write the table that HEADCOUNT_FAULTS names."""
    if path := os.environ.get("HEADCOUNT_FAULTS"):
        tries = os.environ.get("HEADCOUNT_FUZZ", "")
        write_table(Path(path), f"make faults TRIES={tries}")


@pytest.fixture(autouse=True)
def always_quick(quick: None) -> None:
    """Run every command quickly."""
