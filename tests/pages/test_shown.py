"""Attention on one text, as a page and in the frame of a notebook, in Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from headcount.core import InputError, ModelError, visible
from headcount.measures import word_attention
from headcount.pages import Shown, show
from tests import pictures
from tests.tasks.loaded import loaded

TEXT = "She doesn't believe that <b>three</b> chairs jumped!"


@pytest.fixture(scope="module")
def shown() -> Shown:
    return show(loaded("BertForMaskedLM"), TEXT, "enc.1.3")


def test_it_is_offline_and_reads_well(shown: Shown, tmp_path: Path) -> None:
    path = shown.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == shown.html and "http" not in shown.html.replace(
        "http-equiv", ""
    ).replace("http://www.w3.org/2000/svg", "")
    assert len(repr(shown)) < 160 and "<b>three" not in shown.html
    assert len(shown.html) < 60_000


def test_unknown_heads_and_plain_models(shown: Shown) -> None:
    with pytest.raises(InputError, match=r"Expected a head of .* \(encoder.self 2 layers x 5"):
        show(loaded("BertForMaskedLM"), TEXT, "enc.2.0")
    model = loaded("BertForMaskedLM")
    assert "enc.1.3" in show(model.model, TEXT, "enc.1.3", tokenizer=model.tokenizer).html


@pytest.mark.slow
@pytest.mark.browser
def test_a_notebook_shows_it_in_a_frame(shown: Shown, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.set_content(f"<!doctype html><body>{shown._repr_html_()}</body>")
    frame = page.frames[1]
    frame.wait_for_selector("svg.sentence")
    assert frame.inner_text("#head-name") == "enc.1.3"
    assert frame.locator(".thumb canvas").count() == 10
    words = frame.locator("svg.sentence .word").all_text_contents()
    assert words[:3] == ["[CLS]", "She", "doesn't"] and "three" in words
    frame.click('[data-head="enc.0.2"]')
    assert frame.inner_text("#head-title").endswith("layer 0, head 2")
    frame.press('[data-head="enc.0.2"]', "ArrowRight")
    frame.press('[data-head="enc.0.3"]', "Enter")
    frame.click("[data-view=matrix]")
    assert frame.inner_text("#head-name") == "enc.0.3"
    size = frame.locator("svg.sentence").count(), frame.locator("svg.matrix-drawing rect").count()
    assert size == (0, (len(words) // 2) ** 2)
    frame.focus("[data-view=lines]")
    page.keyboard.press("Enter")
    assert frame.locator("svg.sentence .line").count() > 10
    assert frame.locator("b").count() == 0 and errors == []
    page.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("LlamaForCausalLM", ("The old dog", " barked", " ran")),
        ("BertForMaskedLM", ("The old [MASK] barked.", "dog", None)),
        ("MarianMTModel", ("The old dog.", "Der Hund", None)),
        ("BertForSequenceClassification", ("The old dog.", "1", None)),
    ],
)
def test_maps_are_framed_by_what_heads_do_for_a_prediction(
    browser: Browser, tmp_path: Path, name: str, asked: tuple[str, str, str | None]
) -> None:
    from headcount.explanation import ExplainOptions, Prompt, explain, show_explained

    model = loaded(name)
    found = explain(model, *asked, options=ExplainOptions(together=(1,), draws=1))
    path = show_explained(model, found).save(tmp_path / "page.html")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.inner_text("#head-name") == found.largest
    chips = page.locator("#effects .chips").first.locator(".chip")
    row = found.of(found.measured[0])[found.largest]
    first = f"{row.part} {row.value:+.2f}".replace("-", "−")
    assert " ".join(chips.first.inner_text().split()) == first
    assert page.locator('.thumb-box[style*="--effect"]').count() == len(model.heads)
    values = {head: abs(each.value) for head, each in found.of(found.measured[0]).items()}
    second, first = sorted(values[head] for head in map(str, model.heads))[-2:]
    frames = page.locator(".thumb-box").evaluate_all("all => all.map(each => each.style.cssText)")
    shares = sorted(float(each.rpartition(" ")[2].partition("%")[0]) for each in frames)
    assert shares[-2:] == pytest.approx([100 * (second / first) ** 0.5, 100], abs=0.01)
    ring = "one => [getComputedStyle(one).boxShadow, getComputedStyle(document.body).color]"
    shadow, ink = page.locator(".thumb[aria-current]").evaluate(ring)
    assert shadow.split(", rgb")[-1].startswith(ink.removeprefix("rgb")), "orange says harmful"
    up, down = found.writes(found.largest)
    tokens = page.locator("#head-writes code").all_text_contents()
    assert tokens == [visible(each.token) for each in (*up, *down)]
    assert len(tokens) == (10 if name.startswith("Llama") else 0)
    looks = [each.rpartition(" ") for each in page.locator("#head-looks code").all_text_contents()]
    weights = [float(weight) for _, _, weight in looks]
    assert weights == sorted(weights, reverse=True) and sum(weights) <= 1.01
    words = {word.strip(".") for word in asked[0].split()} | {"[CLS]", "[SEP]", "<s>", "."}
    assert {word for word, _, _ in looks} <= words and len(looks) in (0, 3)
    page.select_option("#effects select", "zero")
    zero = max(found.of("zero").values(), key=lambda each: abs(each.value))
    assert chips.first.inner_text().startswith(zero.part)
    words = page.locator("#effects .chips").nth(1).locator(".chip")
    if name.startswith(("Llama", "BertForSeq")):
        words.nth(1).click()
        assert "Heads that look at" in page.inner_text("#effects")
        attention = word_attention(model, asked[0])
        (site,) = attention.sites
        row_ = -1 if name.startswith("Llama") else 0
        weights = {
            f"{'dec' if name.startswith('Llama') else 'enc'}.{layer}.{head}": map_QK[row_, 1]
            for layer, maps in site.maps.items()
            for head, map_QK in enumerate(maps)
        }
        best = max(weights, key=lambda each: weights[each])
        assert abs(float(chips.first.inner_text().split()[1]) - weights[best]) < 0.01
    else:
        assert words.count() == 0
    page.close()
    several = explain(model, [Prompt(*asked)] * 2, options=ExplainOptions(effects=("zero",)))
    with pytest.raises(InputError, match="Expected effects on one prediction, got those on 2"):
        show_explained(model, several)


@pytest.mark.slow
@pytest.mark.browser
def test_it_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    path = show(loaded("MarianMTModel"), TEXT).save(tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("[data-view=matrix]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_a_model_of_images_has_no_words() -> None:
    with pytest.raises(ModelError, match="Expected a model that reads text here, got"):
        show(pictures.loaded(pictures.random()), "cat.png", "enc.9.9")
