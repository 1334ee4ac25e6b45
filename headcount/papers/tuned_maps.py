r"""Tuned maps: how fine-tuning changes attention maps, and which patterns they show.

Every sentence is run through the model before and after fine-tuning. For every map, one per
sentence and head, this gives

$$\cos(A, A') = \frac{\sum_{ij} A_{ij} A'_{ij}}{\sqrt{\sum_{ij} A_{ij}^2 \sum_{ij} A'^2_{ij}}}$$

over all pairs of tokens, its pattern by the rule of `measures/patterns.py` before and after, and
that of the tuned map by a trained classifier.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), sections 4.1 and 4.2, https://arxiv.org/abs/1908.08593
Departure: none in the cosines; for patterns see `pattern_classifier`.

Numbers have intervals by a bootstrap over sentences.

Attention to classes of words: nouns, verbs, pronouns, subjects, objects, negation.

The mean over queries of the weight on all pieces of words of a class, beside the share of tokens
that are such pieces, which is what uniform attention would give.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), section 4.3, https://arxiv.org/abs/1908.08593
Departure: classes come from a treebank's tags and relations, the paper's from a tagger. Queries are
all tokens. Negation is a list of English words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from headcount.core import CorpusError, Head, LayerId, ModelError, amount
from headcount.corpora import Batch, Sentence
from headcount.measures import AttentionReducer, Patterns, Sides, forward, shows_pattern, sides
from headcount.models import Loaded
from headcount.papers.contributions import joined
from headcount.papers.pattern_classifier import PATTERNS, PatternClassifier
from headcount.papers.records import ALL, TunedRow
from headcount.statistics import Bootstrap, Estimate
from headcount.tap import AttentionLayer, Block, Statistics, WholeMap


@final
@dataclass(frozen=True, eq=False)
class MapsOfLayer:
    """What was found of every map of one layer, over a corpus."""

    before_SH: Int[np.ndarray, "sentence head"]
    """Number of the pattern before fine-tuning, by the rule."""
    after_SH: Int[np.ndarray, "sentence head"]
    """Number of the pattern after fine-tuning, by the rule."""
    trained_SH: Int[np.ndarray, "sentence head"]
    """Number of the pattern after fine-tuning, by the classifier."""
    cosine_SH: Float[np.ndarray, "sentence head"]
    """Cosine of the maps before and after fine-tuning."""


def compare_maps(
    before: Loaded,
    after: Loaded,
    batches: Iterable[Batch],
    classifier: PatternClassifier,
    done: Callable[[int], None] = lambda number: None,
) -> dict[LayerId, MapsOfLayer]:
    """Compare the maps of a model before and after fine-tuning.

    The maps of one batch of the first model are held while the second one runs.

    Args:
        before: the model before fine-tuning.
        after: the same model after it.
        batches: the corpus, encoded for both.
        classifier: the trained classifier of patterns.
        done: called with the number of sentences so far.

    Raises:
        ModelError: if the models differ in their heads.
    """
    if before.heads != after.heads:
        raise ModelError(
            f"Expected a model and the same model after fine-tuning, got {before.name} with "
            f"{amount(len(before.heads), 'head')} and {after.name} with {len(after.heads)}. Name "
            "the model that was fine-tuned."
        )
    parts: dict[LayerId, list[MapsOfLayer]] = {}
    number = 0
    for batch in batches:
        first, second = (_run(each, batch) for each in (before, after))
        for place, (maps_BHQK, pattern_BH, its) in second.items():
            old_BHQK, old_pattern_BH, _ = first[place]
            part = MapsOfLayer(
                old_pattern_BH.cpu().numpy(),
                pattern_BH.cpu().numpy(),
                _classified(maps_BHQK, its, classifier),
                _cosine(old_BHQK, maps_BHQK).cpu().numpy(),
            )
            parts.setdefault(place, []).append(part)
        number += len(batch.sentences)
        done(number)
    return {place: joined(each) for place, each in parts.items()}


def _cosine(a_BHQK: Tensor, b_BHQK: Tensor) -> Tensor:
    dot, a, b = (
        (x * y).sum((2, 3)) for x, y in ((a_BHQK, b_BHQK), (a_BHQK, a_BHQK), (b_BHQK, b_BHQK))
    )
    return dot / (a * b).sqrt()


def _classified(
    maps_BHQK: Tensor, its: Sides, classifier: PatternClassifier
) -> Int[np.ndarray, "sentence head"]:
    """The classifier's pattern of each map, without padding."""
    rows = []
    for row, maps_HQK in enumerate(maps_BHQK):
        queries, keys = (int(side.is_token_BN[row].sum()) for side in (its.queries, its.keys))
        rows.append(classifier(maps_HQK[:, :queries, :keys].cpu()))
    return torch.stack(rows).numpy()


def _run(loaded: Loaded, batch: Batch) -> dict[LayerId, tuple[Tensor, Tensor, Sides]]:
    """Maps without the rows of padding, their patterns by the rule, and their tokens, by layer."""
    keeper = _Keeper()
    forward(loaded.model, loaded.anatomy, [batch], keeper)
    return keeper.found


@final
class _Keeper:
    """The tap's listener: keeps the maps of one batch, and finds their patterns."""

    def __init__(self) -> None:
        self.found: dict[LayerId, tuple[Tensor, Tensor, Sides]] = {}

    def start(self, batch: Batch) -> None:
        """Announce the batch."""
        self._batch = batch

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Statistics:
        """Make room for a layer's maps; returns the statistics that the rule needs."""
        its = sides(layer, self._batch.to(value_BHKD.device))
        self._reducer = AttentionReducer(layer, its, None, value_BHKD, Patterns.needs)
        self._map = WholeMap(value_BHKD, num_queries)
        return self._reducer.statistics.with_map()

    def block(self, block: Block) -> None:
        """Keep a block's weights."""
        self._map.add(block)

    def end(self, layer: AttentionLayer) -> None:
        """Find the patterns of a layer's maps."""
        its, maps_BHQK = self._reducer.sides, self._map.weights_BHQK
        pattern_BH = shows_pattern(self._reducer.attention()).long().argmax(-1)
        maps_BHQK *= its.queries.is_token_BN[:, None, :, None]
        self.found[layer.layer_id] = maps_BHQK, pattern_BH, its
        del self._reducer, self._map


def map_rows(found: Mapping[LayerId, MapsOfLayer], bootstrap: Bootstrap) -> Iterator[TunedRow]:
    """Shares of patterns, agreement of rule and classifier, and cosines."""
    for site in dict.fromkeys(place.site for place in found):
        layers = {place.layer: each for place, each in found.items() if place.site == site}
        for layer, each in layers.items():
            yield from _patterns(site, layer, [each], bootstrap)
            yield TunedRow(site, layer, "all", "cosine", "", *_mean(each.cosine_SH, bootstrap))
            for index, cosine_S in enumerate(each.cosine_SH.T):
                name, one = str(Head(site, layer, index)), _mean(cosine_S[:, None], bootstrap)
                yield TunedRow(site, layer, name, "cosine", "", *one)
        every = list(layers.values())
        yield from _patterns(site, ALL, every, bootstrap)
        cosine_SH = np.concatenate([each.cosine_SH for each in every], 1)
        yield TunedRow(site, ALL, "all", "cosine", "", *_mean(cosine_SH, bootstrap))


def _patterns(
    site: str, layer: int, every: Sequence[MapsOfLayer], bootstrap: Bootstrap
) -> Iterator[TunedRow]:
    named = {
        "before": np.concatenate([each.before_SH for each in every], 1),
        "after": np.concatenate([each.after_SH for each in every], 1),
        "trained": np.concatenate([each.trained_SH for each in every], 1),
    }
    for metric, pattern_SH in named.items():
        for number, pattern in enumerate(PATTERNS):
            one = _mean(pattern_SH == number, bootstrap)
            yield TunedRow(site, layer, "all", metric, pattern, *one)
    same = _mean(named["after"] == named["trained"], bootstrap)
    yield TunedRow(site, layer, "all", "agreement", "", *same)
    one = kappa(named["after"], named["trained"], bootstrap)
    yield TunedRow(site, layer, "all", "kappa", "", *one)


def kappa(a_SH: np.ndarray, b_SH: np.ndarray, bootstrap: Bootstrap) -> Estimate:
    """Cohen's kappa: agreement of two labels beyond what their frequencies explain."""
    columns = [a_SH == b_SH]
    for number in range(len(PATTERNS)):
        columns += [a_SH == number, b_SH == number]
    sums_SN = np.stack([each.sum(1) for each in columns], 1).astype(np.float64)
    cases_SN = np.full_like(sums_SN, a_SH.shape[1])
    drawn_RN = np.concatenate(
        [(sums_SN.sum(0) / cases_SN.sum(0))[None], bootstrap.drawn_ratios(sums_SN, cases_SN)]
    )
    chance_R = (drawn_RN[:, 1::2] * drawn_RN[:, 2::2]).sum(1)
    found_R = np.divide(
        drawn_RN[:, 0] - chance_R,
        1 - chance_R,
        out=np.full(len(chance_R), np.nan),
        where=chance_R < 1,
    )
    return bootstrap.interval(float(found_R[0]), found_R[1:], a_SH.size).within(-1.0, 1.0)


def _mean(
    numbers_SH: Float[np.ndarray, "sentence head"] | np.ndarray, bootstrap: Bootstrap
) -> Estimate:
    """The mean of a number over maps."""
    sums_S1 = numbers_SH.sum(1, dtype=np.float64)[:, None]
    (one,) = bootstrap.ratios(sums_S1, np.full_like(sums_S1, numbers_SH.shape[1]))
    return one


WORD_CLASSES = ("noun", "verb", "pronoun", "subject", "object", "negation")

_TAGS = {"noun": ("NOUN", "PROPN"), "verb": ("VERB", "AUX"), "pronoun": ("PRON",)}
_RELATIONS = {"subject": ("nsubj", "csubj"), "object": ("obj", "iobj")}
_NEGATION = frozenset({"not", "n't", "n’t", "no", "never", "neither", "nor", "none", "nothing"})


@final
@dataclass(frozen=True, eq=False)
class WordAttention:
    """Sums by sentence of one layer."""

    weight_SHC: Float[np.ndarray, "sentence head kind"]
    """Sum over queries of the weight on each class."""
    tokens_SC: Float[np.ndarray, "sentence kind"]
    """Number of tokens of each class, times the number of queries over that of tokens."""
    queries_S: Float[np.ndarray, " sentence"]
    """Number of queries."""


def classes_of(sentence: Sentence) -> Float64[np.ndarray, "word kind"]:
    """1 for the classes of each word; a word can have several.

    Raises:
        CorpusError: if the sentence has no tags.
    """
    tree, words = sentence.tree, sentence.words
    if tree is None or words is None or "_" in tree.tags:
        raise CorpusError(
            f"{sentence.origin}: expected words with tags and relations (columns UPOS and DEPREL), "
            "which say what class a word is of, got none. Give a treebank."
        )
    found_WC = np.zeros((len(words), len(WORD_CLASSES)))
    for w, (word, tag, relation) in enumerate(zip(words, tree.tags, tree.relations, strict=True)):
        kind = relation.partition(":")[0]
        for c, name in enumerate(WORD_CLASSES):
            is_one = tag in _TAGS.get(name, ()) or kind in _RELATIONS.get(name, ())
            found_WC[w, c] = is_one or (name == "negation" and word.lower() in _NEGATION)
    return found_WC


def attention_to_words(loaded: Loaded, batches: Iterable[Batch]) -> dict[LayerId, WordAttention]:
    """Measure attention to classes of words in a treebank, for every layer of an encoder.

    Args:
        loaded: a model that reads one text, or the encoder of one that reads two.
        batches: the treebank.

    Raises:
        CorpusError: if a sentence has no tags.
    """
    parts: dict[LayerId, list[WordAttention]] = {}
    listener = _Words()

    def keep(batch: Batch) -> None:
        tokens_BC = listener.is_class_BNC.sum(1).cpu().numpy()
        queries_B = batch.source.is_token_BN.sum(1).double().cpu().numpy()
        for place, weight_BHC in listener.weights.items():
            part = WordAttention(weight_BHC.cpu().numpy(), tokens_BC, queries_B)
            parts.setdefault(place, []).append(part)

    forward(loaded.model, loaded.anatomy, batches, listener, keep)
    return {place: joined(each) for place, each in parts.items()}


@final
class _Words:
    """The tap's listener: sums the weights on classes of words, in layers over the source."""

    weights: dict[LayerId, Tensor]
    """Sums over queries in the batch, of every layer over the source."""

    def start(self, batch: Batch) -> None:
        """Find the classes of a batch's tokens."""
        self._batch = batch
        word_BN = batch.source.word_BN
        self.is_class_BNC = torch.zeros(*word_BN.shape, len(WORD_CLASSES), dtype=torch.float64)
        for row, sentence in enumerate(batch.sentences):
            classes_WC = torch.from_numpy(classes_of(sentence))
            for place, words in batch.words_at(row).items():  # merged words have all classes
                self.is_class_BNC[row, word_BN[row] == place] = classes_WC[words].amax(0)
        self.weights = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Tensor | None:
        """Return a column for each class."""
        rows, heads, keys, _ = value_BHKD.shape
        if num_queries != keys or keys != self.is_class_BNC.shape[1]:
            return None
        self.weights[layer.layer_id] = torch.zeros(
            rows, heads, len(WORD_CLASSES), dtype=torch.float64
        )
        return self.is_class_BNC[:, None].expand(-1, heads, -1, -1).to(value_BHKD)

    def block(self, block: Block) -> None:
        """Add the weights of a block's queries."""
        into = self.weights.get(block.layer.layer_id)
        if into is None:
            return
        is_query_BQ = self._batch.source.is_token_BN[block.rows, block.queries]
        is_query_BQ = is_query_BQ.to(block.masses_BHQC.device)
        mass_BHC = (block.masses_BHQC * is_query_BQ[:, None, :, None]).sum(2)
        into[block.rows, block.heads] += mass_BHC.double().cpu()

    def end(self, layer: AttentionLayer) -> None:
        """Do nothing."""


def word_rows(
    metric: str, found: Mapping[LayerId, WordAttention], bootstrap: Bootstrap
) -> Iterator[TunedRow]:
    """Mean attention to every class of words, by layer and over all layers; `words`: its share."""
    for site in dict.fromkeys(place.site for place in found):
        layers = {place.layer: each for place, each in found.items() if place.site == site}
        for layer, each in [*layers.items(), (ALL, None)]:
            some = list(layers.values()) if each is None else [each]
            weight_SC = sum((one.weight_SHC.sum(1) for one in some), start=np.zeros(1))
            heads = sum(one.weight_SHC.shape[1] for one in some)
            queries_SC = np.repeat(some[0].queries_S[:, None] * heads, len(WORD_CLASSES), 1)
            estimates = bootstrap.ratios(weight_SC, queries_SC)
            for name, one in zip(WORD_CLASSES, estimates, strict=True):
                yield TunedRow(site, layer, "all", metric, name, *one)
        first = next(iter(layers.values()))
        queries_SC = np.repeat(first.queries_S[:, None], len(WORD_CLASSES), 1)
        if metric == "words-after":
            shares = bootstrap.ratios(first.tokens_SC, queries_SC, shares=True)
            for name, one in zip(WORD_CLASSES, shares, strict=True):
                yield TunedRow(site, ALL, "all", "words", name, *one)
