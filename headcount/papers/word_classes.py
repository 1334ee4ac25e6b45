"""Attention to classes of words: nouns, verbs, pronouns, subjects, objects, negation.

The mean over queries of the weight on all pieces of words of a class, beside the share of tokens
that are such pieces, which is what uniform attention would give.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), section 4.3, https://arxiv.org/abs/1908.08593
Departure: classes come from a treebank's tags and relations, the paper's from a tagger. Queries are
all tokens. Negation is a list of English words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from headcount.analysis import forward
from headcount.core import CorpusError, LayerId
from headcount.corpora import Batch, Sentence
from headcount.models import Loaded
from headcount.papers.batches import joined
from headcount.tap import AttentionLayer, Block

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
