"""Pictures beside texts: how rows have them, which tokens stand for them, and what is refused."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from headcount import Corpus, CorpusError, Loaded, ModelError
from headcount.corpora import EncodedPair, PictureEncoder
from headcount.corpora.picture_regions import inside
from headcount.models import encoder_of
from tests import tiny_pictures as tiny

pytestmark = pytest.mark.filterwarnings("ignore:.*saw no image")


@pytest.fixture(scope="module")
def llava() -> Loaded:
    return tiny.loaded("llava")


def encoded(loaded: Loaded, corpus: Corpus) -> list[EncodedPair]:
    return encoder_of(loaded, corpus).encode([*corpus])


def content(loaded: Loaded, pair: EncodedPair) -> list[str]:
    """The tokens of the text that are content."""
    source, tokenizer = pair.source, loaded.processor.tokenizer
    assert source.is_picture is not None
    kinds = zip(source.ids, source.is_special, source.is_picture, strict=True)
    return [tokenizer.decode([each]) for each, special, shown in kinds if not special | shown]


def test_all_forms_of_a_row_are_one(llava: Loaded, tmp_path: Path) -> None:
    """Parts of messages, a column of pictures, LLaVA's form, bytes and addresses of data."""
    path = tiny.picture(tmp_path / "0.png")
    data = base64.b64encode(Path(path).read_bytes()).decode()
    asked = {"type": "text", "text": "what is it ?"}
    bare = {"messages": [{"role": "user", "content": [{"type": "image"}, asked]}]}
    human = [{"from": "human", "value": "<image>\nwhat is it ?"}]
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    forms: list[Any] = [
        {"messages": [{"role": "user", "content": [{"type": "image", "image": path}, asked]}]},
        bare | {"images": [path]},
        bare | {"images": [{"bytes": Path(path).read_bytes(), "path": None}]},
        bare | {"images": [Image.open(path)]},
        {"messages": [{"role": "user", "content": [url, asked]}]},
        {"conversations": human, "image": path},
    ]
    found = [encoded(llava, Corpus([form]))[0] for form in forms]
    found += encoded(
        llava,
        Corpus(
            [{"picture": path, "says": "what is it ?"}],
            columns={"image": "picture", "text": "says"},
        ),
    )
    assert all(each.source.ids == found[0].source.ids for each in found)
    assert sum(found[0].source.is_picture or ()) == 16
    assert all(content(llava, each) == ["what", "is", "it", "?"] for each in found)


def test_paths_are_relative_to_the_file(llava: Loaded, tmp_path: Path) -> None:
    tiny.picture(tmp_path / "0.png")
    (tmp_path / "rows.jsonl").write_text(json.dumps(tiny.chat("0.png")))
    [pair] = encoded(llava, Corpus(tmp_path / "rows.jsonl"))
    (tmp_path / "named.jsonl").write_text(json.dumps({"photo": "0.png", "says": "what is it ?"}))
    columns = {"image": "photo", "text": "says"}
    [other] = encoded(llava, Corpus(tmp_path / "named.jsonl", columns=columns))
    assert pair.sentence.pictures == other.sentence.pictures
    assert pair.sentence.pictures[0].path == tmp_path / "0.png"


def test_texts_without_pictures_stay_possible(llava: Loaded, tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": "what is it ?"}]}
    both = [tiny.chat(tiny.picture(tmp_path / "0.png")), row]
    beside, alone = encoded(llava, Corpus(both))
    assert content(llava, alone) == ["what", "is", "it", "?"]
    assert any(beside.source.is_picture or ()) and not any(alone.source.is_picture or ())
    [batch_inputs] = [
        encoder_of(llava, Corpus(both)).arguments(
            [beside.sentence, alone.sentence], torch.zeros(2, 40), torch.ones(2, 40)
        )
    ]
    assert len(batch_inputs["pixel_values"]) == 1


def test_equal_questions_about_other_pictures_are_other_texts(tmp_path: Path) -> None:
    """Halves and counts tell them apart; where files lie does not matter."""
    from headcount.corpora.census import text_hash

    paths = [tiny.picture(tmp_path / f"{n}.png", seed=n // 2) for n in range(4)]
    hashes = [text_hash(each) for each in Corpus([tiny.chat(path) for path in paths])]
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
    same = [Corpus([tiny.chat(path)]).sha256() for path in paths[:2]]
    assert same[0] == same[1]


@pytest.mark.parametrize("mode", ["CMYK", "L", "RGB", "P"])
def test_modes(llava: Loaded, tmp_path: Path, mode: str) -> None:
    pixels = Image.new(mode, (20, 20))
    pixels.save(tmp_path / "0.tif")
    [pair] = encoded(llava, Corpus([tiny.chat(str(tmp_path / "0.tif"))]))
    assert sum(pair.source.is_picture or ()) == 16


def test_the_first_frame_of_an_animation_counts(llava: Loaded, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "0.gif", save_all=True, append_images=frames[1:])
    corpus = Corpus([tiny.chat(str(tmp_path / "0.gif"))])
    encoder: Any = encoder_of(llava, corpus)
    pixels = encoder._processed(*[*corpus], "<image>")["pixel_values"][0].mean((1, 2))
    assert pixels[0] > pixels[2]


def test_one_pixel(llava: Loaded, tmp_path: Path) -> None:
    path = tiny.picture(tmp_path / "0.png", (1, 1))
    [pair] = encoded(llava, Corpus([tiny.chat(path)]))
    assert sum(pair.source.is_picture or ()) == 16


def _with(part: dict[str, Any], **row: Any) -> dict[str, Any]:
    parts = [{"type": "image"} | part, {"type": "text", "text": "what is the cat ?"}]
    return {"messages": [{"role": "user", "content": parts}]} | row


def test_bad_rows_are_refused_with_their_place(llava: Loaded, tmp_path: Path) -> None:
    path = tiny.picture(tmp_path / "0.png", (20, 10))
    for name, size in (("large", (10_000, 6_000)), ("huge", (20_000, 20_000))):
        Image.new("1", size).save(tmp_path / f"{name}.png")
    (tmp_path / "none.png").write_bytes(b"nothing")
    large = (tmp_path / "large.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(large[: len(large) // 2])
    box = {"name": "subject", "phrase": "the cat", "boxes": [[2, 2, 9, 9]]}
    own = {"image": path}
    cases: list[tuple[dict[str, Any], str]] = [
        (_with(own, images=[path]), r"row 1: expected as many .*got 2 pictures for 1 place\."),
        (_with({}), r"row 1: expected as many pictures .*got 0 pictures for 1 place\."),
        (_with({"image": "https://x.org/a.png"}), "row 1: .*on this machine.* Download it"),
        (_with({"image": "data:image/png;base64,*"}), "row 1: expected a picture in base64"),
        (_with({"image": 3}), "row 1: expected the path of a picture, got 3"),
        (_with({"image": str(tmp_path / "missing.png")}), "missing.png: expected an image"),
        (_with({"image": str(tmp_path / "none.png")}), "none.png: expected an image"),
        (_with({"image": str(tmp_path / "large.png")}), "row 1: .*got 10,000 x 6,000: .*smaller"),
        (_with({"image": str(tmp_path / "cut.png")}), "row 1: .*got 10,000 x 6,000: .*smaller"),
        (_with({"image": str(tmp_path / "huge.png")}), "row 1: .*got 20,000 x 20,000: .*huge.png"),
        (_with(own, links=[box | {"boxes": [[2, 2, 21, 9]]}]), "row 1: .*inside .* 20 x 10 pixels"),
        (
            _with(own, links=[box | {"boxes": [[9, 2, 2, 9]]}]),
            "row 1: expected links .* ends before it begins",
        ),
        (
            _with(own, links=[{"phrase": "the cat"}]),
            "row 1: expected links .*, which has no box. Fix",
        ),
        (
            _with(own, links=[{"boxes": [[2, 2, 9, 9]]}]),
            "row 1: expected links .*, which has no phrase. Fix",
        ),
        (_with(own, links=[box | {"phrase": "the dog"}]), "row 1: expected the phrase of a box"),
        (_with(own, links=[box | {"picture": 1}]), "row 1: .* names picture 1, but the row has 1"),
        (_with({"type": "video"}), "row 1: expected text alone, got a part of the type video"),
    ]
    for row, message in cases:
        with pytest.raises(CorpusError, match=message):
            PictureEncoder(llava.processor, llava.processor.tokenizer, 4).encode([*Corpus([row])])


def test_a_processor_is_needed(tmp_path: Path) -> None:
    corpus = Corpus([tiny.chat(tiny.picture(tmp_path / "0.png"))])
    loaded = Loaded(tiny.loaded("llava").model, tiny.tokenizer(), "bare")
    with pytest.raises(ModelError, match="Expected a processor beside the weights of bare"):
        encoder_of(loaded, corpus)


def test_a_box_is_its_tokens() -> None:
    """Tokens half of which lie inside, or the one that shares most with it."""
    regions = [(0.0, 0.0, 0.5, 0.5), (0.5, 0.0, 1.0, 0.5), None, (0.5, 0.5, 1.0, 1.0)]
    first, small, last = (0.0, 0.0, 4.0, 4.0), (1.0, 1.0, 2.0, 2.0), (4.0, 4.0, 8.0, 8.0)
    assert inside(regions, [first], (8, 8)) == inside(regions, [small], (8, 8)) == [0]
    assert inside(regions, [(0.0, 0.0, 6.0, 4.0)], (8, 8)) == [0, 1]
    assert inside(regions, [first, last], (8, 8)) == [0, 3]
    assert inside(regions, [(0.0, 5.0, 3.0, 8.0)], (8, 8)) == []


@pytest.mark.parametrize(
    "kind",
    [
        "llava",
        "qwen",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("idefics", "internvl")),
    ],
)
def test_tokens_are_where_their_pixels_are(kind: str, tmp_path: Path) -> None:
    """A white spot on black lights the pixels of the tokens whose regions it lies in, no other."""
    loaded = tiny.loaded(kind)
    size, spot = (40, 30), (24, 18, 30, 24)
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[spot[1] : spot[3], spot[0] : spot[2]] = 255
    for name, each in (("spot", pixels), ("none", pixels * 0)):
        Image.fromarray(each).save(tmp_path / f"{name}.png")
    pairs, lit = [], []
    for name in ("spot", "none"):
        corpus = Corpus([tiny.chat(str(tmp_path / f"{name}.png"))])
        encoder: Any = encoder_of(loaded, corpus)
        [sentence] = [*corpus]
        pairs += encoder.encode([sentence])
        lit.append(encoder._processed(sentence, encoder._written(sentence).text)["pixel_values"])
    regions = pairs[0].source.regions
    difference = (lit[0] - lit[1]).abs()
    if kind == "qwen":
        by_token = difference.view(len(regions), -1).amax(-1)
    else:
        tiles = difference.flatten(0, -4)
        rows = round((len(regions) / len(tiles)) ** 0.5)
        cell = tiles.shape[2] // rows
        pooled = torch.nn.functional.max_pool2d(tiles, cell).amax(1)
        by_token = pooled.flatten()
    touched = [
        box is not None
        and min(box[2], spot[2] / size[0]) - max(box[0], spot[0] / size[0]) > 0.02
        and min(box[3], spot[3] / size[1]) - max(box[1], spot[1] / size[1]) > 0.02
        for box in regions
    ]
    assert any(touched) and not all(touched)
    is_lit = by_token > 0.25 * by_token.max()
    for token, is_touched in enumerate(touched):
        assert is_touched or not is_lit[token]
    assert is_lit[[n for n, each in enumerate(touched) if each]].any()


@pytest.mark.parametrize("size", [(40, 30), (23, 50)])
def test_lines_of_tiles_are_where_the_model_puts_them(
    size: tuple[int, int], tmp_path: Path
) -> None:
    """LLaVA-NeXT's own features change for the tokens whose regions a spot lies in, no other."""
    loaded = tiny.loaded("next_llava")
    model: Any = loaded.model
    with torch.no_grad():
        for layer in model.model.vision_tower.encoder.layers:
            for part in (layer.self_attn.out_proj, layer.mlp.fc2):  # so that patches do not mix
                part.weight.zero_()
                part.bias.zero_()
    spot, features, pairs = (8, 18, 14, 24), [], []
    for bright in (0, 255):
        pixels = np.zeros((size[1], size[0], 3), np.uint8)
        pixels[spot[1] : spot[3], spot[0] : spot[2]] = bright
        path = tmp_path / f"{bright}.png"
        Image.fromarray(pixels).save(path)
        corpus = Corpus([tiny.chat(str(path))])
        encoder: Any = encoder_of(loaded, corpus)
        pairs += encoder.encode([*corpus])
        given = encoder._processed(pairs[-1].sentence, encoder._written(pairs[-1].sentence).text)
        with torch.no_grad():
            found = model.model.get_image_features(given["pixel_values"], given["image_sizes"])
        features.append(torch.cat([*getattr(found, "pooler_output", found)]))
    regions = pairs[0].source.regions
    change = (features[0] - features[1]).abs().amax(-1)
    assert len(regions) == len(change) > 16
    is_lit = change > 0.1 * change.max()
    assert is_lit.any() and None in regions
    for token, box in enumerate(regions):
        shared = box is not None and (
            min(box[2], spot[2] / size[0]) - max(box[0], spot[0] / size[0]),
            min(box[3], spot[3] / size[1]) - max(box[1], spot[1] / size[1]),
        )
        if not shared or min(shared) < -0.03:
            assert not is_lit[token], token
        elif min(shared) > 0.06:
            assert is_lit[token], token
