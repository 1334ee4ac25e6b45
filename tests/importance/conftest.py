"""Runs of the tests of pages."""

from tests.reports.conftest import hostile, plain, translator  # noqa: F401 (fixtures)
