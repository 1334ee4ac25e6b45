"""The page of a Vision Transformer: its words, and images with the attention of patches."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headcount import Corpus, analyze
from headcount.core import InputError, encoded
from headcount.pages import story
from headcount.pages.attention_view import image_view
from headcount.pages.html import page_data, report_view
from headcount.reporting import write_figures
from headcount.results import finding, read_run
from headcount.results.run import read_examples
from tests import pictures
from tests.pages.conftest import Open

LEFT, SINK, LINE, EVEN, SPOT = (f"enc.0.{n}" for n in range(5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images = pictures.write_images(tmp_path_factory.mktemp("images"), 80, pictures.LABELS)
    analysis = analyze(pictures.loaded(pictures.planted()), Corpus(images))
    out = tmp_path_factory.mktemp("run")
    analysis.write(out)
    return out


def test_the_story_is_of_images(folder: Path):
    text = " ".join(story(read_run(folder)))
    assert text.startswith("enc.0.0 looks at the patch to the left; enc.0.2 stays in the patch's")
    assert "4 of 5 heads have a role and 1 neither. 1 looks at the patch to the left, " in text
    assert not any(word in text for word in ("sentence", "word", "text", "treebank", "relation"))
    assert "--task image-classification --data FILE" in text


@pytest.mark.slow
@pytest.mark.browser
def test_a_card_shows_images_and_where_a_patch_looks(folder: Path, open_page: Open):
    page = open_page(folder, f"#{LEFT}")
    assert "80 images of 4 x 5 patches, 1,680 tokens" in page.inner_text("body")
    card = page.locator("#card")
    text = card.inner_text().replace("\u202f", " ")
    assert "looks at the patch to the left in 100 % of cases" in text
    assert "Images of a sample that show its role best" in text
    assert not any(word in text for word in ("sentence", "Rare words", "Offset of", "separators"))
    assert card.locator("rect.heat").count() == 20
    card.locator("rect.heat").nth(5 * 2 + 3).click()  # row 3, column 4
    said = page.locator(".image-example .hint").first.inner_text()
    assert said.startswith(
        "Attention of the patch in row 3, column 4: the largest weight, 1.00, is"
    )
    assert "row 3, column 3. The class token gets 0 %." in said
    page.focus("svg.image")
    page.keyboard.press("ArrowDown")
    assert "the patch in row 4, column 4" in page.locator(".image-example .hint").first.inner_text()
    card.get_by_role("button", name="all patches").click()
    assert "all patches, on average" in page.locator(".image-example .hint").first.inner_text()
    assert page.evaluate("document.querySelector('#card img').naturalWidth") == 15


@pytest.mark.slow
@pytest.mark.browser
def test_a_sink_opens_at_the_class_token(folder: Path, open_page: Open):
    page = open_page(folder, f"#{SINK}")
    assert page.locator("rect.from").is_hidden()
    assert "The class token gets 100 %." in page.inner_text("#card")
    assert "of its attention to the class token" in page.inner_text("#card")


@pytest.mark.slow
@pytest.mark.browser
def test_a_head_of_one_place_opens_with_the_mean_of_all_patches(folder: Path, open_page: Open):
    page = open_page(folder, f"#{SPOT}")
    said = page.locator(".image-example .hint").first.inner_text()
    assert said.startswith("Attention of all patches, on average: the largest weight, 1.00, is on")
    assert "row 2, column 4" in said and page.locator("rect.from").is_hidden()


def test_an_image_that_is_none_is_damage(folder: Path, tmp_path: Path):
    text = (folder / "examples.json").read_text()
    for bad, message in (
        ("data:image/svg+xml;base64,", "expected an image as a data: address"),
        ("https://example.org/", "expected an image as a data: address"),
    ):
        (tmp_path / "examples.json").write_text(text.replace("data:image/png;base64,", bad))
        with pytest.raises(InputError, match=message):
            read_examples(tmp_path / "examples.json")


def test_weights_have_a_scale_of_their_own(folder: Path):
    run = read_run(folder)
    example = run.examples[LINE][0]
    assert run.record.grid is not None
    view = image_view(example, run.record.grid)
    assert view.largest == example.largest and max(view.largest) == pytest.approx(0.2, abs=0.01)
    assert example.weights_QK.max(1).tolist() == [255] * len(example.queries)
    assert encoded(replace(example, image="", largest=())).keys() == {
        *("role", "caption", "queries", "keys", "weights", "arcs")
    }


def test_what_other_heads_do_is_in_plain_words(folder: Path):
    profiles = read_run(folder).traits or {}
    by_trait = {head: {each.trait: each for each in profiles[head]} for head in (LINE, SPOT, LEFT)}
    said = [
        finding(by_trait[head][trait]).replace("\u202f", " ")
        for head, trait in ((LINE, "row"), (SPOT, "spot"), (LEFT, "near"))
    ]
    assert said[0].startswith("gives 100 % of its attention to the patch's own row; position alone")
    assert said[1].startswith(
        "gives 100 % of its attention to the patch in row 2, column 4 of every image; "
    )
    assert re.fullmatch(r"looks at patches nearby: \d\d % closer than even attention", said[2])


@pytest.mark.slow
def test_figures_of_images(folder: Path):
    names = {path.name for path in write_figures(folder, ["svg"])}
    assert names == {f"{name}.svg" for name in ("role_map", "confidence_map", "layer_curves")} | {
        "weight_and_norm.svg"
    }


def test_heads_that_show_one_image_share_it(folder: Path):
    data = page_data(report_view(read_run(folder)))
    used = {each["image"] for card in data["cards"].values() for each in card["examples"]}
    assert used == {*range(len(data["pictures"]))} and len(used) < 15
    assert all(picture.startswith("data:image/png;base64,") for picture in data["pictures"])
