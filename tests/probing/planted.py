"""Made-up treebanks, and attention and states in which their trees are planted."""

from pathlib import Path

import numpy as np

from headcount.corpora import Encoded
from headcount.probing.extraction import WordMaps, WordStates
from headcount.probing.treebank import ProbeSentence

RELATIONS = ("nsubj", "obj", "det")
TAGS = ("NOUN", "VERB", "PUNCT")


def sentence(num_words: int, generator: np.random.Generator) -> ProbeSentence:
    """A sentence with a random tree; the words say nothing about it."""
    order = generator.permutation(num_words)
    head_W = np.empty(num_words, dtype=np.int64)
    head_W[order[0]] = num_words
    for place, word in enumerate(order[1:], start=1):
        head_W[word] = order[generator.integers(place)]
    relations = tuple(
        "root" if head == num_words else RELATIONS[int(generator.integers(3))] for head in head_W
    )
    tags = tuple(TAGS[int(each)] for each in generator.integers(0, 3, num_words))
    words = tuple(f"w{int(each)}" for each in generator.integers(0, 11, num_words))
    encoded = Encoded([*range(num_words)], [*range(num_words)], [False] * num_words, num_words)
    return ProbeSentence(words, head_W, relations, tags, encoded, "made up:1")


def sentences(count: int, seed: int, longest: int = 9) -> tuple[ProbeSentence, ...]:
    generator = np.random.default_rng(seed)
    return tuple(sentence(int(generator.integers(2, longest)), generator) for _ in range(count))


def maps(
    path: Path, given: tuple[ProbeSentence, ...], heads: int, planted: int | None, seed: int = 5
) -> WordMaps:
    """Random attention; head `planted` puts half of its weight on the head of each word."""
    generator = np.random.default_rng(seed)
    made = WordMaps(path, [len(each.words) for each in given], heads)
    made.open()
    for number, each in enumerate(given):
        size = len(each.words) + 2
        weights = generator.dirichlet(np.ones(size), (size, heads)).transpose(0, 2, 1)
        if planted is not None:
            target = each.head_W.copy()  # the root is the first special token, at place n
            weights[..., planted] /= 2
            weights[np.arange(len(target)), target, planted] += 0.5
        made.of(number)[:] = weights
    return made


def states(
    path: Path, given: tuple[ProbeSentence, ...], planted: bool, width: int = 24, seed: int = 5
) -> WordStates:
    """Two states: noise, then (if planted) noise beside the tree as a sum of unit vectors.

    A word's vector is its head's plus a unit vector of its own. So the squared distance of two
    words is the number of arcs between them.
    """
    generator = np.random.default_rng(seed)
    made = WordStates(path, [len(each.words) for each in given], 2, width)
    made.open()
    for number, each in enumerate(given):
        noise = generator.normal(size=(2, len(each.words), width))
        if planted:
            noise[1, :, : width // 2] = embedded(each.head_W, width // 2)
        made.of(number)[:] = noise
    return made


def embedded(head_W: np.ndarray, width: int) -> np.ndarray:
    """A vector for each word whose squared distances are those in the tree."""
    found = np.zeros((len(head_W), width))
    done = {len(head_W)}
    while len(done) <= len(head_W):
        for word, head in enumerate(head_W):
            if word not in done and head in done:
                found[word] = found[head] if head < len(head_W) else 0
                if head < len(head_W):
                    found[word, word % width] += 1
                done.add(word)
    return found
