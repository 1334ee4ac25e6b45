"""The browser of the tests of pages."""

from tests.pages.conftest import open_page  # noqa: F401 (a fixture)
