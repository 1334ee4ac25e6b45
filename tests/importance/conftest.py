"""Runs of the tests of pages."""

from tests.pages.conftest import hostile, plain, translator  # noqa: F401 (fixtures)
