"""The live page in Chromium: type, look, set gates, and see the prediction change."""

import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from headcount.serve import LiveModel
from tests import tiny_pictures

pytestmark = pytest.mark.browser

Served = Callable[..., str]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which no script fails; answers of refused questions are logged by Chromium."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []


def answered(page: Page) -> None:
    expect(page.locator("#state")).to_contain_text("Answered")
    expect(page.locator("body")).not_to_have_class("waiting")


def test_gates_by_hand_change_the_translation(served: Served, translator: LiveModel, page: Page):
    page.goto(served(translator))
    answered(page)
    assert page.locator(".thumb").count() == len(translator.loaded.heads)
    total = len(translator.loaded.heads)
    before = page.inner_text("#predictions")
    page.click('[data-head="cross.1.3"]')
    assert page.inner_text("#head-name") == "cross.1.3"
    page.click("#head-off")
    expect(page.locator("#gates-say")).to_have_text(f"1 off of {total} heads")
    assert page.inner_text("#head-off") == "Switch on"
    page.click("#plan")
    expect(page.locator("#gates-say")).to_have_text(f"2 off of {total} heads")
    page.click("#sliders")
    page.locator('[aria-label="gate of enc.1.0"]').fill("0.5")
    expect(page.locator("#gates-say")).to_have_text(f"2 off, 1 at other gates of {total} heads")
    page.click('[data-site="dec"]')
    expect(page.locator("#predictions")).to_contain_text("with these gates")
    assert page.locator(".thumb-box.off").count() == 35
    page.click("#reset")
    expect(page.locator("#predictions")).not_to_contain_text("gates")
    answered(page)
    assert page.inner_text("#predictions") == before


@pytest.mark.slow
def test_typing_asks_again_and_problems_are_sentences(
    served: Served, filler: LiveModel, page: Page
):
    page.goto(served(filler))
    answered(page)
    assert page.locator("#predictions tbody tr").count() == 8
    page.click('[data-head="enc.1.3"]')
    assert page.inner_text("#head-findings") == "role\nlooks <b>back</b>"
    page.fill("#text", "")
    expect(page.locator("#problem")).to_contain_text("Expected a sentence of at least one word")
    page.fill("#text", "<img src=x onerror=window.stolen=1> barked")
    expect(page.locator("#problem")).to_be_hidden()
    words = page.locator("svg.sentence .word").all_text_contents()
    assert "img" in words and page.locator("main img").count() == 0
    assert page.evaluate("window.stolen") is None
    expect(page.locator("#predictions")).to_contain_text("Write [MASK]")
    page.click("[data-view=matrix]")
    assert page.locator("svg.matrix-drawing").count() == 1


@pytest.mark.slow
def test_an_address_holds_text_gates_and_head(served: Served, filler: LiveModel, page: Page):
    page.goto(served(filler))
    answered(page)
    page.fill("#text", "the old [MASK] barked & ran")
    expect(page).to_have_url(re.compile("barked"))
    page.click('[data-head="enc.0.2"]')
    page.click("#head-off")
    expect(page.locator("#predictions")).to_contain_text("these gates")
    answered(page)
    address, said = page.url, page.inner_text("#predictions")
    page.goto("about:blank")
    page.goto(address)
    answered(page)
    assert page.input_value("#text") == "the old [MASK] barked & ran"
    assert page.inner_text("#head-name") == "enc.0.2" and page.inner_text("#gate-value") == "0"
    assert page.inner_text("#predictions") == said
    page.goto(address.replace("enc.0.2%3A0", "enc.9.9%3A0"))
    expect(page.locator("#problem")).to_contain_text("enc.9.9")


@pytest.mark.slow
def test_a_press_on_a_prediction_shows_which_heads_say_it(
    served: Served, filler: LiveModel, page: Page
):
    page.goto(served(filler) + "#" + urlencode({"text": "The old [MASK] barked."}))
    expect(page.locator("#effects .chip")).to_have_count(6)
    best = page.locator("#effects .chip").all_inner_texts()
    assert page.inner_text("#head-name") == best[0].split()[0]
    assert page.locator('[data-role="target"][aria-pressed="true"]').count() == 1
    others = page.locator("tbody tr:has([aria-pressed=false]):not(:has([aria-pressed=true]))")
    third = others.nth(0).locator("th").inner_text()
    others.nth(0).locator('[data-role="target"]').click()
    expect(page.locator("#effects h2")).to_contain_text(f"“{third}” rather than")
    page.click('[data-role="against"][aria-pressed="true"]')
    expect(page.locator("#effects h2")).to_have_text(f"Heads that say “{third}”")
    assert page.locator('.thumb-box[style*="--effect"]').count() == 10
    address, said = page.url, page.inner_text("#effects")
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#effects .chip")).to_have_count(6)
    assert page.inner_text("#effects") == said
    page.fill("#text", "The new [MASK] barked.")
    expect(page.locator("#effects")).to_be_hidden()


@pytest.mark.slow
def test_a_map_under_the_pointer_is_drawn_and_the_prediction_stays_in_sight(
    served: Served, translator: LiveModel, page: Page
):
    page.goto(served(translator))
    answered(page)
    page.click('[data-head="cross.1.3"]')
    assert page.inner_text("#head-title").endswith("head 3: rows predict the next word")
    page.hover('[data-head="enc.1.2"]')
    assert page.inner_text("#head-name") == "enc.1.2"
    page.hover("#text")
    assert page.inner_text("#head-name") == "cross.1.3"
    page.locator(".thumb").last.scroll_into_view_if_needed()
    expect(page.locator("#predictions h2").first).to_be_in_viewport()
    page.click('[data-role="target"]')
    expect(page.locator("#effects .chip")).to_have_count(6)
    assert page.inner_text("#head-name") == "cross.1.3"  # which was pressed


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_with_readable_text(
    served: Served, translator: LiveModel, page: Page, scheme
):
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto(served(translator))
    answered(page)
    page.click("#sliders")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.eval_on_selector_all(
        "main *",
        """all => all.filter(one => [...one.childNodes].some(c => c.nodeType === 3 && c.data.trim())
          && one.checkVisibility() && !one.closest('svg')
          && parseFloat(getComputedStyle(one).fontSize) < 14.9).map(one => one.outerHTML)""",
    )
    assert small == []


ATTACK = """async (target) => {
  const question = '{"text": "Dogs."}';
  const outcomes = [];
  const tries = [
    { mode: "no-cors", body: question },
    { mode: "no-cors", body: question, credentials: "include", headers: { "X-Headcount": "1" } },
    { mode: "cors", body: question },
    { mode: "cors", body: question, headers: { "X-Headcount": "1" } },
    { mode: "cors", body: question, headers: { "Authorization": "Bearer x" } },
  ];
  for (const each of tries) {
    try {
      const answer = await fetch(`${target}look`, { method: "POST", ...each });
      outcomes.push(`${answer.type} ${(await answer.text()).length}`);
    } catch (error) { outcomes.push("blocked"); }
  }
  try { outcomes.push(await (await fetch(target)).text()); } catch { outcomes.push("blocked"); }
  return outcomes;
}"""


class Other(BaseHTTPRequestHandler):
    """Another server of this machine, whose page has no policy."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>another page</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow
def test_another_origins_page_neither_reads_nor_asks(
    served: Served, filler: LiveModel, page: Page, monkeypatch: pytest.MonkeyPatch
):
    asked: list[object] = []
    answer = LiveModel.answer
    monkeypatch.setattr(LiveModel, "answer", lambda *each: asked.append(1) or answer(*each))
    target = served(filler, False)
    page.goto(target)
    answered(page)  # without a token the page itself works
    assert len(asked) == 1
    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = Thread(target=other.serve_forever)
        thread.start()
        page.goto(f"http://127.0.0.1:{other.server_port}/")
        outcomes = page.evaluate(ATTACK, target)
        other.shutdown()
        thread.join()
    assert set(outcomes) <= {"blocked", "opaque 0"}
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_a_picture_is_chosen_and_looked_at(served: Served, page: Page, tmp_path: Path):
    path = tiny_pictures.picture(tmp_path / "a.png")
    page.goto(served(LiveModel(tiny_pictures.loaded("llava"))))
    answered(page)
    assert page.locator(".image-example").count() == 0
    page.fill("#text", "what is the red dog ?")
    page.set_input_files("#picture", path)
    page.locator(".place-word", has_text="red").click()
    expect(page.locator(".image-example [aria-live]")).to_contain_text("“red”:")
    expect(page.locator("#predictions")).to_contain_text("First token of the reply")
    page.click("#head-off")
    expect(page.locator("#predictions")).to_contain_text("these gates")
    expect(page.locator(".image-example [aria-live]")).to_contain_text("“red”:")
    page.set_input_files("#picture", [])
    expect(page.locator(".image-example")).to_have_count(0)
