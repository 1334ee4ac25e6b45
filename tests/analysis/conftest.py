"""Runs of the tests of pages."""

from tests.pages.conftest import plain, profiled, roleless  # noqa: F401 (fixtures)
