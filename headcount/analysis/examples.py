"""Examples: for every head, the sentences that show its role best, drawn between words.

After the pass, a small sample of sentences is run once more and its word-level maps are kept; a
head's role decides which of them are shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import Head, LayerId, Steps, silent_steps, spread
from headcount.corpora import (
    NO_WORD,
    Batch,
    Corpus,
    Encoder,
    Link,
    PictureEncoder,
    Sentence,
    SoundEncoder,
    Tokens,
)
from headcount.measures import GroupedMap, forward, segments, sides
from headcount.numbers import percent, signed
from headcount.results import Example, Role
from headcount.tap import Anatomy, AttentionLayer, Block
from headcount.vocabulary import SYNTAX

NUM_CANDIDATES = 96
"""Number of sentences run once more, spread over the first `SEARCHED`."""
SEARCHED = 2000
DRAWN_TOKENS = 512
"""Number of tokens that are run at a time, few enough for several processes to have some."""
NUM_EXAMPLES = 3
"""Number of sentences kept for each head."""
READABLE = range(5, 21)
"""Number of words in a sentence, or in each of a pair, that is easy to read."""

Arc = tuple[int, int]
"""(query, key): the two labels that a role is about."""


@final
@dataclass(frozen=True)
class Side:
    """One side of a sentence as it is drawn; special tokens count as words of their own."""

    labels: list[str]
    word: np.ndarray
    """Word index of each label; -1 for special tokens and running text."""
    is_content: np.ndarray
    """Which labels are not special tokens."""
    rarest: int
    """The label of the rarest token; -1 if the sentence has no rare token."""
    segment: np.ndarray
    """Segment number of each label; 0 for all if there is one segment."""
    label_of: Mapping[int, int]
    """The label of each word of a treebank that has one."""


@final
@dataclass(frozen=True)
class Drawn:
    """One sentence and the word-level maps of one layer's heads on it."""

    sentence: Sentence
    queries: Side
    keys: Side
    weights_HQK: np.ndarray


def candidates(corpus: Corpus) -> list[Sentence]:
    """Sentences of readable length, spread evenly over the beginning of the corpus.

    Up to half of them have links, which may be rare.
    """
    readable = [s for s in islice(corpus, SEARCHED) if not s.inputs.is_text or _is_readable(s)]
    linked = _spread([s for s in readable if s.links or s.places], NUM_CANDIDATES // 2)
    return linked + _spread([s for s in readable if s not in linked], NUM_CANDIDATES - len(linked))


def _spread(sentences: Sequence[Sentence], number: int) -> list[Sentence]:
    """Some of the sentences, spread evenly."""
    return [*sentences[:: max(1, len(sentences) // number)][:number]]


def _is_readable(sentence: Sentence) -> bool:
    texts = [sentence.text] if sentence.second is None else [sentence.text, sentence.second]
    return all(len(text.split()) in READABLE for text in texts)


def find_examples(
    model: PreTrainedModel,
    anatomy: Anatomy,
    encoder: Encoder | SoundEncoder | PictureEncoder,
    batches: Iterable[Batch],
    roles: Mapping[str, Sequence[Role]],
    steps: Steps = silent_steps,
) -> dict[str, list[Example]]:
    """Up to three examples for every head, by head name.

    Args:
        model: the model.
        anatomy: its attention layers.
        encoder: makes the model's inputs.
        batches: the sentences that may be shown; processes share the batches.
        roles: roles of every head whose examples are looked for, by head name.
        steps: called with the number of heads whose examples are chosen, and of all.
    """

    def drawn(batch: Batch) -> dict[LayerId, list[Drawn]]:
        listener = _Drawing(encoder)
        forward(model, anatomy, [batch], listener)
        return listener.drawn

    parts, examples = [*spread(drawn, batches, "batches")], {}
    for number, (name, found) in enumerate(roles.items(), start=1):
        head = Head.parse(name)
        role = found[0] if found else None
        of_layer = [each for part in parts for each in part[head.layer_id]]
        examples[name] = best(of_layer, head.index, role)
        steps(number, len(roles))
    return examples


@final
class _Drawing:
    """A listener that keeps the word-level maps of every layer on a few sentences."""

    def __init__(self, encoder: Encoder | SoundEncoder | PictureEncoder) -> None:
        self.drawn: dict[LayerId, list[Drawn]] = {}
        self._encoder = encoder
        self._sides: dict[int, list[Side]] = {}

    def start(self, batch: Batch) -> None:
        self._batch = batch
        self._groups = {id(side): groups(side) for side in (batch.source, batch.target) if side}
        self._sides = {
            id(side): _draw_sides(side, self._groups[id(side)], batch, self._encoder)
            for side in (batch.source, batch.target)
            if side
        }

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        tokens = sides(layer, self._batch)
        queries, keys = (
            self._groups[id(side)].to(value_BHKD.device) for side in (tokens.attending, tokens.keys)
        )
        self._map = GroupedMap(queries, keys, value_BHKD.shape[1], torch.float32)

    def block(self, block: Block) -> None:
        self._map.block(block)

    def end(self, layer: AttentionLayer) -> None:
        tokens = sides(layer, self._batch)
        queries, keys = self._sides[id(tokens.attending)], self._sides[id(tokens.keys)]
        maps = self._map.map_BHWW.cpu().numpy()
        for row, sentence in enumerate(self._batch.sentences):
            cut = maps[row, :, : len(queries[row].labels), : len(keys[row].labels)]
            drawn = Drawn(sentence, queries[row], keys[row], cut.astype(np.float16))
            self.drawn.setdefault(layer.layer_id, []).append(drawn)


_PICTURE = 2**30
"""Number of the word that stands for a whole picture."""


def groups(tokens: Tokens) -> Int64[Tensor, "batch token"]:
    """Label number of each token: pieces of a word share one; -1 for padding."""
    word_BN = tokens.word_BN
    if tokens.is_picture_BN is not None:  # a picture is one label
        word_BN = word_BN.masked_fill(tokens.is_picture_BN, _PICTURE)
    before_BN = torch.cat([torch.full_like(word_BN[:, :1], -2), word_BN[:, :-1]], 1)
    starts_BN = (word_BN == NO_WORD) | (word_BN != before_BN)
    return (starts_BN.cumsum(1) - 1).masked_fill(~tokens.is_token_BN, -1)


def _draw_sides(
    tokens: Tokens, group_BN: Tensor, batch: Batch, encoder: Encoder | SoundEncoder | PictureEncoder
) -> list[Side]:
    drawn = []
    source, segment_BN = tokens is batch.source, segments(tokens)
    segment_BN = torch.zeros_like(tokens.ids_BN) if segment_BN is None else segment_BN
    piece = encoder.source_piece if source else encoder.target_piece
    for row, sentence in enumerate(batch.sentences):
        words = batch.words_at(row) if source and sentence.words else {}
        group = group_BN[row].tolist()
        firsts = [group.index(number) for number in range(max(group) + 1)]
        word = tokens.word_BN[row, firsts].cpu().numpy()
        ids = tokens.ids_BN[row].tolist()
        shown = tokens.is_picture_BN
        pictures = [shown is not None and bool(shown[row, n]) for n in firsts]
        labels = [
            sentence.form(words[w]) if w in words else piece(ids[n]).strip() or "␣"
            for w, n in zip(word, firsts, strict=True)
        ]
        labels = [
            sentence.pictures[0].label if is_picture else label
            for label, is_picture in zip(labels, pictures, strict=True)
        ]
        rarest = int(tokens.rarest_B2[row, 0])
        content = tokens.is_content_BN[row, firsts].cpu().numpy()
        segment = segment_BN[row, firsts].cpu().numpy()
        at = {each: label for label, place in enumerate(word) for each in words.get(int(place), ())}
        drawn.append(Side(labels, word, content, group[rarest] if rarest >= 0 else -1, segment, at))
    return drawn


def best(drawn: Sequence[Drawn], index: int, role: Role | None) -> list[Example]:
    """The sentences that show a role best; the shorter first in a tie."""
    shown = []
    for one in drawn:
        weights_QK = one.weights_HQK[index].astype(np.float32)
        found = _show(one, weights_QK, role)
        if found is not None:
            score, caption, arcs = found
            shown.append(
                (-score, len(one.queries.labels), len(shown), one, weights_QK, caption, arcs)
            )
    shown.sort(key=lambda item: item[:3])
    name = "none" if role is None else role.role
    return [
        Example(
            name,
            caption,
            tuple(one.queries.labels),
            tuple(one.keys.labels),
            (weights.clip(0, 1) * 255).round().astype(np.uint8).tobytes(),
            tuple(arcs),
        )
        for *_, one, weights, caption, arcs in shown[:NUM_EXAMPLES]
    ]


def _show(
    drawn: Drawn, weights_QK: np.ndarray, role: Role | None
) -> tuple[float, str, list[Arc]] | None:
    """How well a sentence shows a role, as a number and in words, and the pairs to highlight."""
    if role is not None and role.relation is not None:
        return _show_relation(drawn, weights_QK, role)
    if role is not None and role.role == "block":
        return _show_block(drawn, weights_QK)
    queries = np.flatnonzero(drawn.queries.is_content)
    peaks = _content_peaks(drawn, weights_QK)[queries]
    if not len(queries):
        return None
    if role is not None and role.offset is not None:
        offset = role.offset
        hits = queries[peaks == queries + offset]
        arcs = [(int(q), int(q) + offset) for q in hits]
        return (
            len(hits) / len(queries),
            f"offset {signed(offset)}: {len(hits)} of {len(queries)}",
            arcs,
        )
    if role is not None and role.role == "rare":
        rarest = drawn.keys.rarest
        hits = queries[peaks == rarest]
        share = len(hits) / len(queries)
        label = drawn.keys.labels[rarest] if rarest >= 0 else ""
        arcs = [(int(q), rarest) for q in hits]
        return (share, f"rarest: {label}: {len(hits)} of {len(queries)}", arcs) if label else None
    columns = weights_QK.mean(0)
    top = int(columns.argmax())
    if role is not None:
        return (
            float(columns[top]),
            f"{percent(float(columns[top]))} of attention on {drawn.keys.labels[top]}",
            [],
        )
    sharp = float(weights_QK[queries].max(1).mean())
    return sharp, f"mean largest weight {sharp:.2f}", []


def _content_peaks(drawn: Drawn, weights_QK: np.ndarray) -> np.ndarray:
    return np.where(drawn.keys.is_content, weights_QK, -1).argmax(1)


def _show_block(drawn: Drawn, weights_QK: np.ndarray) -> tuple[float, str, list[Arc]] | None:
    is_own_QK = drawn.queries.segment[:, None] == drawn.keys.segment
    if is_own_QK.all():
        return None
    own = float((weights_QK * is_own_QK).sum(1).mean())
    return own, f"{percent(own)} of attention within its own segment", []


def _show_relation(
    drawn: Drawn, weights_QK: np.ndarray, role: Role
) -> tuple[float, str, list[Arc]] | None:
    label_of = drawn.queries.label_of
    words_QK = np.where(drawn.keys.word >= 0, weights_QK, -1)
    words_QK[drawn.queries.word < 0] = -1
    np.fill_diagonal(words_QK, -1)
    arcs, right = [], 0
    links = [*_links_of(drawn.sentence, role, label_of)]
    for query, keys, compared in links:
        if role.direction in ("head->dependent", "key->query"):
            right += any(_largest(words_QK[key], compared) == query for key in keys)
            arcs += [(key, query) for key in keys]
        elif role.direction in ("head<-dependent", "key<-query"):
            right += _largest(words_QK[:, query], compared) in keys
            arcs += [(key, query) for key in keys]
        else:
            right += _largest(words_QK[query], compared) in keys
            arcs += [(query, key) for key in keys]
    if not links:
        return None
    caption = f"{role.relation} {role.direction}: {right} of {len(links)}"
    return float(right - 2 * (len(links) - right)), caption, arcs


def _largest(weights: np.ndarray, compared: list[int]) -> int:
    """Label of the largest weight, of those that are compared if not all are."""
    return compared[int(weights[compared].argmax())] if compared else int(weights.argmax())


def _links_of(
    sentence: Sentence, role: Role, label_of: Mapping[int, int]
) -> Iterator[tuple[int, list[int], list[int]]]:
    """The labels of the query, the keys, and what is compared of each link that is drawn."""
    tree, links = sentence.tree, sentence.links
    if role.role == SYNTAX.role.name:
        arcs = zip(tree.heads, tree.relations, strict=True) if tree is not None else ()
        links = [Link(name, word, (head,)) for word, (head, name) in enumerate(arcs)]
    for link in links:
        query = label_of.get(link.query, -1)
        keys = [label_of[key] for key in link.keys if label_of.get(key, query) != query]
        if link.name == role.relation and query >= 0 and keys:
            compared = sorted({label_of[word] for word in link.compared if word in label_of})
            yield query, [*dict.fromkeys(keys)], compared
