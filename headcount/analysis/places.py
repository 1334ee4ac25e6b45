"""Where words look in a picture: examples of texts beside pictures, drawn over the picture.

Of a sample of texts the weights of words on the tokens of the first picture are kept, for every
head. A head that finds linked places is shown on the texts where it finds most of them, any other
on those where its words look most at the picture. Other examples of such texts show a picture as
one word.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.analysis.images import SIDE
from headcount.core import Head
from headcount.corpora import Batch, Encoded, PictureEncoder, Sentence, open_image, thumbnail
from headcount.measures import forward
from headcount.numbers import percent
from headcount.results import Example, Role
from headcount.tap import Anatomy, AttentionLayer, Block, WholeMap
from headcount.vocabulary import LINKS

NUM_PLACES = 2
"""Number of texts kept for each head."""
MOST_WORDS = 40
"""Largest number of tokens of a text that are shown; the last ones are."""
MOST_PATCHES = 1024
"""Largest number of tokens of a picture that is shown."""


@final
@dataclass(frozen=True)
class _Shown:
    """A text beside a picture, as it is drawn."""

    sentence: Sentence
    words: list[int]
    """Places of the tokens of the text that are shown."""
    labels: tuple[str, ...]
    """What they say."""
    patches: list[int]
    """Places of the picture's tokens."""
    regions: tuple[tuple[float, float, float, float], ...]
    """Where each of these lies, as shares of width and height; nothing is drawn of padding."""
    links: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Links from a word that is shown to patches, by their numbers, with the name of each."""


def place_examples(
    model: PreTrainedModel,
    anatomy: Anatomy,
    encoder: PictureEncoder,
    batches: Iterable[Batch],
    roles: Mapping[str, Sequence[Role]],
) -> dict[str, list[Example]]:
    """Some examples of every head, by head name; none where regions are not known."""
    listener = _Looking(encoder, roles)
    forward(model, anatomy, batches, listener)
    return {
        head: [example for _, example in sorted(found, key=lambda one: -one[0])]
        for head, found in listener.found.items()
    }


@final
class _Looking:
    """A listener that keeps the best examples of every head."""

    def __init__(self, encoder: PictureEncoder, roles: Mapping[str, Sequence[Role]]) -> None:
        self.found: dict[str, list[tuple[float, Example]]] = {head: [] for head in roles}
        self._encoder, self._roles = encoder, roles
        self._pictures: dict[int, tuple[str, tuple[int, int]]] = {}

    def start(self, batch: Batch) -> None:
        self._pictures = {}
        self._rows = [
            _shown(sentence, encoded, self._encoder)
            for sentence, encoded in zip(batch.sentences, batch.encoded, strict=True)
        ]

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        self._map = WholeMap(value_BHKD, num_queries, torch.float32)

    def block(self, block: Block) -> None:
        self._map.add(block)

    def end(self, layer: AttentionLayer) -> None:
        maps_BHQK = self._map.weights_BHQK.cpu()
        for row, shown in enumerate(self._rows):
            if shown is None:
                continue
            weights_HWP = maps_BHQK[row][:, shown.words][..., shown.patches].numpy()
            for index, weights_WP in enumerate(weights_HWP):
                self._add(str(Head(*layer.layer_id, index)), row, shown, weights_WP)

    def _add(self, head: str, row: int, shown: _Shown, weights_WP: np.ndarray) -> None:
        if head not in self._roles:
            return
        its, found = self._roles[head], self.found[head]
        role = next((each for each in its if each.role == LINKS.role.name), None)
        score, caption, arcs = _score(shown, weights_WP, role)
        if len(found) == NUM_PLACES and score <= min(each for each, _ in found):
            return
        largest_W = weights_WP.max(1).clip(1e-12)
        if row not in self._pictures:
            picture = open_image(shown.sentence.pictures[0].path)
            self._pictures[row] = thumbnail(picture.copy(), SIDE), picture.size
        image, size = self._pictures[row]
        example = Example(
            role=role.role if role else its[0].role if its else "none",
            caption=caption,
            queries=shown.labels,
            keys=tuple(f"patch {n + 1}" for n in range(len(shown.patches))),
            weights=(weights_WP / largest_W[:, None] * 255).round().astype(np.uint8).tobytes(),
            arcs=arcs,
            image=image,
            largest=tuple(largest_W.astype(float).round(4).tolist()),
            regions=shown.regions,
            size=size,
        )
        found.append((score, example))
        found.sort(key=lambda one: -one[0])
        del found[NUM_PLACES:]


def _shown(sentence: Sentence, encoded: Encoded, encoder: PictureEncoder) -> _Shown | None:
    """What is drawn of a text; None without a picture whose regions are known."""
    shown, regions = encoded.is_picture, encoded.regions
    if not shown or not regions or not sentence.pictures:
        return None
    every = [place for place, is_shown in enumerate(shown) if is_shown]
    number = encoder.num_tokens(sentence)
    patches = every[:number]
    words = [
        place
        for place, (is_shown, other) in enumerate(zip(shown, encoded.is_special, strict=True))
        if not is_shown and not other and place > patches[-1]
    ][-MOST_WORDS:]
    if number > MOST_PATCHES or not words:
        return None
    labels = tuple(encoder.source_piece(encoded.ids[place]).strip() or "␣" for place in words)
    boxes = tuple(
        (0.0, 0.0, 0.0, 0.0) if box is None else tuple(round(each, 4) for each in box)
        for box in regions[:number]
    )
    links = tuple(_links(sentence, encoded, words, number))
    return _Shown(sentence, words, labels, patches, boxes, links)  # type: ignore[arg-type]


def _links(
    sentence: Sentence, encoded: Encoded, words: Sequence[int], number: int
) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for link in sentence.links:
        of = [encoded.word_of[place] for place in words]
        query = of.index(link.query) if link.query in of else -1
        keys = tuple(key for key in link.keys if key < number)
        if link.candidates and query >= 0 and keys:
            yield link.name, query, keys


def _score(
    shown: _Shown, weights_WP: np.ndarray, role: Role | None
) -> tuple[float, str, tuple[tuple[int, int], ...]]:
    """How well a text shows a head, in words, and the pairs to mark."""
    links = [(query, keys) for name, query, keys in shown.links if role and name == role.relation]
    if role is None or not links:
        share = float(weights_WP.sum(1).mean())
        return share, f"{percent(share)} of the attention of words on the picture", ()
    right = sum(int(weights_WP[query].argmax()) in keys for query, keys in links)
    arcs = tuple((query, key) for query, keys in links for key in keys)
    caption = f"{role.relation}: of the picture, the largest weight is there for {right} of "
    return float(2 * right - len(links)), f"{caption}{len(links)}", arcs
