"""Skills: what the heads of a language model do with needles and with repeated tokens."""

from dataclasses import dataclass
from typing import final

from headcount.results.store import Record, Result, table


@final
@dataclass(frozen=True)
class SkillRow:
    """The scores of one head, each a mean in [0, 1] with its 95 % interval (Student)."""

    head: str
    """Name of the head."""
    retrieval: float
    """Share of an answer that the head copies, over the needles that were found; NaN for none."""
    retrieval_low: float
    retrieval_high: float
    retrieval_first: float
    """The same over the first half of the needles alone; NaN if none of them was found."""
    retrieval_second: float
    """Over the second half."""
    induction: float
    """Weight on the token after the earlier copy of the query's own, in repeated random tokens."""
    induction_low: float
    induction_high: float
    duplicate_token: float
    """Weight on the earlier copy of the query's own token."""
    duplicate_token_low: float
    duplicate_token_high: float
    previous_token: float
    """Weight on the token before."""
    previous_token_low: float
    previous_token_high: float


@final
@dataclass(frozen=True)
class RecallRow:
    """How many needles a model finds without some heads."""

    removed: str
    """Which heads are zeroed: `none`, `retrieval` for the best ones, `induction`, or `random`."""
    heads: int
    """Number of zeroed heads."""
    exact: float
    """Share of needles whose answer was produced exactly."""
    exact_low: float
    """Lower end of the 95 % interval (Wilson)."""
    exact_high: float
    """Upper end."""
    recall: float
    """Mean share of an answer's tokens that were produced."""
    needles: int
    """Number of needles."""


@final
@dataclass(frozen=True)
class NeedleRow:
    """One needle and what the model made of it, with all of its heads."""

    kind: str
    """Kind of the needle."""
    length: int
    """Number of tokens of the prompt."""
    depth: float
    """Place of the needle, as a share of the text."""
    answer: str
    """What the needle says."""
    produced: str
    """What the model said."""
    recall: float
    """Share of the answer's tokens that were produced."""


@final
@dataclass(frozen=True)
class Overlap:
    """How many heads two sets of best heads share."""

    one: str
    """A score, or a score on the first half of its texts."""
    other: str
    """Another score, or the same on the second half, which is what chance allows."""
    shared: int
    """Number of heads in both."""
    heads: int
    """Number of heads in each."""
    expected: float
    """Number that two random sets would share."""


@final
@dataclass(frozen=True, kw_only=True)
class SkillsRecord(Record):
    """Facts about skills that their tables do not hold."""

    FILE = "skills.json"
    COMMAND = "headcount skills"

    model: str
    """Name of the model."""
    start: tuple[str, ...]
    """Tokens in front of every prompt; none for many models."""
    first: tuple[str, ...]
    """Tokens in front of repeated random tokens; none if one more random token stands there."""
    overlaps: tuple[Overlap, ...]
    """What the best heads of the scores have in common."""


@final
@dataclass(frozen=True)
class Skills(Result[SkillsRecord]):
    """Scores of every head, and what a model finds without the best ones."""

    DOCUMENTS = ("skills.md",)

    record: SkillsRecord
    heads: tuple[SkillRow, ...] = table("skills.parquet", "the skills of heads", key=("head",))
    """A row for each head."""
    recalls: tuple[RecallRow, ...] = table("recalls.parquet", "needles found without some heads")
    """A row for each set of removed heads."""
    needles: tuple[NeedleRow, ...] = table("needles.parquet", "what was asked and produced")
    """A row for each needle."""
