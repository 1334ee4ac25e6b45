"""The pages of the gallery are what results are drawn as today."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

from headcount.cache import PlannedCache
from headcount.pages import LOOKING_SCRIPTS, LOOKING_STYLES, document_of, document_page
from headcount.results import read_run

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"


def test_the_page_that_needs_a_model_has_the_styles_and_scripts_of_today() -> None:
    page = (GALLERY / "explanation" / "explanation.html").read_text(encoding="utf-8")
    templates = files("headcount.pages") / "templates"
    for name in (*LOOKING_STYLES, *LOOKING_SCRIPTS, "show.js", "explained.js"):
        text = (templates / name).read_text(encoding="utf-8").strip()
        assert text in page, f"{name} is newer: run benchmarks/gallery.py with --only explanation"
    script = re.findall("<script>(.*?)</script>", page, re.S)[-1]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page, "the browser would refuse its script"


@pytest.mark.slow
def test_results_are_read() -> None:
    runs = [read_run(record.parent) for record in GALLERY.glob("*/run.json")]
    assert len(runs) >= 3 and all(run.rows for run in runs)


def test_the_plan_is_read_and_its_page_drawn() -> None:
    plan = PlannedCache.read(GALLERY / "plan")
    assert plan.groups and {row.length for row in plan.judged} == {None, 579, 1159}
    assert plan.record.model in document_page(document_of(plan), plan)


def test_the_gallery_links_every_result() -> None:
    text = (GALLERY.parent / "gallery.md").read_text(encoding="utf-8")
    linked = re.findall(r'href="gallery/([^/"]+)/', text)
    assert {*linked} == {each.name for each in GALLERY.iterdir() if each.is_dir()}
