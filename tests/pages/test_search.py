"""The search field and the contents list, in Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.pages.conftest import Open

pytestmark = pytest.mark.browser


def options(page: Page, query: str) -> list[str]:
    page.fill("#find", query)
    return page.locator("#found [id]").all_inner_texts()


@pytest.mark.slow
def test_a_head_is_found_by_name_and_opened_by_enter(profiled: Path, open_page: Open):
    page = open_page(profiled)
    assert options(page, "enc.1.1")[0].startswith("enc.1.1")
    assert len(options(page, "ENC.1.1")) == 3  # and enc.1.10, enc.1.11
    assert len(found := options(page, "L1H1")) == 1 and found[0].startswith("enc.1.1")
    page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("enc.1.1")
    assert page.is_hidden("#found")


@pytest.mark.slow
def test_heads_are_found_by_what_they_do_and_marked_on_the_map(profiled: Path, open_page: Open):
    page = open_page(profiled)
    found = options(page, "previous token")
    assert found and all("previous token" in each for each in found)
    heads = page.locator(".cell:not(.dim)").count()
    assert 0 < heads < 72
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.get_attribute("#find", "aria-activedescendant") == "found-0"
    page.keyboard.press("Escape")
    assert page.locator(".cell.dim").count() == 0 and page.input_value("#find") == ""


@pytest.mark.slow
def test_heads_are_found_by_other_words_for_what_they_do(profiled: Path, open_page: Open):
    page = open_page(profiled)
    found = options(page, "sink")
    assert any("the first token" in each for each in found) and "sink" not in found[0]
    assert 0 < page.locator(".cell:not(.dim)").count() < 72
    assert any("weight on separators" in each for each in options(page, "sink"))


@pytest.mark.slow
def test_what_no_head_does_is_said_in_place_of_nothing(profiled: Path, open_page: Open):
    page = open_page(profiled)
    page.fill("#find", "copy")
    assert page.locator("#found li").all_inner_texts() == [
        "No head looks at the token after an earlier copy.",
        "No head looks at an earlier copy of the token.",
    ]
    page.keyboard.press("Enter")
    assert page.is_visible("#leads") and page.is_hidden("#card")


@pytest.mark.slow
def test_a_relation_is_found_by_its_words(plain: Path, open_page: Open):
    found = options(open_page(plain), "subject")
    assert any(each.endswith("nsubj, dependent → head") for each in found)


@pytest.mark.slow
def test_a_relation_is_found_as_a_map(plain: Path, open_page: Open):
    page = open_page(plain)
    page.fill("#find", "nsubj, dep")
    page.locator("#found li", has_text="nsubj, dependent").first.click()
    assert page.input_value("#colour-by") == "nsubj dependent->head"


@pytest.mark.slow
def test_nothing_found_is_said(hostile: Path, open_page: Open):
    page = open_page(hostile)
    page.fill("#find", "<img src=x onerror=stolen=1>")
    assert "Nothing found" in page.inner_text("#found") and page.locator("#found img").count() == 0
    page.keyboard.press("Enter")
    assert page.is_visible("#leads")


@pytest.mark.slow
def test_the_contents_list_names_every_section_and_keeps_the_card(profiled: Path, open_page: Open):
    page = open_page(profiled, "#enc.0.0")
    hrefs = "links => links.map(link => link.hash.slice(1))"
    links = page.eval_on_selector_all(".contents a", hrefs)
    sections = page.eval_on_selector_all("section[id]", "all => all.map(one => one.id)")
    assert links == sections and len(links) > 4
    page.click(".contents a[href='#methods']")
    expect(page.locator("#methods-title")).to_be_in_viewport()
    assert page.is_visible("#card")
