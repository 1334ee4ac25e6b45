"""Options of the choice of a cache's plan. Needs no torch."""

from dataclasses import dataclass
from typing import Literal, final

from headcount.cache.plan import RECENT, SINK
from headcount.core import InputError, amount, check_choice, check_seed
from headcount.skills import SHORTEST

ScoreName = Literal["kvpress", "retrieval", "distance", "both", "random"]
"""Scores of key/value groups."""


@final
@dataclass(frozen=True)
class CacheOptions:
    """How groups are chosen, and which questions judge the choice.

    Raises:
        InputError: for values that can't be used.
    """

    stream: float = 0.5
    """Share of the key/value groups that keep the first and the last tokens only."""
    score: ScoreName = "kvpress"
    """What groups with all tokens are chosen by: kvpress's estimate of what far keys weigh, the
    retrieval of needles, the distance of their output, the mean rank by these two, or chance."""
    sink: int = SINK
    """Number of first tokens that a streaming group keeps."""
    recent: int = RECENT
    """Number of last tokens that it keeps."""
    scored: tuple[int, ...] = (400, 700)
    """Numbers of tokens of the prompts with needles that score retrieval."""
    lengths: tuple[int, ...] = ()
    """Numbers of tokens of the texts with other needles that judge the plan; by default 1000 and
    2000, or half and all of what TEXT and the model allow."""
    per_length: int = 8
    """Number of texts of each of these lengths."""
    needles: int = 10
    """Number of needles in each."""
    sentences: int = 3
    """Number of questions for the next sentence in each."""
    draws: int = 1
    """Number of random plans that the plan is compared with."""
    chat: bool = False
    """Whether needles are hidden in a user's message in the tokenizer's chat template; in raw text
    by default."""
    seed: int = 0
    """Seed of the needles, of the questions and of the random plans."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_choice("a score of groups", self.score, ScoreName)
        if not 0 < self.stream <= 1:
            raise InputError(
                f"Expected a share of streaming groups above 0 and at most 1, got {self.stream:g}. "
                "0.5 lets half of them stream."
            )
        for name in ("sink", "recent", "per_length", "needles", "sentences", "draws"):
            least = 2 if name == "per_length" else 1  # intervals are over texts
            if (number := getattr(self, name)) < least:
                raise InputError(
                    f"Expected {name} of at least {least}, got {number}. Leave it out for the "
                    "default."
                )
        if min(self.scored, default=0) < SHORTEST:
            raise InputError(
                f"Expected numbers of tokens from {SHORTEST} in scored, got "
                f"{', '.join(map(str, self.scored)) or 'none'}. A needle is hidden in more text "
                "than its own."
            )
        if min(self.lengths, default=sum(self.window) + 1) <= sum(self.window):
            raise InputError(
                f"Expected lengths above the {self.sink} + {amount(self.recent, 'token')} that a "
                f"streaming group keeps, got {min(self.lengths)}. A plan can't be judged on what "
                "it keeps: give longer texts and --lengths, or a smaller --recent."
            )

    @property
    def window(self) -> tuple[int, int]:
        """The numbers of first and of last tokens that a streaming group keeps."""
        return self.sink, self.recent
