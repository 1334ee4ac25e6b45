"""Pictures: the states of some tokens in a plane (t-SNE by scikit-learn), layer by layer.

- `words`: occurrences of some words, such as is, are, was, were;
- `position`: occurrences of the first of them, by their position in the sentence;
- `tags`: tokens of the most frequent tags, if the corpus has any.

The tokens are drawn by themselves, so that no word is missing because it is rare.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
figures 8 and 9, https://arxiv.org/abs/1909.01380; Visualizing Data using t-SNE (van der Maaten and
Hinton, 2008), https://jmlr.org/papers/v9/vandermaaten08a.html
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Int64
from sklearn.manifold import TSNE

from headcount.core import CorpusError
from headcount.papers.evolution.mutual_information import position_bins
from headcount.papers.evolution.record import EvolutionPoint
from headcount.papers.evolution.subjects import Subject
from headcount.papers.evolution.tokens import Occurrences, StateStore, Tokens

MOST_STATES = 100
"""Largest number of states of each word and of each tag."""

MOST_POSITIONS = 300
"""Largest number of states of the word that is shown by position."""

MOST_TAGS = 6

WORDS, POSITION, TAGS = "words", "position", "tags"

_PERPLEXITY = 30.0


@final
@dataclass(frozen=True, eq=False)
class Pictured:
    """The tokens in pictures."""

    occurrences: Occurrences
    """The tokens of all pictures, one after the other."""
    labels: Mapping[str, Sequence[str]]
    """For each picture, what each of its tokens is coloured by."""


def ids_of_words(subject: Subject, words: Sequence[str]) -> dict[int, str]:
    """The token of each word inside a text; words of several tokens have none."""
    pieces = subject.encoder.single_words(list(words))
    return {ids[0]: word for ids, word in zip(pieces, words, strict=True) if len(ids) == 1}


def pictured(subject: Subject, tokens: Tokens, words: Sequence[str], seed: int) -> Pictured:
    """Draw the tokens in pictures.

    Args:
        subject: the model.
        tokens: the corpus.
        words: the words; those that are not in the corpus are left out.
        seed: seed of the draws.

    Raises:
        CorpusError: if fewer than two of the words are in the corpus as one token.
    """
    draws = np.random.default_rng(seed)

    def drawn(is_one_T: np.ndarray, most: int) -> Int64[np.ndarray, " state"]:
        places = np.flatnonzero(is_one_T & tokens.is_content_T)
        return np.sort(draws.choice(places, min(most, len(places)), replace=False))

    of_word = {
        word: drawn(tokens.ids_T == token, MOST_STATES)
        for token, word in ids_of_words(subject, words).items()
    }
    of_word = {word: places for word, places in of_word.items() if len(places)}
    if len(of_word) < 2:
        raise CorpusError(
            f"Expected at least 2 of the words {', '.join(words)} in the corpus as single tokens "
            f"of {subject.loaded.name}, got {len(of_word)}. Give other --words."
        )
    first = drawn(tokens.ids_T == tokens.ids_T[next(iter(of_word.values()))[0]], MOST_POSITIONS)
    counts = np.bincount(tokens.tag_T[tokens.tag_T >= 0], minlength=len(tokens.tags))
    frequent = np.argsort(-counts, kind="stable")[:MOST_TAGS]
    of_tag = {tokens.tags[tag]: drawn(tokens.tag_T == tag, MOST_STATES) for tag in frequent}
    places = np.concatenate([*of_word.values(), first, *of_tag.values()])
    labels = {WORDS: _repeated(of_word), POSITION: _bins(tokens, first), TAGS: _repeated(of_tag)}
    return Pictured(
        Occurrences.at(tokens, places), {name: each for name, each in labels.items() if each}
    )


def _repeated(groups: Mapping[str, Sequence[Any] | np.ndarray]) -> list[str]:
    return [name for name, members in groups.items() for _ in range(len(members))]


def _bins(tokens: Tokens, places: Int64[np.ndarray, " state"]) -> list[str]:
    position_S = Occurrences.at(tokens, places).position_S
    found = np.full(len(places), "", dtype=object)
    for name, is_in_S in position_bins(position_S):
        found[is_in_S] = name
    return [str(each) for each in found]


def picture_points(
    subject: Subject, store: StateStore, states: Pictured, seed: int
) -> Iterator[EvolutionPoint]:
    """The points of every picture and layer."""
    chosen, start = states.occurrences, 0
    tokenizer = subject.encoder.tokenizer
    for picture, labels in states.labels.items():
        numbers = np.arange(start, start + len(labels))
        start += len(labels)
        names = (
            labels
            if picture == WORDS
            else [
                str(tokenizer.decode([int(chosen.token_S[number])])).strip() for number in numbers
            ]
        )
        perplexity = min(_PERPLEXITY, (len(numbers) - 1) / 3)
        for layer in range(store.shape[0]):
            plane = TSNE(init="pca", perplexity=perplexity, random_state=seed)
            found_S2 = plane.fit_transform(store.layer(layer, numbers))
            for place, (x, y) in enumerate(found_S2):
                yield EvolutionPoint(
                    *subject.named,
                    layer=layer,
                    token=names[place],
                    position=int(chosen.position_S[numbers[place]]),
                    x=float(x),
                    y=float(y),
                    picture=picture,
                    label=labels[place],
                )
