"""Settings of all tests: shapes and types are checked, hypothesis keeps no files.

The package is imported in functions only: what is imported before `checked.install` isn't checked.
"""

from tests import surroundings  # before anything that reads its own

# isort: split

import gc
import os
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from matplotlib.figure import Figure
from playwright.sync_api import Browser, sync_playwright

from tests import checked, saved, self_checks
from tests.elsewhere import last_bits
from tests.turns import PARTS, mark_all_but_one, mark_relatives

gc.disable()  # what is imported stays: collections between imports find nothing
checked.install("headcount", {"headcount.tap.selfcheck.examine": self_checks.once})
pytest.register_assert_rewrite(
    "headcount.testing.laws", "tests.commanding", "tests.measures.cases", "tests.truth.small_models"
)
hypothesis.settings.register_profile("headcount", deadline=None, database=None, derandomize=True)
hypothesis.settings.load_profile("headcount")
torch.set_num_threads(surroundings.THREADS)
if surroundings.LAST_BITS:
    last_bits.install(int(surroundings.LAST_BITS))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let slow tests take turns."""
    parts = range(1, PARTS + 1)
    parser.addoption("--part", type=int, choices=parts, help="only this part of the tests chosen")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark what is slow before marks choose, and then keep a part of the tests."""
    mark_all_but_one(items)
    mark_relatives(items)
    yield
    if part := config.getoption("part"):
        kept = items[part - 1 :: PARTS]
        config.hook.pytest_deselected(items=[*{*items} - {*kept}])
        items[:] = kept


def pytest_collection_finish() -> None:
    """Let the garbage collector run, now that everything is imported."""
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Spare the garbage collector what is there for good: every training starts and ends with it.

    That is what was imported, and what the modules before have cached: checks of types, models.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unflushed() -> Iterator[None]:
    """Spare the disk: no file of a test must outlive a power cut. `flushed` counts the calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda opened: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep verdicts of tests out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw each figure once a test, as SVG: tests/reporting/test_figures.py checks every format."""
    savefig, drawn = Figure.savefig, set[str]()

    def saved(figure: Figure, path: Path | StringIO, *, format: str, **options: Any) -> None:
        if isinstance(path, StringIO):  # on a page
            savefig(figure, path, format=format, **options)
        elif format == "svg" and path.stem not in drawn:
            drawn.add(path.stem)
            savefig(figure, path, format=format, **options)
        else:
            path.write_text(format)

    monkeypatch.setattr(Figure, "savefig", saved)


EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"><g/></svg>'


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures empty, in files and on pages."""

    def saved(figure: Figure, path: Path | StringIO, *, format: str, **options: Any) -> None:
        write = path.write if isinstance(path, StringIO) else path.write_text
        write(EMPTY if format == "svg" else format)

    monkeypatch.setattr(Figure, "savefig", saved)


@pytest.fixture
def page(one_format: None) -> None:
    """Draw the page of an analysis, which `quick` leaves empty."""


@pytest.fixture
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time every call once a round: tests/speed checks how often short calls are repeated.

    Also leave the page of an analysis empty, which takes as long as a small analysis itself, unless
    the test uses `page`, and figures, unless it uses `one_format`.
    """
    from headcount.pages import html
    from headcount.pages import shown as shown  # has imported what is replaced here

    if "one_format" not in request.fixturenames:
        request.getfixturevalue("undrawn")
    monkeypatch.setattr("headcount.speed.timing.MOST_REPEATS", 1)
    if "page" not in request.fixturenames:
        monkeypatch.setattr(html, "report_view", lambda run: None)
        monkeypatch.setattr(html, "render", lambda view: "")


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny encoder."""
    return saved.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny encoder without a head."""
    return saved.encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny encoder-decoder with a slow tokenizer."""
    return saved.marian(tmp_path_factory.mktemp("marian"))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Texts for choosing heads, for development, and for testing."""
    from tests.commanding import PARALLEL

    lines = PARALLEL.read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines]
    folder = tmp_path_factory.mktemp("texts")
    for number, name in enumerate(("train", "dev", "test")):
        part = "\n".join(texts[8 * number : 8 * number + 8]) + "\n"
        (folder / f"{name}.txt").write_text(part, encoding="utf-8")
    return [folder / f"{name}.txt" for name in ("train", "dev", "test")]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a screen."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()
