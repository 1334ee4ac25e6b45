"""The search of the documentation's site, in Chromium: pages first, names of the API after them."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

DOCS = Path(__file__).parents[1] / "docs"

LEFT_OUT = ignore_patterns("notebooks", "gallery", "atlas", "benchmarks.md", "model_types.md")

SETTINGS = f"""
extensions, default_role = ["myst_parser", "sphinx.ext.autodoc"], "code"
autodoc_default_options = {{"members": True, "imported-members": True}}
exclude_patterns = ["api/[!ci]*", "api/c[!a]*", "api/index.md"]
html_theme, html_search_scorer = "basic", {str(DOCS / "search.js")!r}
"""
"""A quick site: two pages of the API (`cache` and `importance`), and nothing drawn."""

ASKED = {
    "sink": "questions.html",
    "IOI": "explain.html",
    "KV cache": "cache.html",
    "Whisper timestamps": "howto/whisper.html",
    "prune sentence-transformers": "howto/bert.html",
    "prune": "pruning.html",
    "induction head": "measures.html#induction-heads",
    "PlannedCache": "api/cache.html#headcount.cache.PlannedCache",
}
"""What is asked, and the page that must come first."""


@pytest.mark.slow
@pytest.mark.browser
def test_the_right_page_comes_first(browser: Browser, tmp_path: Path) -> None:
    source = tmp_path / "docs"
    copytree(DOCS, source, ignore=LEFT_OUT)
    (source / "conf.py").write_text(SETTINGS)
    build = [sys.executable, "-m", "sphinx", "-Q", str(source), str(tmp_path / "site")]
    subprocess.run(build, check=True)
    page, first = browser.new_page(), dict[str, str]()
    for query in ASKED:
        page.goto(f"{(tmp_path / 'site' / 'search.html').as_uri()}?q={quote(query)}")
        found = page.locator("#search-results li a").first
        first[query] = (found.get_attribute("href") or "").partition("?")[0]
    page.close()
    assert first == ASKED
