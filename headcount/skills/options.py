"""Options of the skills of a language model. Needs no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final, get_args

from headcount.core import Count, InputError, Seed, at_least, check_options
from headcount.corpora import check_template
from headcount.skills.skill import SKILL_CLASSES

Kind = Literal["pass key", "city", "gift", "meeting"]
"""A kind of needle."""
Value = Literal["zero", "mean"]
"""What takes the place of a removed head's output: zero, or its mean over the texts."""

FEWEST_PROMPTS = 4
"""Least number of few-shot prompts of a task."""
FEWEST_AGAIN = 2
"""Least number of needles and prompts that are asked again without heads."""
SHORTEST = 100
"""Least number of tokens of a text with a needle."""


@final
@dataclass(frozen=True)
class SkillOptions:
    """Which needles are hidden where, which tasks are asked, and how many heads are removed.

    Raises:
        InputError: for values that can't be used.
    """

    kinds: tuple[Kind, ...] = get_args(Kind)
    """Kinds of needles; all by default."""
    lengths: tuple[int, ...] = (400, 700)
    """Numbers of tokens of the texts in which needles are hidden."""
    depths: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Places of a needle, as shares of its text."""
    needles: Count = 2
    """Number of needles of every kind at each length and depth."""
    prompts: int = 20
    """Number of few-shot prompts of every task."""
    tasks: Path | None = None
    """Folder of .tsv files with more few-shot tasks: a word, a tab and its answer a line."""
    skills: tuple[str, ...] = ()
    """Skills of plug-ins to measure beside ours, by name."""
    removed: Annotated[tuple[int, ...], at_least(1)] = ()
    """How many of the best heads to remove together; by default 5 % of the heads, and on prompts
    with pictures also three."""
    replace: tuple[Value, ...] = ("mean",)
    """What takes the place of removed heads: zero, their mean output over the texts, or both, one
    after the other."""
    again: int = 20
    """Number of needles, and of few-shot prompts, that are asked again without each set of heads;
    more give narrower intervals, in proportion to the time."""
    apart: float = 0.0
    """Keep this share of the heads, the best by the other score, when the best by one are removed:
    0.02 as in Yin and Steinhardt (2025); by default heads that are among both are removed."""
    draws: Count = 3
    """Number of sets of random other heads to remove for comparison."""
    first: str | None = None
    """Token in front of repeated random tokens; by default what the tokenizer puts in front of a
    text, or its BOS token."""
    chat: bool = False
    """Ask for needles in a user's message in the tokenizer's chat template, where the cue begins
    the reply; in raw text by default."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""
    seed: Seed = 0
    """Seed of the needles, the random tokens, the few-shot prompts and the random heads."""

    def __post_init__(self) -> None:
        check_options(self)
        check_template(self.chat, self.template)
        for each in self.skills:
            SKILL_CLASSES.find(each)
        for name in ("kinds", "lengths", "depths", "replace"):
            if not getattr(self, name):
                raise InputError(f"Expected at least one of {name}, got none. Name one.")
        if min(self.lengths) < SHORTEST:
            raise InputError(
                f"Expected lengths of at least {SHORTEST} tokens, got {min(self.lengths)}. A "
                "needle is hidden in more text than its own."
            )
        if not all(0 <= depth <= 1 for depth in self.depths):
            raise InputError(
                f"Expected depths from 0 to 1, got {', '.join(f'{d:g}' for d in self.depths)}. 0.5 "
                "is the middle of the text."
            )
        if self.prompts < FEWEST_PROMPTS:
            raise InputError(
                f"Expected at least {FEWEST_PROMPTS} few-shot prompts of every task, two for each "
                f"half, got {self.prompts}. Leave --prompts out for the default."
            )
        if not 0 <= self.apart <= 0.5:
            raise InputError(
                f"Expected a share of the heads from 0 to 0.5 to leave apart, got {self.apart:g}. "
                "0.02 leaves the best 2 % by the other score."
            )
        if self.again < FEWEST_AGAIN:
            raise InputError(
                f"Expected at least {FEWEST_AGAIN} needles and prompts that are asked again, one "
                f"for each half, got {self.again}. Leave --again out for the default."
            )

    def check(self, heads: int) -> None:
        """Check that the heads to remove exist in a model with this many heads.

        Raises:
            InputError: if it has fewer.
        """
        if max(self.removed, default=0) > heads:
            raise InputError(
                f"Expected numbers of removed heads of at most {heads}, as many as the model has, "
                f"got {max(self.removed)}. Give a smaller --removed."
            )
