"""Reader actions on the page, in Chromium; every request except the page itself is refused."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headcount.pages import assets
from headcount.pages import html as page_html
from headcount.pages import map_view as grid_view
from tests.pages.conftest import Open
from tests.pages.run_folder import HOSTILE, shared_run
from tests.turns import slow

pytestmark = pytest.mark.browser


def colour(page: Page, head: str) -> str:
    return page.eval_on_selector(
        f'[data-head="{head}"]', "cell => getComputedStyle(cell).backgroundColor"
    )


def test_press_opens_the_card_and_escape_closes_it(plain: Path, open_page: Open):
    page = open_page(plain)
    assert page.is_visible("#leads") and page.is_hidden("#card")
    page.click('[data-head="enc.3.7"]')
    assert page.inner_text("#card h2") == "enc.3.7" and page.is_hidden("#leads")
    assert page.url.endswith("#enc.3.7")
    assert page.get_attribute('[data-head="enc.3.7"]', "aria-current") == "true"
    assert page.locator("#card svg.sentence .line").count() > 10
    page.click("#card .tabs button:nth-child(3)")
    assert "1 of 3" in page.inner_text("#card .caption")
    page.keyboard.press("Escape")
    assert page.is_visible("#leads") and "#" not in page.url


@pytest.mark.slow
def test_an_example_has_the_letter_of_its_head_in_the_map(profiled: Path, open_page: Open):
    page = open_page(profiled)
    cells = page.locator(".cell.role")
    heads = dict(zip(cells.locator(".letter").all_inner_texts(), range(cells.count()), strict=True))
    assert len(heads) > 2 and "F" in heads
    for letter, place in heads.items():
        cells.nth(place).click()
        assert page.inner_text("#card .caption .swatch") == letter


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, *slow(768)])
def test_a_narrow_page_starts_with_words_and_shows_all_links(
    plain: Path, open_page: Open, width: int
):
    """The map is on the first screen; heads to start with, or the card of one, stand below it."""
    page = open_page(plain)
    page.set_viewport_size({"width": width, "height": 800})

    def top(selector: str) -> float:
        return page.eval_on_selector(selector, "each => each.getBoundingClientRect().top")

    assert top("h1") < top("#every-head") < top("[data-head]") < 800  # on the first screen
    assert top("[data-head]") < top("#leads")
    links = page.locator(".contents > ul a")
    boxes = [each.bounding_box() for each in links.all()]
    assert all(box is not None and box["x"] + box["width"] <= width for box in boxes)
    page.click('[data-head="enc.3.7"]')
    assert top("#card") > top("#every-head")


@pytest.mark.slow
def test_deep_link_opens_the_card(translator: Path, open_page: Open):
    assert open_page(translator, "#cross.3.7").inner_text("#card h2") == "cross.3.7"


@pytest.mark.slow
@pytest.mark.parametrize(
    "fragment", ["#<img src=x>", *slow("#enc.99.0", "#%E0%A4%A", "#constructor")]
)
def test_unknown_link_opens_nothing(plain: Path, open_page: Open, fragment: str):
    assert open_page(plain, fragment).is_visible("#leads")


@pytest.mark.slow
def test_keyboard_moves_and_opens(plain: Path, open_page: Open):
    page = open_page(plain)
    page.focus('[data-head="enc.0.0"]')
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#card h2")).to_have_text("enc.1.1")
    assert page.locator('.cell[tabindex="0"]').count() == 1


@pytest.mark.slow
def test_keyboard_steps_over_layers_without_heads_and_to_the_nearest_of_shorter_ones(
    plain: Path, open_page: Open
):
    page = open_page(plain)
    gone = "cells => cells.filter(cell => cell.dataset.row === '1').forEach(cell => cell.remove())"
    page.eval_on_selector_all(".cell", gone)
    page.eval_on_selector('[data-head="enc.2.11"]', "cell => cell.remove()")
    page.focus('[data-head="enc.0.11"]')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("enc.2.10")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("enc.0.10")


@pytest.mark.slow
def test_keyboard_pages_through_the_cards(plain: Path, open_page: Open):
    page = open_page(plain, "#enc.0.0")
    page.focus("#card button[aria-label='next head']")
    for _ in range(3):
        page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("enc.0.3")
    page.focus("#card button[aria-label='previous head']")
    for _ in range(3):
        page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("enc.0.0")
    assert page.evaluate("document.activeElement.textContent") == "enc.0.0"  # none before


@pytest.mark.slow
def test_a_measure_recolours_the_cells_and_back(plain: Path, open_page: Open):
    from tests.pages.test_html import data
    from tests.pages.test_html import page as parsed_page

    page = open_page(plain)
    before = page.inner_html(".cells")
    page.select_option("#colour-by", "confidence")
    given = data(parsed_page(plain))
    values, heads = given["maps"][0]["values"], given["heads"]
    order = sorted(range(len(values)), key=values.__getitem__)
    lowest, highest = heads[order[0]], heads[order[-1]]
    assert colour(page, lowest) != colour(page, highest)
    assert page.inner_text("#scale-low") == page.inner_text(f'[data-head="{lowest}"]')
    assert "confidence" in str(page.get_attribute(f'[data-head="{lowest}"]', "aria-label"))
    page.select_option("#colour-by", "")
    assert page.inner_html(".cells") == before


@pytest.mark.slow
def test_not_measured_is_hatched(hostile: Path, open_page: Open):
    page = open_page(hostile)
    page.select_option("#colour-by", "confidence")
    assert page.locator(".cell.missing").count() == 4
    assert "not measured" in str(page.get_attribute('[data-head="enc.0.0"]', "aria-label"))
    page.select_option("#colour-by", "value_norm")
    assert page.locator(".cell.missing").count() == 10


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["kind:first", *slow("verdict:tendency", "verdict:none")])
def test_a_chip_dims_the_other_heads(profiled: Path, open_page: Open, chip: str):
    page = open_page(profiled)
    selector = f'.chip[data-filter="{chip}"]'
    page.click(selector)
    shown = page.locator(".cell:not(.dim)").count()
    assert 0 < shown == int(page.inner_text(f"{selector} b"))
    page.click(selector)
    assert page.locator(".cell.dim").count() == 0


@pytest.mark.slow
def test_roles_tendencies_and_nothing_differ_without_colour(profiled: Path, open_page: Open):
    """A role is framed and bold, a tendency is neither, and nothing has no letter."""
    page = open_page(profiled)
    look = "cell => [getComputedStyle(cell).fontWeight, cell.textContent !== '']"
    page.add_style_tag(content="* { filter: grayscale(1); }")
    looks = {
        verdict: page.eval_on_selector(f".cell.{verdict}", look)
        for verdict in ("role", "tendency", "none")
    }
    assert looks["role"] == ["850", True] and looks["tendency"] == ["400", True]
    assert looks["none"][1] is False
    frame = "cell => getComputedStyle(cell).boxShadow"
    assert "2px inset" in page.eval_on_selector(".cell.role", frame)
    assert page.eval_on_selector(".cell.tendency", frame) == "none"


@pytest.mark.slow
def test_a_head_shows_what_it_does_next(profiled: Path, open_page: Open):
    page = open_page(profiled)
    cell = page.locator(".cell:has(.second)").first
    assert "; also " in str(cell.get_attribute("aria-label"))


@pytest.mark.slow
def test_related_heads_are_a_press_away(profiled: Path, open_page: Open):
    page = open_page(profiled, "#enc.0.0")
    link = page.locator("#card .related a").first
    head = link.inner_text()
    link.click()
    assert page.inner_text("#card h2") == head


@pytest.mark.slow
def test_what_is_beyond_chance_is_framed_on_a_relation_map(profiled: Path, open_page: Open):
    page = open_page(profiled)
    page.select_option("#colour-by", "gain")
    marked = page.locator(".cell.sure")
    assert 0 < marked.count() < 72 and page.is_visible("#sure-key")
    assert "beyond chance" in str(marked.first.get_attribute("aria-label"))
    page.select_option("#colour-by", "confidence")
    assert page.locator(".cell.sure").count() == 0 and page.is_hidden("#sure-key")


@pytest.mark.slow
def test_heads_that_matter_are_marked(translator: Path, open_page: Open):
    page = open_page(translator)
    marked = page.locator(".cell.matters").count()
    assert 0 < marked == int(page.inner_text('.chip[data-filter="matters:true"] b').split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, *slow(1024, 1400)])
@pytest.mark.parametrize("name", ["profiled", "translator"])
def test_text_is_large_and_fits(name: str, request, open_page: Open, width: int):
    page = open_page(request.getfixturevalue(name), "#enc.0.0")
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    small = page.eval_on_selector_all(
        "main *",
        """all => {
          const scale = (shown) => (shown ? Math.hypot(shown.a, shown.b) : 1);
          return all.filter(one => [...one.childNodes].some(c => c.nodeType === 3 && c.data.trim())
          && one.checkVisibility() && !one.closest('title, option')
          && parseFloat(getComputedStyle(one).fontSize) * scale(one.getScreenCTM?.()) < 14.9)
          .map(one => one.outerHTML); }""",
    )
    assert small == []


@pytest.mark.slow
def test_a_relation_shows_on_the_map(plain: Path, open_page: Open):
    page = open_page(plain)
    page.locator(".relation").first.click()
    assert page.input_value("#colour-by") == page.get_attribute(".relation", "data-map")
    assert page.locator(".cell.value").count() == 72
    buttons = page.eval_on_selector_all(".relation", "all => all.map(one => one.dataset.map)")
    maps = page.eval_on_selector_all("#colour-by option", "all => all.map(one => one.value)")
    assert set(buttons) <= set(maps)


def column(page: Page, title: str) -> list[str]:
    """The cells of a column in the table of all heads, after pressing its title."""
    page.click(f".sortable button:text-is('{title}')")
    titles = page.locator(".sortable thead th").all_text_contents()
    place = [text.strip() for text in titles].index(title)
    rows = "(rows, place) => rows.map((row) => row.cells[place].textContent)"
    return page.eval_on_selector_all(".sortable tbody tr", rows, place)


@pytest.mark.slow
def test_the_table_sorts_what_was_not_measured_last(hostile: Path, open_page: Open):
    page = open_page(hostile)
    page.click("section details summary:has-text('Table of all')")
    assert column(page, "confidence")[6:] == column(page, "confidence")[6:] == ["–"] * 4


@pytest.mark.slow
def test_the_table_sorts_by_numbers_not_by_letters(plain: Path, open_page: Open):
    page = open_page(plain)
    page.click("section details summary:has-text('Table of all')")
    texts = column(page, "weight on separators")
    shares = [float(text.rstrip("%\u202f")) for text in texts]
    assert shares == sorted(shares, reverse=True) and texts != sorted(texts, reverse=True)
    assert column(page, "weight on separators") == texts[::-1]


@pytest.mark.slow
def test_strings_are_shown_not_run(hostile: Path, open_page: Open):
    page = open_page(hostile, "#enc.0.1")
    assert page.evaluate("window.stolen") is None
    words = page.locator("#card svg .word title").all_text_contents()
    assert HOSTILE[0] in words and page.inner_text("#card .caption").endswith(HOSTILE[1])
    page.hover('[data-head="enc.1.1"]')
    assert page.locator("img").count() == 0 and page.evaluate("window.stolen") is None


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", *slow("dark")])
def test_a_narrow_screen_needs_no_sideways_scrolling(plain: Path, open_page: Open, scheme):
    page = open_page(plain, "#enc.2.3")
    page.set_viewport_size({"width": 420, "height": 900})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


@pytest.mark.slow
def test_what_a_head_is_worth_colours_the_grid_and_is_on_its_card(
    translator: Path, open_page: Open
):
    from tests.pages.test_html import data
    from tests.pages.test_html import page as parsed_page

    page = open_page(translator)
    first = page.locator("#worth .effects a.head").first
    head = first.inner_text()
    page.select_option("#colour-by", "ablation_delta")
    values = data(parsed_page(translator))
    shown = next(each for each in values["maps"] if each["key"] == "ablation_delta")
    assert values["heads"][shown["values"].index(max(shown["values"]))] == head
    first.click()
    assert page.inner_text("#card h2") == head
    assert "1st of 144" in page.inner_text("#card .worth-list tr:first-child")
    rows = shared_run(translator).rows
    least = min(rows, key=lambda row: row.values["ablation_delta"]).head
    page.locator(f"#worth .drawn a[*|href='#{least}']").dispatch_event("click")  # dots overlap
    assert page.inner_text("#card .worth-list tr:first-child td:last-child") == "144th of 144"


@pytest.mark.slow
def test_p_values_sort_as_numbers(translator: Path, open_page: Open):
    page = open_page(translator)
    page.click("section details summary:has-text('Table of all')")
    texts = column(page, "ablation p, corrected")
    assert texts == sorted(texts, key=lambda text: -float(text.strip("<")))


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, *slow(800, 1119)])
def test_what_heads_are_worth_fits_every_width(translator: Path, open_page: Open, width: int):
    page = open_page(translator)
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_a_print_keeps_colours_and_shows_where_to_start(profiled: Path, open_page: Open):
    page = open_page(profiled, "#enc.0.0")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.is_visible("#leads") and page.is_hidden("#card")
    adjust = "cell => getComputedStyle(cell).printColorAdjust"
    assert page.eval_on_selector(".cell.role", adjust) == "exact"
    paper = "body => getComputedStyle(body).getPropertyValue('--paper').trim()"
    assert page.eval_on_selector("body", paper) == "#ffffff"
    for name in ("accent", "plus", "minus", "site-a", "site-b"):  # those of the dark page are pale
        shown = f"body => getComputedStyle(body).getPropertyValue('--{name}').trim()"
        colour_on_paper = page.eval_on_selector("body", shown)
        page.emulate_media(media="screen", color_scheme="light")
        assert page.eval_on_selector("body", shown) == colour_on_paper
        page.emulate_media(media="print", color_scheme="dark")


@pytest.mark.slow
def test_a_large_page_unpacks_its_data_and_makes_its_table(
    plain: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(assets, "LARGE", 1000)
    monkeypatch.setattr(page_html, "MANY", 10)
    folder = tmp_path / "large"
    shutil.copytree(plain, folder, ignore=shutil.ignore_patterns("report.html"))
    page = open_page(folder, "#enc.3.7")
    expect(page.locator("#card h2")).to_have_text("enc.3.7")
    page.click("section details summary:has-text('Table of all')")
    expect(page.locator(".sortable tbody tr")).to_have_count(72)
    texts = column(page, "confidence")
    assert texts == sorted(texts, reverse=True)


@pytest.mark.slow
def test_layers_of_a_deep_model_stand_in_two_columns_beside_their_legend(
    plain: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(grid_view, "MOST_LAYERS", 3)
    folder = tmp_path / "deep"
    shutil.copytree(plain, folder, ignore=shutil.ignore_patterns("report.html"))
    page = open_page(folder)
    page.set_viewport_size({"width": 1900, "height": 700})
    boxes = [page.locator(f'[data-head="enc.{layer}.0"]').bounding_box() for layer in range(6)]
    assert all(boxes[n]["y"] == boxes[n + 3]["y"] for n in range(3))  # type: ignore[index]
    assert boxes[3]["x"] > boxes[0]["x"] == boxes[2]["x"]  # type: ignore[index]
    page.focus('[data-head="enc.2.1"]')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("enc.3.1")
    assert page.locator('.cell[tabindex="0"]').count() == 1
    page.eval_on_selector(
        '[data-head="enc.2.1"]',
        "cell => cell.scrollIntoView({block: 'start', behavior: 'instant'})",
    )
    expect(page.locator("#kind-legend")).to_be_in_viewport()
