"""Tests of the frame of commands."""

import pytest


@pytest.fixture(autouse=True)
def always_quick(quick: None) -> None:
    """Run every command quickly."""
