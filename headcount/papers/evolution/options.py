"""Options of a comparison of layers. Needs no torch."""

from dataclasses import dataclass
from typing import Literal, final, get_args

from headcount.core import MAX_TOKENS, InputError, check_known, check_seed

QuantityName = Literal["information", "distance", "neighbours", "influence", "pictures"]
QUANTITIES: tuple[QuantityName, ...] = get_args(QuantityName)
"""Every kind of number, in the order in which they are measured."""


@final
@dataclass(frozen=True)
class EvolutionOptions:
    """Settings of `evolve`, in Python and as options of the command."""

    measure: tuple[QuantityName, ...] = ("information",)
    """What to measure: information (mutual information with tokens), distance (PWCCA and CKA
    between layers and models), neighbours (what the nearest states share), influence (change and
    influence of tokens by frequency and tag), pictures (t-SNE of --words)."""
    occurrences: int = 1000
    """Number of occurrences of each chosen token, as in the paper; rarer tokens are not chosen."""
    types: int = 1000
    """Largest number of chosen tokens, the most frequent first, as in the paper."""
    clusters: int | None = None
    """Number of clusters of mutual information; by default one for every 100 states, as 10,000 for
    the paper's million."""
    sentences: int = 5000
    """Number of sentences for distance and influence, as in the paper."""
    nearest: int = 50
    """Number of nearest states."""
    queries: int = 1000
    """Number of states whose neighbours are searched."""
    pool: int = 50_000
    """Largest number of states among which they are searched."""
    swap: float = 0.0
    """Share of the tokens of each sentence that influence replaces by other tokens of the corpus;
    0.1 in the paper's second experiment."""
    words: tuple[str, ...] = ("is", "are", "was", "were")
    """Words in pictures."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    seed: int = 0
    """Seed of occurrences, clusters, shuffles, swaps and pictures."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not self.measure:
            raise InputError(f"Expected a quantity out of {', '.join(QUANTITIES)}, got none.")
        for name in self.measure:
            check_known("a quantity", name, QUANTITIES)
        lowest = {
            "occurrences": 2,
            "types": 2,
            "sentences": 2,
            "nearest": 1,
            "queries": 1,
            "pool": 3,
            "max_tokens": 1,
        }
        for name, least in lowest.items():
            if (given := getattr(self, name)) < least:
                raise InputError(f"Expected {name} of at least {least}, got {given}.")
        if self.clusters is not None and self.clusters < 2:
            raise InputError(f"Expected at least 2 clusters, got {self.clusters}.")
        if not 0 <= self.swap < 1:
            raise InputError(
                f"Expected a share of swapped tokens of at least 0 and below 1, got {self.swap}."
            )
