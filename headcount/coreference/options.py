"""Options of coreference. Needs no torch."""

from dataclasses import dataclass
from typing import final

from headcount.core import (
    MAX_TOKENS,
    check_least,
    check_seed,
)


@final
@dataclass(frozen=True)
class CoreferenceOptions:
    """Settings of `coreference`, in Python and as options of the command."""

    window: int | None = None
    """Number of tokens in a window of a document; as many as the model takes, at most 512, by
    default."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    samples: int = 1000
    """Number of bootstrap samples of documents for the intervals."""
    as_words: bool = False
    """Read words joined by spaces ("did n't bark ,"), as papers do, instead of the text as it is
    written; CoNLL-2012 has no other text."""
    seed: int = 0
    """Seed of the samples, and of the halves that the best head is chosen and reported on."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_least(self, max_tokens=1, samples=1)
        if self.window is not None:
            check_least(self, window=8)
