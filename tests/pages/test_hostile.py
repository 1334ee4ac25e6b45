"""Tokens that would break a page: markup, right-to-left text and 10,000 characters."""

import json
from pathlib import Path

import pytest

from headcount.pages import write_report
from tests.pages.conftest import Open
from tests.pages.run_folder import Wish, write_run
from tests.turns import slow

pytestmark = pytest.mark.browser

TOKENS = (
    "<script>window.stolen = 1</script>",
    "\u202eשלום עולם",
    "مرحبا بالعالم",
    "x" * 10_000,
    "𝔘𝔫𝔦\u0301\u0302\u0303\ufe0f👩‍👩‍👧‍👦",
    "</svg><img src=x onerror=stolen=1>",
    "\u0000\u0007\ud7ff",
    "",
)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with such tokens in its sentences, names and evidence."""
    folder = write_run(tmp_path_factory.mktemp("strange"), Wish(layers=2, heads=3))
    examples = json.loads((folder / "examples.json").read_text())
    for example in (each for found in examples.values() for each in found):
        example["queries"] = [*TOKENS, *example["queries"][len(TOKENS) :]]
        example["caption"] = TOKENS[3]
    (folder / "examples.json").write_text(json.dumps(examples))
    record = json.loads((folder / "run.json").read_text())
    record |= {"model": TOKENS[1] + TOKENS[0], "corpora": [TOKENS[3]], "warnings": [*TOKENS[:6]]}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, *slow(1400)])
def test_hostile_tokens_are_shown_and_the_page_keeps_its_width(
    strange: Path, open_page: Open, width: int
):
    assert write_report(strange).stat().st_size < 3_000_000
    page = open_page(strange, "#enc.0.1")
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("window.stolen") is None
    words = page.locator("#card svg .word").all_text_contents()
    assert any(TOKENS[0][:20] in word for word in words)
    assert page.locator("#card svg.sentence img, #card script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    longest = page.eval_on_selector_all(
        "#card svg .word",
        "all => Math.max(...all.map(one => one.getBoundingClientRect().width))",
    )
    assert longest < width / 2
