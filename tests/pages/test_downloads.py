"""Tables as CSV and figures as SVG and PNG, which the page makes itself, in Chromium."""

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.pages.conftest import Open
from tests.pages.run_folder import shared_run

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"


def downloaded(page: Page, name: str) -> tuple[str, bytes]:
    """File name and contents of what the button with this accessible name gives."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name, exact=True).first.click()
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


def table(contents: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(contents.decode("utf-8-sig"))))


@pytest.mark.slow
def test_all_heads_as_csv_hold_the_numbers_of_the_run(plain: Path, open_page: Open):
    page = open_page(plain)
    page.click("summary:has-text('Table of all')")
    name, contents = downloaded(page, "Table of all 72 heads as CSV")
    rows, run = table(contents), shared_run(plain)
    assert name == "all-minilm-l6-v2-table-of-all-72-heads.csv" and len(rows) == 73
    place = rows[0].index("confidence")
    values = [float(row[place]) for row in rows[1:]]
    assert values == pytest.approx([row.values["confidence"] for row in run.rows], rel=1e-3)


@pytest.mark.slow
def test_a_table_as_csv_has_plain_numbers(profiled: Path, open_page: Open):
    _, contents = downloaded(open_page(profiled), "Syntax: a head for each relation as CSV")
    rows = table(contents)
    assert {"share (%)", "fixed position (%)"} < {*rows[0]}
    for row in rows[1:]:
        shown = dict(zip(rows[0], row, strict=True))
        gain = float(shown["share (%)"]) - float(shown["fixed position (%)"])
        assert abs(gain - float(shown["points"])) <= 1.5  # all three are rounded


@pytest.mark.slow
def test_a_text_that_a_spreadsheet_would_run_is_quoted(plain: Path, open_page: Open):
    page = open_page(plain)
    script = """() => {
      const texts = ["=1+1", "+cmd", "@x", "-2+3", "＝1+1", "-0.5", 'a"b', "x,y"];
      const rows = texts.map(() => "<tr><td></td></tr>").join("");
      document.querySelector("#null tbody").innerHTML = rows;
      const cells = document.querySelectorAll("#null td");
      cells.forEach((cell, i) => { cell.textContent = texts[i]; });
    }"""
    page.evaluate(script)
    _, contents = downloaded(page, "Is it more than chance? as CSV")
    assert [row[0] for row in table(contents)[1:]] == [
        "'=1+1",
        "'+cmd",
        "'@x",
        "'-2+3",
        "'＝1+1",
        "-0.5",
        'a"b',
        "x,y",
    ]


@pytest.mark.slow
def test_the_map_as_svg_shows_every_head_and_the_legend(profiled: Path, open_page: Open):
    name, contents = downloaded(open_page(profiled), "Map as SVG")
    root = ET.fromstring(contents)
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert name.endswith("heads.svg") and len(list(root.iter(f"{SVG}rect"))) > 72
    assert "What heads do" in texts and any(text.startswith("first token") for text in texts)


@pytest.mark.slow
def test_a_figure_looks_the_same_outside_of_the_page(translator: Path, open_page: Open):
    page = open_page(translator)
    title = "All 144 heads, the most important on the left: rise in the loss"
    _, contents = downloaded(page, f"{title} as SVG")
    root = ET.fromstring(contents)
    dots = [node for node in root.iter(f"{SVG}use") if "stroke:rgb" in node.get("style", "")]
    assert len(dots) >= 144 and all("class" not in dot.attrib for dot in dots)
    name, image = downloaded(page, f"{title} as PNG")
    assert image.startswith(b"\x89PNG") and len(image) > 5000 and name.endswith(".png")


@pytest.mark.slow
def test_names_of_files_have_no_paths(hostile: Path, open_page: Open):
    name, _ = downloaded(open_page(hostile), "Map as CSV")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-") and not name.startswith(".")


@pytest.mark.slow
def test_a_signature_is_copied_or_at_least_selected(plain: Path, open_page: Open):
    page = open_page(plain)
    page.click("#methods .signature button")
    said = page.locator("#methods .signature button", has_text="ed").inner_text()
    assert said in ("Copied", "Selected")
    if said == "Selected":
        assert page.evaluate("getSelection().toString()") == shared_run(plain).record.signature
