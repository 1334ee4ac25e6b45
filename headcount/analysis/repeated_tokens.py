"""Traits of causal models on repeated random tokens, as rows of a profile.

The cells are not chosen: each head is tested for induction and for duplicate tokens. As everywhere
else one half of the texts decides which cells are tested and the other half tests them. The null is
the weight on the same place where nothing is repeated; a perfect head has a weight of 1.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from headcount.analysis.profile_cells import Cells, ProfileRow, profile_frame
from headcount.analysis.roles import find_roles
from headcount.core import Steps, silent_steps
from headcount.measures import PATTERNS, RepeatedTokens, interval, pattern_means
from headcount.models import Loaded
from headcount.results import Cell
from headcount.statistics import ClusteredRates
from headcount.vocabulary import PREVIOUS, REPEATED, Thresholds

LENGTH, TEXTS = 25, 64
"""Number of tokens in a text, and number of texts: half of them are as many as a test needs."""


def repeated_profiles(loaded: Loaded, seed: int = 0, steps: Steps = silent_steps) -> pd.DataFrame:
    """One row per head and trait, untested: see `judged`.

    Args:
        loaded: a causal language model.
        seed: seed of the random tokens.
        steps: called with the number of sequences so far, and of all.

    Raises:
        ModelError: if the model takes too few tokens or has too small a vocabulary.
    """
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, seed)
    return _profiles(loaded, tokens, *pattern_means(loaded, tokens, steps))


def repeated_roles(
    loaded: Loaded, seed: int = 0, steps: Steps = silent_steps
) -> dict[str, list[str]]:
    """Roles of every head on repeated random tokens, by head name: those of `REPEATED_ROLES`.

    Induction and duplicate are those of `analyze`. A head is `previous` if the lower end of
    Student's 95 % interval of its weight on the token before is at least `induction_share`.

    Args:
        loaded: a causal language model.
        seed: seed of the random tokens.
        steps: called with the number of sequences so far, and of all.

    Raises:
        ModelError: if the model takes too few tokens or has too small a vocabulary.
    """
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, seed)
    repeated_PTH, other_PTH = pattern_means(loaded, tokens, steps)
    found = find_roles(_profiles(loaded, tokens, repeated_PTH, other_PTH))
    low_H, _, _ = interval(repeated_PTH[PATTERNS.index("previous_token")])
    least = Thresholds().induction_share
    return {
        str(head): [*(role.role for role in found[str(head)]), *[PREVIOUS] * bool(low >= least)]
        for head, low in zip(loaded.heads, low_H, strict=True)
    }


def _profiles(
    loaded: Loaded, tokens: RepeatedTokens, repeated_PTH: np.ndarray, other_PTH: np.ndarray
) -> pd.DataFrame:
    rows = [
        ProfileRow(head, trait, cell)
        for trait in REPEATED
        for head, cell in zip(
            loaded.heads,
            _cells(
                repeated_PTH[PATTERNS.index(trait.skill)],
                other_PTH[PATTERNS.index(trait.skill)],
                tokens.length,
            ),
            strict=True,
        )
    ]
    return profile_frame(rows)


def _cells(repeated_TH: np.ndarray, other_TH: np.ndarray, length: int) -> Iterator[Cell]:
    """One trait's numbers, head by head."""
    middle = len(repeated_TH) // 2
    gain_TH, null_H = (repeated_TH - other_TH)[middle:], other_TH[middle:].mean(0)
    units = len(gain_TH)
    rates = ClusteredRates(gain_TH.mean(0) + null_H, gain_TH.std(0, ddof=1) / np.sqrt(units), units)
    return Cells(
        rates,
        chance=null_H,
        position_null=np.nan,
        first_share=repeated_TH[:middle].mean(0),
        first_null=other_TH[:middle].mean(0),
        cases=units * length,
        paper_share=repeated_TH.mean(0),
    ).each()
