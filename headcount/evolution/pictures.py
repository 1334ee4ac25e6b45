"""Pictures: the states of chosen words in a plane (t-SNE by scikit-learn), layer by layer.

Reference: Visualizing Data using t-SNE (van der Maaten and Hinton, 2008),
https://jmlr.org/papers/v9/vandermaaten08a.html
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.manifold import TSNE

from headcount.core import CorpusError
from headcount.evolution.state_store import StateStore
from headcount.evolution.subjects import Subject

MOST_STATES = 100
"""Largest number of states of each word."""

_PERPLEXITY = 30.0


def ids_of_words(subject: Subject, words: Sequence[str]) -> dict[int, str]:
    """The token of each word inside a text; words of several tokens have none."""
    pieces = subject.encoder.single_words(list(words))
    return {ids[0]: word for ids, word in zip(pieces, words, strict=True) if len(ids) == 1}


def picture_points(
    subject: Subject, store: StateStore, words: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """The points of every layer, as fields of points.

    Raises:
        CorpusError: if fewer than two of the words are among the chosen tokens.
    """
    chosen, names = store.occurrences, ids_of_words(subject, words)
    numbers = [np.flatnonzero(chosen.token_S == token)[:MOST_STATES] for token in names]
    present = [each for each in numbers if len(each)]
    if len(present) < 2:
        raise CorpusError(
            f"Expected at least 2 of the words {', '.join(words)} among the chosen tokens of "
            f"{subject.loaded.name}, got {len(present)}. Give other --words, or lower "
            "--occurrences."
        )
    drawn = np.concatenate(present)
    perplexity = min(_PERPLEXITY, (len(drawn) - 1) / 3)
    for layer in range(store.shape[0]):
        plane = TSNE(init="pca", perplexity=perplexity, random_state=seed)
        found_S2 = plane.fit_transform(store.layer(layer, drawn))
        for number, (x, y) in zip(drawn, found_S2, strict=True):
            yield {
                "layer": layer,
                "token": names[int(chosen.token_S[number])],
                "position": int(chosen.position_S[number]),
                "x": float(x),
                "y": float(y),
            }
