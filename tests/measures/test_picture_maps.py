"""Looks of words at a picture are those of the stock model, and are drawn over it."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from headcount.core import CorpusError, InputError
from headcount.corpora import PICTURE, Corpus, with_pictures
from headcount.measures import picture_attention
from headcount.models import picture_encoder
from headcount.pages import attention_data, show
from tests import tiny_pictures as tiny

pytestmark = pytest.mark.filterwarnings("ignore:.*saw no image")
ASKED = "what is the red dog ?"
KINDS = ["llava", *(pytest.param(each, marks=pytest.mark.slow) for each in ("qwen", "idefics"))]


@pytest.mark.parametrize("kind", KINDS)
def test_looks_are_those_of_the_stock_model(kind: str, tmp_path: Path) -> None:
    loaded, path = tiny.loaded(kind), tiny.picture(tmp_path / "a.png")
    found = picture_attention(loaded, with_pictures(ASKED, [path], "here"))
    processor, model = _both(loaded)
    content = [{"type": "image"}, {"type": "text", "text": ASKED}]
    text = processor.apply_chat_template([{"role": "user", "content": content}], **REPLY)
    inputs = processor(text=[text], images=[[tiny.opened(path)]], return_tensors="pt")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        stock = model(**inputs, output_attentions=True).attentions
    mark = inputs["input_ids"][0] == loaded.config.image_token_id
    parts = mark.nonzero()[:, 0].tolist()
    after = [n for n in range(len(mark)) if n > parts[-1]]
    assert found.picture is not None and found.picture.size == (23, 17)
    words = [processor.decode([each]) for each in inputs["input_ids"][0, after].tolist()]
    assert [*found.picture.words] == words
    assert len(found.picture.regions) == len(parts)
    for layer, maps_HWP in found.picture.maps.items():
        expected_HWP = stock[layer][0][:, after][..., parts].numpy()
        np.testing.assert_allclose(maps_HWP, expected_HWP, atol=1e-5)
    (site,) = found.sites
    whole_HQ = site.maps[1][..., [each == PICTURE for each in site.keys]].sum(-1)  # by tile
    np.testing.assert_allclose(whole_HQ[:, -1], found.picture.maps[1][:, -1].sum(-1), atol=1e-5)


REPLY = {"add_generation_prompt": True}


def _both(loaded: Any) -> tuple[Any, Any]:
    """The processor and the model."""
    return loaded.processor, loaded.model


def test_a_page_holds_the_weights(tmp_path: Path) -> None:
    loaded, path = tiny.loaded("llava"), tiny.picture(tmp_path / "a.png")
    found = picture_attention(loaded, with_pictures(ASKED, [path], "here"))
    looks, drawn = found.picture, attention_data(found)["picture"]
    assert looks is not None
    for index, each in enumerate(drawn["maps"]["1"]):
        bytes_WP = np.frombuffer(base64.b64decode(each["weights"]), np.uint8).reshape(-1, 16)
        weights_WP = bytes_WP / 255 * np.array(each["largest"])[:, None]
        np.testing.assert_allclose(weights_WP, looks.maps[1][index], atol=3e-3)
    assert drawn["image"].startswith("data:image/") and len(drawn["regions"]) == 4 * 16


def test_what_can_not_be_drawn_is_refused(tmp_path: Path) -> None:
    from headcount.explanation import explain, read_prompts, show_explained

    loaded, path = tiny.loaded("llava"), tiny.picture(tmp_path / "a.png")
    with pytest.raises(InputError, match="at most 160 tokens beside pictures, got 2"):
        show(loaded, "dog " * 200, images=[path])
    with pytest.raises(CorpusError, match="none.png: expected an image"):
        show(loaded, ASKED, images=[tmp_path / "none.png"])
    asked = {"image": path, "prompt": ASKED, "target": "dog"}
    explained = explain(loaded, read_prompts([asked]))
    with pytest.raises(InputError, match="Expected the prompt with its pictures, .*a.png, got"):
        show_explained(loaded, explained)


@pytest.mark.slow
@pytest.mark.browser
def test_a_press_on_a_word_or_a_part_shows_looks(browser: Browser, tmp_path: Path) -> None:
    from headcount.explanation import explain, read_prompts, show_explained

    loaded, path = tiny.loaded("llava"), tiny.picture(tmp_path / "a.png")
    prompts = read_prompts([{"image": path, "prompt": ASKED, "target": "dog"}])
    explained = explain(loaded, prompts)
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    looks = picture_attention(loaded, with_pictures(ASKED, [path], "here")).picture
    assert looks is not None
    shown = show_explained(loaded, explained, prompt=prompts[0]), show(loaded, ASKED, images=[path])
    for each, row in zip(shown, (len(looks.words) - 1, None), strict=True):
        page.goto(each.save(tmp_path / "page.html").as_uri())
        page.click('[data-head="dec.1.2"]')
        said = page.locator(".image-example [aria-live]")
        here_WP = looks.maps[1][2]  # where the reply begins, or the word that looks most
        first = int(here_WP.sum(1).argmax()) if row is None else row
        expect(said).to_contain_text(f"“{looks.words[first]}”:")
        share = round(100 * float(here_WP[first].sum()))
        expect(said).to_contain_text(f"{share} % of its attention is on the picture")
        top = float(here_WP[first].max())
        heat = "Math.max(...[...document.querySelectorAll('rect.heat')].map(r => r.style.opacity))"
        assert page.evaluate(heat) == pytest.approx(0.8 * top / max(top, 1 / 16), abs=0.01)
        page.locator(".place-word", has_text="dog").click()
        expect(said).to_contain_text("“dog”:")
        page.click('[data-head="dec.0.1"]')
        expect(page.locator(".image-example [aria-live]")).to_contain_text("“dog”:")
        page.locator(".image-example rect.heat").nth(5).dispatch_event("click")
        best = looks.words[int(looks.maps[0][1][:, 5].argmax())]
        expect(page.locator(".image-example [aria-live]")).to_contain_text(f"“{best}”")
    assert errors == []


@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_a_word_ends_where_a_special_token_begins(tmp_path: Path) -> None:
    """Also if it is a mark, and the token begins with one."""
    loaded = tiny.loaded("llava")
    processor: Any = loaded.processor
    processor.chat_template = tiny.template("<image>").replace(
        "{{ part['text'] }}", "{{ part['text'] }}<end_of_utterance>"
    )
    [sentence] = Corpus([tiny.chat(tiny.picture(tmp_path / "0.png"), "what is it ?")])
    words = picture_encoder(loaded).labelled(sentence)[0].words
    assert words[3:9] == ("(picture)", "what", "is", "it", "?", "<end_of_utterance>")
