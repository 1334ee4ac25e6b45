"""Treebanks for probes: sentences with trees that the model reads whole, counted and checked.

Words that share a piece ("did" and "n't" if a piece is "didn"), and those of a multiword token
("zum"), have one state and one row of attention. They are one word of the tree here, written as the
text has it: it takes the head, relation and tag of the one nearest to the root. The arcs of its
others are dropped and counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Int64

from headcount.core import CorpusError, amount
from headcount.corpora import Corpus, Encoded, Encoder, Misread, Sentence, Tree, chunks
from headcount.probing.result import ProbeOptions

PUNCTUATION = "PUNCT"
"""Universal tag of the words that no accuracy counts."""

TOO_LONG = "more than {} words (--max-words)"
TOO_SHORT = "one word, so no arc"
INCOMPLETE = "a word that the model does not see (cut off, or without a piece)"
"""Reasons to leave a sentence out."""

_AT_ONCE = 1000


@final
@dataclass(frozen=True, eq=False)
class ProbeSentence:
    """One sentence with its tree, as a model reads it."""

    words: tuple[str, ...]
    head_W: Int64[np.ndarray, " word"]
    """Index of each word's head; the number of words for the root."""
    relations: tuple[str, ...]
    """Relation of each word to its head."""
    tags: tuple[str, ...]
    """Universal part of speech of each word."""
    encoded: Encoded
    """Its tokens."""
    origin: str
    """File and line, for errors."""
    text: str = ""
    """The sentence as it is read, for errors."""

    @property
    def counts_W(self) -> Bool[np.ndarray, " word"]:
        """Whether each word counts in accuracies: all but punctuation."""
        return np.array([tag != PUNCTUATION for tag in self.tags])


@final
@dataclass(frozen=True, eq=False)
class Treebank:
    """The sentences of some files that probes use, and the numbers of those left out."""

    names: tuple[str, ...]
    """The files."""
    sentences: tuple[ProbeSentence, ...]
    lost: Mapping[str, int]
    """Number of sentences left out, by the reason in words."""
    sha256: str
    """Hash of the files."""
    reading: Mapping[str, str]
    """How words are read, for signatures."""
    arcs_dropped: int = 0
    """Number of arcs of words that share their pieces with one nearer to the root."""
    misread: Misread = Misread()
    """Sentences whose words do not fit their text or the tokenizer's pieces."""

    @property
    def num_words(self) -> int:
        """Number of words in all sentences."""
        return sum(len(each.words) for each in self.sentences)

    def warnings(self, side: str) -> list[str]:
        """A sentence for everything that was left out."""
        total = len(self.sentences) + sum(self.lost.values())
        found = [
            f"{side} sentences left out, {count:,} of {total:,}: {why}"
            for why, count in sorted(self.lost.items())
        ]
        if self.arcs_dropped:
            found.append(
                f"{side} arcs of words that share their pieces with another, left out: "
                f"{self.arcs_dropped:,} of {self.num_words + self.arcs_dropped:,}"
            )
        return [*found, *(f"{side} {warning}" for warning in self.misread.warnings())]


def read_treebank(
    paths: Sequence[str | Path], encoder: Encoder, options: ProbeOptions, limit: int | None
) -> Treebank:
    """Read the sentences of treebank files that have 2 to `max_words` words.

    Raises:
        CorpusError: if a sentence has no tree, relations or tags, or no sentence can be used.
    """
    corpus = Corpus(paths, as_words=options.as_words)
    dropped, misread = 0, Misread()
    found: list[ProbeSentence] = []
    lost: Counter[str] = Counter()
    for sentences in chunks(corpus, _AT_ONCE):
        for sentence in sentences:
            _check(sentence, options)
        fitting = [each for each in sentences if _fits(each, options) is None]
        encoded = iter(encoder.sources(fitting))
        for sentence in sentences:
            if limit is not None and len(found) == limit:
                break
            why = _fits(sentence, options)
            if why is None:
                one = next(encoded)
                misread = misread.add([sentence], [one])
                if one.num_words_cut or one.num_words_lost:
                    why = INCOMPLETE
                elif one.merged is not None and one.merged[-1] == 0:
                    why = TOO_SHORT
                else:
                    found.append(probe_sentence(sentence, one, options.subtypes))
                    dropped += len(sentence.words or ()) - len(found[-1].words)
            if why is not None:
                lost[why] += 1
        if limit is not None and len(found) == limit:
            break
    if len(found) < 2:
        raise CorpusError(
            f"Expected at least 2 sentences of 2 to {amount(options.max_words, 'word')} in "
            f"{', '.join(corpus.names)}, got {len(found)}. Give more files or raise --max-words."
        )
    sha256, signed = corpus.sha256(), corpus.signed
    return Treebank(corpus.names, tuple(found), dict(lost), sha256, signed, dropped, misread)


def overlap(train: Treebank, test: Treebank) -> list[ProbeSentence]:
    """The test sentences whose words are those of a training sentence."""
    known = {each.words for each in train.sentences}
    return [each for each in test.sentences if each.words in known]


def check_no_overlap(train: Treebank, test: Treebank) -> None:
    """Check that no test sentence is a training sentence.

    Raises:
        CorpusError: if one is.
    """
    shared = overlap(train, test)
    if shared:
        example = max(shared, key=lambda each: len(each.words))
        raise CorpusError(
            f"Expected test sentences that are not trained on, but {len(shared):,} of "
            f"{len(test.sentences):,} are also among the training sentences, e.g. "
            f"{example.text!r} ({example.origin}). Remove them, or add --allow-overlap "
            "to test on them all the same."
        )


def _fits(sentence: Sentence, options: ProbeOptions) -> str | None:
    """The reason to leave a sentence out by its number of words; None if there is none."""
    num_words = len(sentence.words or ())
    if num_words > options.max_words:
        return TOO_LONG.format(options.max_words)
    return TOO_SHORT if num_words < 2 else None


def _check(sentence: Sentence, options: ProbeOptions) -> None:
    tree = sentence.tree
    if tree is None:
        raise CorpusError(
            f"{sentence.origin}: expected a sentence with a dependency tree, got running text. "
            "Probes need CoNLL-U files with heads in column 7 and relations in column 8."
        )
    if "_" in tree.relations:
        raise CorpusError(
            f"{sentence.origin}: expected a relation for every word in column 8, got _. Probes "
            "need a treebank with relations."
        )
    if "_" in tree.tags:
        raise CorpusError(
            f"{sentence.origin}: expected a universal part of speech for every word in column 4, "
            "got _. Probes need it to leave out punctuation."
        )


def probe_sentence(sentence: Sentence, encoded: Encoded, subtypes: bool) -> ProbeSentence:
    """A sentence as probes read it, in which merged words are one word of the tree."""
    tree, words = sentence.tree, sentence.words
    assert tree is not None and words is not None
    groups = [*encoded.words_at(len(words)).values()]
    depths = [_depth(tree, word) for word in range(len(words))]
    tops = [min(each, key=depths.__getitem__) for each in groups]
    head_W = np.array([encoded.place(tree.heads[word]) for word in tops], dtype=np.int64)
    head_W[head_W < 0] = len(head_W)
    relations = tuple(tree.relations[word] for word in tops)
    if not subtypes:
        relations = tuple(relation.partition(":")[0] for relation in relations)
    if encoded.merged is not None:
        words = tuple(map(sentence.form, groups))
    tags = tuple(tree.tags[word] for word in tops)
    return ProbeSentence(words, head_W, relations, tags, encoded, sentence.origin, sentence.text)


def _depth(tree: Tree, word: int) -> int:
    """Number of arcs between a word and the root."""
    steps = 0
    while (word := tree.heads[word]) >= 0:
        steps += 1
    return steps
