"""Skills: what the heads of a language model do with needles, tasks and repeated tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import final

from headcount.core import InputError, omitted, sorted_by
from headcount.results import ModelRecord, Result, table
from headcount.vocabulary import SKILLS, SkillEntry


@final
@dataclass(frozen=True)
class SkillRow:
    """The scores of one head.

    Each is a mean with its 95 % interval (Student, `_low` and `_high`), and the same over either
    half of its needles, prompts or texts (`_first` and `_second`).
    """

    head: str
    """Name of the head."""
    retrieval: float
    """Share of an answer that the head copies, over the needles that were found; NaN for none."""
    retrieval_low: float
    retrieval_high: float
    retrieval_first: float
    retrieval_second: float
    function_vector: float
    """By how much the head's mean output in clean few-shot prompts raises the probability of the
    answer in a shuffled one, over the tasks that the model does; NaN if it does none."""
    function_vector_low: float
    function_vector_high: float
    function_vector_first: float
    function_vector_second: float
    induction: float
    """Weight on the token after the earlier copy of the query's own, in repeated random tokens."""
    induction_low: float
    induction_high: float
    induction_first: float
    induction_second: float
    duplicate_token: float
    """Weight on the earlier copy of the query's own token."""
    duplicate_token_low: float
    duplicate_token_high: float
    duplicate_token_first: float
    duplicate_token_second: float
    previous_token: float
    """Weight on the token before."""
    previous_token_low: float
    previous_token_high: float
    previous_token_first: float
    previous_token_second: float
    answers: float = nan
    """Share of what all heads add to an answer from a needle that is asked in other words; NaN if
    the model can't be asked so, and in tables from before version 0.4."""
    answers_low: float = nan
    answers_high: float = nan
    answers_first: float = nan
    answers_second: float = nan


@final
@dataclass(frozen=True)
class OwnSkillRow:
    """The score of one head by a skill on pictures or of a plug-in: numbers as in `SkillRow`."""

    head: str
    """Name of the head."""
    skill: str
    """Name of the skill."""
    score: float
    """Mean over cases."""
    low: float
    high: float
    first: float
    second: float


@final
@dataclass(frozen=True)
class Scored:
    """The score of one head by one skill, with its words."""

    skill: SkillEntry
    head: str
    mean: float
    low: float
    high: float
    first: float
    second: float

    @property
    def said(self) -> str:
        """The score with its interval: `0.97 (0.93 to 1.00)`."""
        show = self.skill.show
        return show(self.mean) + (
            "" if isnan(self.low) else f" ({show(self.low)} to {show(self.high)})"
        )

    @property
    def does(self) -> str:
        """What a head with this score does."""
        return self.skill.does.format(self.said)

    @property
    def is_reached(self) -> bool:
        """Whether the head has the skill."""
        return self.mean >= self.skill.least

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval is above the threshold."""
        return self.low >= self.skill.least


@final
@dataclass(frozen=True)
class RecallRow:
    """How often a model is right without some heads."""

    asked: str
    """What it was asked: `needles`, `answers` (needles in other words), `tasks`, or `questions`
    about pictures."""
    removed: str
    """Which heads are removed: `none`, the best ones by a score, or `random` ones."""
    heads: int
    """Number of removed heads."""
    replaced: str
    """What takes the place of their outputs: `zero`, or their `mean` over the texts."""
    exact: float
    """Share of needles whose answer was produced exactly, or of prompts whose answer was begun."""
    exact_low: float
    """Lower end of the 95 % interval (Wilson)."""
    exact_high: float
    """Upper end."""
    recall: float
    """Mean share of an answer's tokens that were produced; of prompts, the first token alone."""
    cases: int
    """Number of needles or prompts."""


@final
@dataclass(frozen=True)
class TaskRow:
    """One few-shot task: how well the model does it."""

    task: str
    """Name of the task."""
    prompts: int
    """Number of prompts."""
    right: float
    """Share of clean prompts whose likeliest next token begins the answer."""
    right_low: float
    """Lower end of the 95 % interval (Wilson)."""
    right_high: float
    """Upper end."""
    clean: float
    """Mean probability of the answer in clean prompts."""
    shuffled: float
    """The same in shuffled prompts; NaN for a task that is left out."""
    is_done: bool
    """Whether more than half of the answers are right; other tasks are left out of the effects."""


@final
@dataclass(frozen=True)
class NeedleRow:
    """One needle and what the model made of it, with all of its heads."""

    kind: str
    """Kind of the needle."""
    length: int
    """Number of tokens of the prompt."""
    depth: float
    """Place of the needle, as a share of the text: where it stands, between two of its lines."""
    answer: str
    """What the needle says."""
    produced: str
    """What the model said."""
    recall: float
    """Share of the answer's tokens that were produced."""


@final
@dataclass(frozen=True)
class AnswerRow:
    """One needle that was asked in other words, with all heads."""

    kind: str
    """Kind of the needle."""
    length: int
    """Number of tokens of the prompt."""
    depth: float
    """Place of the needle, as a share of the text."""
    answer: str
    """The answer."""
    likeliest: str
    """The likeliest token in place of each of the answer's, behind those before it."""
    is_right: bool
    """Whether that is the answer."""
    is_guessed: bool
    """Whether the model answers from the text without the needle, which then does not count."""
    is_asked: bool
    """Whether the needle's kind counts: at least half of its needles are answered."""


@final
@dataclass(frozen=True)
class PlaceRow:
    """How often some heads together find the part of a picture that a question is about.

    That is, the largest of their summed weights on a picture's tokens, from the token that the
    reply is predicted from, lies on a token of that part.
    """

    by: str
    """Which heads look: the best ones by a score, `random` ones, `all`; or the token that is right
    most often, without looking, `fixed`."""
    heads: int
    """Number of heads."""
    found: float
    """Share of questions."""
    found_low: float
    """Lower end of the 95 % interval (Wilson)."""
    found_high: float
    """Upper end."""
    cases: int
    """Number of questions."""


@final
@dataclass(frozen=True)
class Overlap:
    """How many heads two sets of best heads share."""

    one: str
    """A score."""
    other: str
    """Another score; or the same one, for its best heads on either half of its texts."""
    shared: int
    """Number of heads in both."""
    heads: int
    """Number of heads in each."""
    expected: float
    """Number that two random sets would share."""


@final
@dataclass(frozen=True, kw_only=True)
class SkillsRecord(ModelRecord):
    """Facts about skills that their tables do not hold."""

    FILE = "skills.json"
    COMMAND = "headcount skills"

    start: tuple[str, ...]
    """Tokens in front of every prompt; none for many models."""
    first: tuple[str, ...]
    """Tokens in front of repeated random tokens; none if one more random token stands there."""
    own: tuple[SkillEntry, ...] = field(default=(), metadata={"omitted": True})
    """The words of the skills on pictures and of those of plug-ins."""
    null: float | None = omitted(None)
    """Largest mean score of a head by `answers` if another stretch of the text takes the needle's
    place; None if it was not measured."""
    shuffled: float | None = omitted(None)
    """Largest mean score of a head by `localization` if the tokens of pictures change places; None
    if it was not measured."""
    elsewhere: float | None = omitted(None)
    """Largest mean score of a head by `picture_retrieval` for what other prompts ask about; None if
    it was not measured."""
    overlaps: tuple[Overlap, ...]
    """What the best heads of every two scores have in common, and those of two halves of each,
    an upper limit for the others."""


@final
@dataclass(frozen=True)
class Skills(Result[SkillsRecord]):
    """Scores of every head, and what a model finds without the best ones."""

    DOCUMENTS = ("skills.md", "skills.html")

    record: SkillsRecord
    heads: tuple[SkillRow, ...] = table("skills.parquet", "the skills of heads", key=("head",))
    """A row for each head."""
    recalls: tuple[RecallRow, ...] = table("recalls.parquet", "answers without some heads")
    """A row for each set of removed heads."""
    needles: tuple[NeedleRow, ...] = table("needles.parquet", "what was asked and produced")
    """A row for each needle."""
    tasks: tuple[TaskRow, ...] = table("tasks.parquet", "how well few-shot tasks are done")
    """A row for each few-shot task."""
    answers: tuple[AnswerRow, ...] = table("answers.parquet", "needles in other words", default=())
    """A row for each needle that was asked in other words."""
    own: tuple[OwnSkillRow, ...] = table("own_skills.parquet", "skills of plug-ins", default=())
    """A row for each head and each skill on pictures or of a plug-in."""
    places: tuple[PlaceRow, ...] = table(
        "places.parquet", "which heads find what questions about pictures name", default=()
    )
    """A row for each set of heads that look together."""

    @property
    def is_of_pictures(self) -> bool:
        """Whether prompts with pictures were asked, and no needles."""
        return self.record.shuffled is not None

    @property
    def skills(self) -> Mapping[str, SkillEntry]:
        """Every skill that may have been measured, ours first."""
        return {**SKILLS, **{each.key: each for each in self.record.own}}

    def check_heads(self, folder: Path, heads: Sequence[str]) -> None:
        """Check that the skills are of the model with the analysed heads.

        Raises:
            InputError: if they are of other heads.
        """
        if [row.head for row in self.heads] != [*heads]:
            raise InputError(
                f"Expected skills of the analysed model in {folder}, got those of one with other "
                f"heads ({self.record.model}). Run `headcount skills` again."
            )

    def ranked(self, skill: str) -> list[Scored]:
        """The scores of the heads that have one, the best first."""
        entry = self.skills[skill]
        if skill in SKILLS:
            ends = ("", "_low", "_high", "_first", "_second")
            found = [
                Scored(entry, row.head, *(getattr(row, skill + end) for end in ends))
                for row in self.heads
            ]
        else:
            found = [
                Scored(entry, row.head, row.score, row.low, row.high, row.first, row.second)
                for row in self.own
                if row.skill == skill
            ]
        known = [each for each in found if not isnan(each.mean)]
        return sorted_by(known, lambda each: each.mean, descending=True)

    def does(self) -> Mapping[str, tuple[str, ...]]:
        """What each head does, by the skills whose thresholds it reaches."""
        found: dict[str, tuple[str, ...]] = {row.head: () for row in self.heads}
        for skill in self.skills:
            for each in self.ranked(skill):
                found[each.head] += (each.does,) * each.is_reached
        return found
