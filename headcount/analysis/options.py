"""Options of an analysis. Needs no torch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headcount.core import (
    MAX_TOKENS,
    InputError,
    KernelName,
    Seed,
    brief_repr,
    check_options,
    check_window,
)
from headcount.corpora import check_limit
from headcount.vocabulary import SOUND, TEXTS, Inputs, Thresholds


@final
@dataclass(frozen=True)
class Options:
    """Settings of `analyze`, in Python and as options of the command.

    The defaults are the papers' definitions.
    """

    __repr__ = brief_repr

    frequencies: Path | None = None
    """File of `word count` lines that defines rare words; by default counted on the corpus."""
    null: bool = False
    """Also measure a random-weight copy of the model."""
    induction: bool = True
    """Causal models: test every head on repeated random tokens, for induction heads."""
    strict: bool = False
    """Refuse sentences that are too long for the model instead of truncating and counting them."""
    windows: bool = False
    """Read sentences that are too long for the model in windows that overlap by half, instead of
    truncating them; not for encoder-decoders."""
    window: int | None = None
    """Length of these windows in tokens, special ones included (--windows is implied); by default
    as many as the model takes."""
    language: str | None = None
    """Language spoken in recordings, for multilingual Whispers; by default the model's own setting,
    or what it hears."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    limit_tokens: int | None = None
    """Largest number of tokens to read; reading stops before a text that would exceed it."""
    pool: int = 2000
    """Number of sentences sorted by length at a time; a larger pool needs less padding."""
    save_every: float = 30.0
    """Seconds between two saves of the sums, the most work that a kill can lose."""
    seed: Seed = 0
    """Seed of the random-weight copy, and of the random tokens for causal models."""
    exclude_keys: bool = True
    """Exclude special tokens from the keys of confidence."""
    exclude_queries: bool = True
    """Exclude special tokens from the queries that confidence averages over."""
    kernel: KernelName = "auto"
    """What computes attention: blocks of torch's operations, one compiled sweep, which needs the
    extra fast, or triton on a GPU; by default the sweep for long texts, if it is installed."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds for assigning roles; the papers' values by default."""

    def __post_init__(self) -> None:
        check_options(self)
        check_window(self.window)
        check_limit(self.limit_tokens, "token")
        if self.strict and (self.windows or self.window is not None):
            raise InputError(
                "Expected one of --strict and --windows, got both. Give --windows to read "
                "sentences that are too long, or --strict to refuse them."
            )

    @property
    def special(self) -> str | None:
        """The sides on which special tokens count in confidence: keys, queries or both."""
        sides = {"keys": self.exclude_keys, "queries": self.exclude_queries}
        return "+".join(side for side, excluded in sides.items() if not excluded) or None

    def check_fit(self, inputs: Inputs) -> None:
        """Check that no option is set that does not affect a kind of input.

        Raises:
            InputError: for the first one that is.
        """
        of_texts = ("frequencies", "strict", "windows", "window", "limit_tokens")
        affect = {**dict.fromkeys(of_texts, TEXTS), "language": SOUND}
        for name, kind in affect.items():
            if getattr(self, name) and inputs is not kind:
                raise InputError(
                    f"--{name.replace('_', '-')} only affects {kind.unit}s, but the corpus is "
                    f"{inputs.unit}s. Leave the option out."
                )
