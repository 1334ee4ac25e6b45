"""Run folders and a browser for the tests of the report."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from headcount.pages import write_report
from tests.pages.run_folder import Wish, write_run

Open = Callable[..., Page]
"""A function that opens a report, and may add a fragment to its address."""

ALL_SITES = ("encoder.self", "decoder.self", "decoder.cross")


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One site, 6 x 12 heads, with trees and a null run."""
    warnings = ("14 sentences were cut.",)
    return write_run(tmp_path_factory.mktemp("plain"), Wish(null=True, warnings=warnings))


@pytest.fixture(scope="session")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One site, 6 x 12 heads, with profiles, as runs of today have."""
    return write_run(tmp_path_factory.mktemp("profiled"), Wish(profiles=True))


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sites, 6 x 8 heads, with their importance."""
    wish = Wish(sites=ALL_SITES, heads=8, importance=True)
    return write_run(tmp_path_factory.mktemp("translator"), wish)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Markup in every string, NaN in many numbers, no trees."""
    wish = Wish(
        layers=2, heads=5, hostile=True, not_a_number=True, relations=False, importance=True
    )
    return write_run(tmp_path_factory.mktemp("hostile"), wish)


@pytest.fixture(scope="session")
def roleless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without any role."""
    return write_run(tmp_path_factory.mktemp("roleless"), Wish(layers=2, heads=3, roles=False))


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """A function that opens a report; no request may be made and no error logged."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    requests: list[str] = []
    errors: list[str] = []

    def open_(folder: Path, fragment: str = "") -> Page:
        path = folder / "report.html"
        url = (path if path.exists() else write_report(folder)).as_uri()

        def guard(route: Route) -> None:
            if route.request.url.partition("#")[0] == url:
                return route.continue_()
            requests.append(route.request.url)
            return route.abort()

        page = context.new_page()
        page.route("**/*", guard)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.goto(url + fragment)
        return page

    yield open_
    context.close()
    assert requests == [] and errors == []
