"""Options of a comparison: the cases to time, and how often. Needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Literal, final

from headcount.core import Count, InputError, at_least, check_options

ModeName = Literal["forward", "generate"]
"""One forward (of a decoder: a prompt), or greedy generation."""


@final
@dataclass(frozen=True)
class Options:
    """The cases to time, and how often, in Python and as options of the command."""

    batch: tuple[int, ...] = (1, 4, 16, 64)
    """Batch sizes, in examples."""
    length: tuple[int, ...] = (32, 128, 512)
    """Example lengths, in tokens; lengths that the model can't take are skipped with a warning."""
    modes: tuple[ModeName, ...] = ()
    """Work to time: one forward (a decoder's prompt) or greedy generation; both by default."""
    new_tokens: Count = 32
    """Number of tokens to generate."""
    rounds: Annotated[int, at_least(2)] = 12
    """Rounds of dense, pruned, dense again, after one to warm up; six cover every order."""
    seed: int = 0
    """Seed of the random tokens."""

    def check_sizes(self) -> None:
        """Raise an error for options that can't be run.

        Raises:
            InputError: If a number is too small, there is nothing to run, or a mode is unknown.
        """
        for name in ("batch", "length"):
            if min(values := getattr(self, name), default=0) < 1:
                found = ", ".join(map(str, values)) or "none"
                raise InputError(f"Expected {name} of at least 1, got {found}.")
        check_options(self)
