"""Runs of the tests of pages."""

from tests.reports.conftest import plain, profiled, roleless  # noqa: F401 (fixtures)
