"""Weight by kind of token is an eager stock model's, on vision-language models of all kinds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount import Corpus, Loaded
from headcount.corpora import Batches, take_census
from headcount.measures import PictureWeights
from headcount.models import encoder_of
from headcount.tap import Tap
from headcount.testing import leaving_no_trace
from tests import speech, tiny_sound
from tests import tiny_pictures as tiny
from tests.textbook import pictures

EVERYDAY, SOUND = ("llava", "qwen", "qwen2_audio"), "qwen2_audio"
ASKED = {"role": "user", "content": "where is the dog ?"}
KINDS = [
    pytest.param(kind, marks=() if kind in EVERYDAY else pytest.mark.slow)
    for kind in (*tiny.KINDS, SOUND)
]


def made(kind: str) -> Loaded:
    """A tiny model of a kind."""
    return tiny_sound.loaded() if kind == SOUND else tiny.loaded(kind)


def prompts(kind: str, folder: Path) -> Corpus:
    """Prompts of unequal length, with pictures of unequal sizes, or sound of unequal length."""
    if kind == SOUND:
        *_, one, other = sorted(speech.recordings(folder / "sound").glob("*.wav"))
        more = tiny_sound.chat(other, "what is the red cat by the mat ?")
        return Corpus([tiny_sound.chat(one), {"messages": [ASKED]}, more])
    first = tiny.picture(folder / "0.png", seed=0)
    second = tiny.picture(folder / "1.png", (31, 12), seed=1)
    if kind == "paligemma":
        rows = [{"image": first, "text": "what is it ?"}, {"image": second, "text": "describe ."}]
        return Corpus(rows, columns={"image": "image", "text": "text"})
    return Corpus([tiny.chat(first), tiny.chat(second, "what is the red cat by the mat ?")])


def by_stock_model(loaded: Loaded, corpus: Corpus) -> list[dict[str, list[float]]]:
    """The textbook's numbers of every layer, from a prompt at a time and the processor's output."""
    encoder: Any = encoder_of(loaded, corpus)
    model: Any = loaded.model
    own, texts = model.config._attn_implementation, []
    model.set_attn_implementation("eager")
    for pair in encoder.encode([*corpus]):
        inputs = encoder.arguments(
            [pair.sentence],
            torch.tensor([pair.source.ids]),
            torch.ones(1, len(pair.source.ids), dtype=torch.bool),
        )
        with torch.no_grad():
            found = model(**inputs, output_attentions=True).attentions
        is_picture, special = pair.source.is_picture, pair.source.is_special
        kinds = [
            "picture" if shown else "other" if other else "text"
            for shown, other in zip(is_picture, special, strict=True)
        ]
        texts.append(([each[0].numpy() for each in found], kinds))
    model.set_attn_implementation(own)
    layers = range(len(texts[0][0]))
    return [pictures.over_texts([(maps[n], kinds) for maps, kinds in texts]) for n in layers]


@pytest.mark.filterwarnings("ignore:.*(saw no image|heard no sound)")
@pytest.mark.parametrize("kind", KINDS)
def test_is_that_of_an_eager_stock_model(kind: str, tmp_path: Path) -> None:
    from headcount import measure

    loaded, corpus = made(kind), prompts(kind, tmp_path)
    found = measure(loaded, corpus, [PictureWeights])
    expected = by_stock_model(loaded, corpus)
    for name in PictureWeights.names():
        numbers = np.array([layer[name] for layer in expected])
        assert numbers.max() > 0 or name == "picture_to_text"
        np.testing.assert_allclose(found.grid("decoder.self", name), numbers, atol=2e-6)


@pytest.mark.filterwarnings("ignore:.*(saw no image|heard no sound)")
@pytest.mark.parametrize("kind", KINDS)
def test_a_tapped_model_computes_the_same(kind: str, tmp_path: Path) -> None:
    """The tower is not looked at, and computes as it does; nothing remains behind the tap."""
    loaded, corpus = made(kind), prompts(kind, tmp_path)
    encoder = encoder_of(loaded, corpus)
    [batch] = Batches(corpus, encoder, take_census(corpus, encoder))
    assert batch.source.is_picture_BN is not None
    with torch.no_grad():
        stock = loaded.model(**batch.inputs).logits
        with leaving_no_trace(loaded.model, batch.inputs), Tap(loaded.model, loaded.anatomy):
            tapped = loaded.model(**batch.inputs).logits
    is_token_BN = batch.source.is_token_BN
    torch.testing.assert_close(tapped[is_token_BN], stock[is_token_BN], atol=1e-5, rtol=1e-4)
