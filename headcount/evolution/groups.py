"""Groups of tokens: by frequency and by universal part of speech."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int64

from headcount.evolution.tokens import Occurrences, Tokens

NUM_BINS = 5
"""Number of bins of frequency, with about as many tokens of text in each."""


def frequency_bins(
    tokens: Tokens, chosen: Occurrences
) -> Iterator[tuple[str, Bool[np.ndarray, " state"]]]:
    """Names of the bins, the rarest first, and which occurrences are in each.

    Edges are quantiles of the corpus frequency over the occurrences. All occurrences of a token are
    in one bin, so bins are only about equally large.
    """
    count_S = tokens.counts()[chosen.token_S]
    edges = np.unique(np.quantile(count_S, np.linspace(0, 1, NUM_BINS + 1)[1:-1], method="lower"))
    bin_S = np.searchsorted(edges, count_S, side="left")
    for number in np.unique(bin_S):
        is_in_S = bin_S == number
        low, high = count_S[is_in_S].min(), count_S[is_in_S].max()
        yield f"frequency {low}-{high}", is_in_S


def groups_of(
    tokens: Tokens, chosen: Occurrences
) -> Iterator[tuple[str, Bool[np.ndarray, " state"]]]:
    """All groups: bins of frequency, then tags if the corpus has them."""
    yield from frequency_bins(tokens, chosen)
    for number, tag in enumerate(tokens.tags):
        yield f"tag {tag}", chosen.tag_S == number


def spread(is_in_S: Bool[np.ndarray, " state"], most: int, seed: int) -> Int64[np.ndarray, " some"]:
    """Up to a number of the states of a group, drawn without replacement."""
    numbers = np.flatnonzero(is_in_S)
    if len(numbers) <= most:
        return numbers
    return np.sort(np.random.default_rng(seed).choice(numbers, most, replace=False))
