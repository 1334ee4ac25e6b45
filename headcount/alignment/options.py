"""Options of alignment. Needs no torch."""

import re
from dataclasses import dataclass
from typing import final

from headcount.core import (
    MAX_TOKENS,
    InputError,
    check_least,
    check_seed,
)


@final
@dataclass(frozen=True)
class AlignmentOptions:
    """Settings of `align`, in Python and as options of the command."""

    join: str | None = None
    r"""Text between source and target for models that read both in one sequence (\n for a new
    line); by default the tokenizer's own template for pairs."""
    split_punctuation: bool = False
    """Make punctuation marks words of their own; by default only spaces separate words."""
    elements: str | None = None
    """Regular expression that a word must begin with to take part, such as [A-Za-z[] for atoms; by
    default all words do."""
    end_of_source: bool = False
    """Let the end of the source be a candidate of every target word, and drop links to it, as the
    code of Kobayashi et al. (2020) does; for models with cross-attention."""
    compare: tuple[str, ...] = ()
    """Files with links of the same pairs by other aligners, as GIZA++ or eflomal write them
    (0-0 1-2), to score beside the heads."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    samples: int = 1000
    """Number of bootstrap samples of pairs for the intervals."""
    seed: int = 0
    """Seed of the bootstrap samples."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_least(self, max_tokens=1, samples=1)
        try:
            re.compile(self.elements or "")
        except re.error as error:
            raise InputError(
                f"Expected a regular expression for elements, got {self.elements!r} ({error}). "
                "Escape characters that have a meaning with a backslash."
            ) from error
