"""What remains of a dense model in a pruned one: roles, skills, and heads that a list named."""

from dataclasses import dataclass
from typing import final

from headcount.core import amount


@final
@dataclass(frozen=True)
class Survival:
    """What became of one role."""

    role: str
    """Name of the role."""
    before: int
    """Number of heads with the role in the dense model."""
    stayed: tuple[str, ...]
    """Names of these heads that were kept."""
    kept: tuple[str, ...] | None = None
    """Names of these heads that still have the role after pruning; None if not analysed."""
    taken_over: tuple[str, ...] | None = None
    """Names of heads that have the role only in the pruned model; None if not analysed."""


@final
@dataclass(frozen=True)
class SkillChange:
    """What a pruned model can still do of what the dense one can."""

    skill: str
    """Name of the skill."""
    cases: int
    """Number of texts, needles or prompts."""
    before: float
    """Share that the dense model has right, over cases."""
    after: float
    """The same of the pruned model."""
    low: float
    """Low end of the 95 % interval of the difference, over cases."""
    high: float

    @property
    def is_lost(self) -> bool:
        """Whether less is right, beyond chance."""
        return self.high < 0


@final
@dataclass(frozen=True)
class Unlisted:
    """Pruned heads that a field of the model's configuration listed by number."""

    field: str
    """Name of the field."""
    serves: str
    """What the listed heads are for, in the plural, e.g. `time stamps of words`."""
    heads: tuple[str, ...]
    """Names of the heads that it no longer lists."""
    left: int
    """Number of heads that it still lists, renumbered."""

    @property
    def sentence(self) -> str:
        """What became of the field."""
        gone = f"{', '.join(self.heads)}, which left it"
        if not self.left:
            return f"There are no {self.serves}: `{self.field}` listed only {gone}."
        still = f"The {amount(self.left, 'head')} still listed" if self.left > 1 else "One head"
        return (
            f"{self.serves.capitalize()} differ from the dense model's: `{self.field}` also listed "
            f"{gone}. {still} {'make' if self.left > 1 else 'makes'} them."
        )
