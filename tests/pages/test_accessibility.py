"""The pages as axe-core sees them: light and dark, with a card, and with the map as numbers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from headcount.pages import write_report
from headcount.results import read_run
from tests.pages.pruned_folder import prune_record, write_curve_beside
from tests.pages.run_folder import Wish, write_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with every section that a run can have, and a comparison."""
    from headcount.compare import write_comparison

    parent = tmp_path_factory.mktemp("axe")
    wish = Wish(layers=2, heads=4, profiles=True, importance=True, null=True)
    one, other = write_run(parent / "one", wish), write_run(parent / "other", wish)
    write_curve_beside(one)
    heads = [row.head for row in read_run(one).rows]
    prune_record(heads, heads[:3]).write(parent)
    write_comparison(one, other, parent / "both", match=True)
    return {
        "report": write_report(one, parent),
        "comparison": parent / "both" / "comparison.html",
    }


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """One tab, which lets axe's script run beside the page's own."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, bypass_csp=True)
    yield context.new_page()
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "scheme"),
    [
        ("report", "", "light"),
        ("report", "ablation_delta", "dark"),
        ("comparison", "", "light"),
        ("comparison", "", "dark"),
    ],
)
def test_axe_finds_nothing(page: Page, pages: dict[str, Path], name: str, number: str, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto("about:blank")
    page.goto(f"{pages[name].as_uri()}#enc.0.1")
    some = "all => all.slice(0, 3).forEach(one => { one.open = true; })"
    page.eval_on_selector_all("details:not(:has(.sortable))", some)  # that table takes seconds
    if number:
        page.select_option("#colour-by", number)
        page.click("[data-kept=pruned]")
    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []
