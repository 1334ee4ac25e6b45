"""Runs of the tests of pages."""

from tests.pages.conftest import (  # noqa: F401 (fixtures)
    hostile,
    open_page,
    profiled,
    roleless,
    translator,
)
