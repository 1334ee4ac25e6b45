"""Options of clusters. Needs no torch."""

from dataclasses import dataclass
from math import log
from typing import final

from headcount.core import (
    MAX_TOKENS,
    InputError,
    check_least,
    check_seed,
    check_window,
)


@final
@dataclass(frozen=True)
class ClusterOptions:
    """Settings of `cluster`, in Python and as options of the command."""

    within: float = 0.1
    """Largest distance in nats between two heads of a group; 0.69 is the largest there is."""
    windows: bool = False
    """Read sentences that are too long for the model in windows that overlap by half, instead of
    truncating them; not for encoder-decoders."""
    window: int | None = None
    """The same, with windows of this number of tokens, special ones included; without it they are
    as long as the model takes."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    max_weights: int = 32_000_000
    """Number of attention weights, 4 bytes each, that are held at once; texts that need more are
    run several times."""
    pool: int = 2000
    """Number of sentences sorted by length at a time; a larger pool needs less padding."""
    permutations: int = 10_000
    """Number of permutations in the test whether heads of one layer are near each other."""
    seed: int = 0
    """Seed of the permutations and of the map in two dimensions."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_window(self.window)
        if not 0 <= self.within <= log(2):
            raise InputError(
                f"Expected a largest distance within groups from 0 to {log(2):.2f} nats, got "
                f"{self.within}. Give a smaller one."
            )
        check_least(self, max_tokens=1, max_weights=1, pool=1, permutations=1)
