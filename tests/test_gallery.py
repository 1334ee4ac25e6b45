"""The pages of the gallery are what results are drawn as today."""

from importlib.resources import files
from pathlib import Path

from headcount.reports import LOOKING_SCRIPTS, LOOKING_STYLES
from headcount.results import read_run

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"


def test_the_page_that_needs_a_model_has_the_styles_and_scripts_of_today() -> None:
    page = (GALLERY / "explanation" / "explanation.html").read_text(encoding="utf-8")
    templates = files("headcount.reports.page") / "templates"
    for name in (*LOOKING_STYLES, *LOOKING_SCRIPTS, "show.js", "explained.js"):
        text = (templates / name).read_text(encoding="utf-8").strip()
        assert text in page, f"{name} is newer: run benchmarks/gallery.py with --only explanation"


def test_results_are_read() -> None:
    runs = [read_run(record.parent) for record in GALLERY.glob("*/run.json")]
    assert len(runs) >= 3 and all(run.rows for run in runs)
