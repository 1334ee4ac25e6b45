"""Skills of the heads of a language model: one row each, with its threshold and its words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class SkillEntry:
    """One skill that heads can have."""

    key: str
    """Column of the score in the table of skills."""
    least: float
    """Least score of a head that has the skill."""
    does: str
    """What such a head does, with a place for its score."""
    about: str
    """Meaning of the score, as the end of a sentence about it."""
    source: str
    """Paper that describes the skill, and where the threshold is from."""
    where: str = ""
    """What it is a score on, behind its label, where measures on other texts are shown, too."""
    has_signs: bool = False
    """Whether scores lie on both sides of zero."""
    digits: int = 2
    """Number of decimals of its scores."""

    def show(self, score: float) -> str:
        """A score as text."""
        return f"{score:z.{self.digits}f}"

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.key.replace("_", " ")


_REPEATED = ", repeated random tokens"
_OLSSON = "Olsson et al., 2022, arXiv:2209.11895; no paper names a threshold"

SKILLS: Mapping[str, SkillEntry] = {
    each.key: each
    for each in (
        SkillEntry(
            "retrieval",
            0.1,
            "copies {} of a needle's answer",
            "share of an answer that the head copies from a needle, over those that were found",
            "Wu et al., 2024, arXiv:2404.15574: 0.1",
        ),
        SkillEntry(
            "answers",
            0.02,
            "adds {} of the answer to a needle that is asked in other words",
            "share of what all heads add to the answer's logit from a needle more than from "
            "elsewhere, where the question shares no word with the needle",
            "Gema et al., 2026 (LOCOS), arXiv:2607.01002, who take the best heads; here a fiftieth",
            has_signs=True,
            digits=3,
        ),
        SkillEntry(
            "function_vector",
            0.01,
            "raises the probability of a few-shot answer by {}",
            "rise of the probability of the answer in a shuffled few-shot prompt by the head's "
            "mean output in clean prompts of the task",
            "Todd et al., 2024, arXiv:2310.15213, who take the best heads; here a point",
            has_signs=True,
            digits=3,
        ),
        SkillEntry(
            "induction",
            0.5,
            "gives {} of its weight to the token after an earlier copy",
            "weight on the token after the earlier copy of the query's own, in repeated random "
            "tokens",
            _OLSSON,
            _REPEATED,
        ),
        SkillEntry(
            "duplicate_token",
            0.5,
            "gives {} of its weight to an earlier copy of the token",
            "weight on the earlier copy of the query's own token, in repeated random tokens",
            _OLSSON,
            _REPEATED,
        ),
        SkillEntry(
            "previous_token",
            0.5,
            "gives {} of its weight to the token before",
            "weight on the token before, in repeated random tokens",
            _OLSSON,
            _REPEATED,
        ),
    )
}
"""Every skill, in the order of tables."""

PICTURE_SKILLS: Mapping[str, SkillEntry] = {
    each.key: each
    for each in (
        SkillEntry(
            "localization",
            0.5,
            "looks at one place of the picture in {} of prompts",
            "share of prompts in which the head, from the token that the reply is predicted from, "
            "is among those that look most at one connected part of the picture",
            "Kang et al., 2025, arXiv:2503.06287, who take the best three; here half of the "
            "prompts",
        ),
        SkillEntry(
            "picture_retrieval",
            0.1,
            "gives {} more of its weight to what a question is about than without the question",
            "weight from the words of a question on the part of the picture that it is about, less "
            'that with "N/A" as the question',
            "Li et al., 2026, arXiv:2605.27243, who take the best 5 %; here 0.1",
            has_signs=True,
        ),
    )
}
"""Skills on prompts with pictures, in the order of tables."""
