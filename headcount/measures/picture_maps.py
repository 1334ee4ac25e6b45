r"""Picture maps: where the words of a text look in the picture beside it, for every head.

$$A_h(u, p) = \frac{1}{|u|} \sum_{q \in u} A_h(q, p)$$

p is a token of the first picture, u a word behind it. Between words, the whole picture is one word
(word_maps.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from headcount.core import InputError
from headcount.corpora import Encoded, LabelledTokens, Sentence, open_image, thumbnail
from headcount.measures.word_maps import (
    MAX_TOKENS,
    GroupedMap,
    HeadGates,
    Maps,
    PictureLooks,
    WordAttention,
)
from headcount.models import Loaded, picture_encoder
from headcount.tap import AttentionLayer, Block, evaluating, input_device, tapped, without_cache

SIDE = 320
"""Largest side of the picture as it is drawn, in pixels."""
MOST_WORDS = 40
"""Largest number of words that are drawn over the picture; the last ones are."""
MOST_PARTS = 1024
"""Largest number of tokens of a picture that is drawn."""


@final
@dataclass(frozen=True, eq=False)
class Beside:
    """A text beside pictures as a model reads it, up to where its reply begins."""

    tokens: LabelledTokens
    encoded: Encoded
    inputs: Mapping[str, Tensor]
    """The arguments of the model, on its device."""
    num_parts: int
    """Number of tokens of the first picture; 0 if it is not known where they lie."""


def read_beside(
    loaded: Loaded, sentence: Sentence, template: Mapping[str, Any] | None = None
) -> Beside:
    """The tokens and pictures of a text.

    Args:
        loaded: the model.
        sentence: the text with its pictures.
        template: values for the chat template.

    Raises:
        InputError: for a text or a picture that can't be read, or too long a text.
        ModelError: for a model that reads no pictures.
    """
    encoder = picture_encoder(loaded, template or {})
    tokens, encoded = encoder.labelled(sentence)
    number = len(encoded.ids) - sum(encoded.is_picture or ())
    if number > MAX_TOKENS:
        raise InputError(
            f"Expected a text of at most {MAX_TOKENS} tokens beside pictures, got {number}. "
            "Shorten it."
        )
    ids_1N = torch.tensor([encoded.ids])
    given = encoder.arguments([sentence], ids_1N, torch.ones_like(ids_1N).bool())
    device = input_device(loaded.model)
    num_parts = encoder.num_tokens(sentence) if encoded.regions else 0
    moved = {name: each.to(device) for name, each in given.items()}
    return Beside(tokens, encoded, moved, num_parts)


def picture_attention(
    loaded: Loaded,
    sentence: Sentence,
    gates: HeadGates | None = None,
    template: Mapping[str, Any] | None = None,
) -> WordAttention:
    """Every head's attention between the words of a text and on the picture beside it.

    Args:
        loaded: a model that reads pictures beside texts.
        sentence: the text with its pictures.
        gates: factors by head name; heads not named keep 1.
        template: values for the chat template.

    Raises:
        InputError: as `read_beside`, or for an unknown head.
    """
    read = read_beside(loaded, sentence, template)
    listener, body = _Looks(read), loaded.model.base_model
    with evaluating(loaded.model), torch.inference_mode():
        with tapped(loaded.model, listener, gates, loaded.anatomy):
            body(**read.inputs, **without_cache(body))
    maps = listener.maps
    return WordAttention(loaded.name, sentence.text, None, maps.sites(), listener.looks(sentence))


@final
class _Looks:
    """A listener that keeps maps between words, and of words on the tokens of the first picture."""

    def __init__(self, read: Beside) -> None:
        self.maps, self._read = Maps(read.tokens, read.tokens), read
        shown, word_of = read.encoded.is_picture or [], read.tokens.word_of
        places = [place for place, is_shown in enumerate(shown) if is_shown][: read.num_parts]
        self._parts = places if len(places) <= MOST_PARTS else []
        last = max(self._parts, default=-1)
        behind = {word for place, word in enumerate(word_of) if place > last and not shown[place]}
        self._words = sorted(behind)[-MOST_WORDS:] if self._parts else []
        """Numbers of the words that are drawn."""
        self._found: dict[int, Any] = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Begin a layer."""
        self.maps.begin(layer, value_BHKD, num_queries)
        if not self._parts:
            return
        queries, keys = ([-1] * len(self._read.tokens.ids) for _ in range(2))
        number = {word: n for n, word in enumerate(self._words)}
        for place, word in enumerate(self._read.tokens.word_of):
            queries[place] = number.get(word, -1)
        for n, place in enumerate(self._parts):
            keys[place] = n
        query_BQ, key_BK = (
            torch.tensor([each], device=value_BHKD.device) for each in (queries, keys)
        )
        self._map = GroupedMap(query_BQ, key_BK, value_BHKD.shape[1], torch.float32)

    def block(self, block: Block) -> None:
        """Add a block."""
        self.maps.block(block)
        if self._parts:
            self._map.block(block)

    def end(self, layer: AttentionLayer) -> None:
        """Keep the layer's maps."""
        self.maps.end(layer)
        if self._parts:
            self._site = layer.site
            self._found[layer.layer] = self._map.map_BHWW[0].cpu().numpy()

    def looks(self, sentence: Sentence) -> PictureLooks | None:
        """What was kept of the picture; None if it is not known where its tokens lie."""
        if not self._parts:
            return None
        picture = open_image(sentence.pictures[0].path)
        regions = tuple(each or (0.0, 0.0, 0.0, 0.0) for each in self._read.encoded.regions)
        return PictureLooks(
            thumbnail(picture.copy(), SIDE),
            picture.size,
            self._site,
            tuple(self._read.tokens.words[word] for word in self._words),
            regions[: len(self._parts)],
            self._found,
        )
