"""Charts of pages in Chromium: in their own size, and readable on light and dark paper."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from playwright.sync_api import Browser, Page

from headcount.clusters import HeadPlace
from headcount.clusters.document import distance_matrix
from headcount.core import ACCENT, Chart, Document, new_figure, styled
from headcount.pages import document_page
from headcount.pages.curves import COLOURS as OF_METHODS
from headcount.papers.evolution.document import COLOURS as OF_LAYERS
from headcount.papers.following.document import COLOURS as OF_CHECKPOINTS
from tests.clusters.test_document import clusters

pytestmark = pytest.mark.browser

COLOURS = sorted({ACCENT, *OF_LAYERS.values(), *OF_CHECKPOINTS, *OF_METHODS})


def lines() -> Figure:
    """A line in every colour, wider than most screens."""
    figure = new_figure(12.0, 3.0)
    axes = figure.subplots()
    for place, colour in enumerate(COLOURS):
        axes.plot([0, 1], [place, place], color=colour, gid=f"line-{place}")
    return figure


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with these lines."""
    path = tmp_path_factory.mktemp("charts") / "page.html"
    shown = Document("Lines", (Chart("lines", "Lines", lines),))
    path.write_text(document_page(shown, clusters(0.01)), encoding="utf-8")
    return path


@pytest.fixture(params=["light", "dark"])
def page(browser: Browser, file: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page on light and on dark paper."""
    context = browser.new_context(color_scheme=request.param)
    opened = context.new_page()
    opened.goto(file.as_uri())
    yield opened
    context.close()


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(...)`, as WCAG 2.2 defines it."""
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.once
def test_every_line_can_be_seen(page: Page) -> None:
    """The contrast with the paper; on light paper, yellow and light blue have the least."""
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    script = "each => getComputedStyle(each).stroke"
    strokes = [
        page.eval_on_selector(f"#lines-line-{place} path", script) for place in range(len(COLOURS))
    ]
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    for colour, stroke in zip(COLOURS, strokes, strict=True):
        low, high = sorted((luminance(stroke), paper))
        assert (high + 0.05) / (low + 0.05) >= (4 if is_dark else 2), colour


@pytest.mark.once
@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_a_wide_chart_keeps_its_size_and_scrolls(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    drawn, whole = (
        page.eval_on_selector(selector, script)
        for selector, script in (
            (".drawn", "each => each.getBoundingClientRect().width"),
            (".drawn", "each => Number(each.getAttribute('width'))"),
        )
    )
    assert drawn == pytest.approx(whole, abs=1), "its text would be too small"
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_names_beside_the_distances_of_many_heads_do_not_overlap() -> None:
    places = [
        HeadPlace(head=f"enc.{n // 12}.{n % 12}", group=n, order=n, x=0.0, y=0.0) for n in range(72)
    ]
    with styled():
        figure = distance_matrix(replace(clusters(0.01), places=tuple(places)))
        figure.canvas.draw()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        assert len(boxes) >= 18
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))
