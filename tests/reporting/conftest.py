"""Runs of the tests of pages."""

from tests.reports.conftest import (  # noqa: F401 (fixtures)
    hostile,
    profiled,
    roleless,
    translator,
)
