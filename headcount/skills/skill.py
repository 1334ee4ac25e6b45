"""A skill of one's own: a score of every head on every case, with its words. Needs no torch.

@headcount.register
class Repeats(headcount.skills.Skill):
    name, does = "repeats", "gives {} of its weight to the token before"
    about, source = "weight on the token before, in repeated texts", "ours"
    least = 0.5

    def scores(self, loaded, texts, seed):
        return array  # [case, head], the heads in the order of loaded.heads
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from headcount import models
from headcount.core import OURS, PluginError, Registry, UnsuitedError, amount, guarded
from headcount.corpora import Corpus
from headcount.vocabulary import PICTURE_SKILLS, SKILLS, SkillEntry

FEWEST_CASES = 4
"""Least number of cases of a skill, two for each half."""


class Skill(ABC):
    """What some heads of a language model can do."""

    registry: ClassVar[str] = "headcount.skills.skill:SKILL_CLASSES"
    name: ClassVar[str]
    """Name of the skill, as `--skills` takes it."""
    does: ClassVar[str]
    """What such a head does, with {} in place of its score."""
    about: ClassVar[str]
    """Meaning of the score, as the end of a sentence about it."""
    source: ClassVar[str]
    """Where the skill and its threshold are described."""
    least: ClassVar[float]
    """Least score of a head that has the skill."""
    has_signs: ClassVar[bool] = False
    """Whether scores lie on both sides of zero."""

    @abstractmethod
    def scores(
        self, loaded: "models.Loaded", texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        """The score of every head, in the order of `loaded.heads`, on each of at least four cases.

        Args:
            loaded: a causal language model with its tokenizer.
            texts: the texts that the command was given.
            seed: seed of what is drawn.
        """

    @classmethod
    def entry(cls) -> SkillEntry:
        """What tables and pages call it."""
        words = (cls.does, cls.about, cls.source)
        return SkillEntry(cls.name, cls.least, *words, has_signs=cls.has_signs)


SKILL_CLASSES: Registry[type[Skill]] = Registry(
    "skills",
    "a skill",
    {
        "retrieval": "headcount.skills.own_skills:Retrieval",
        "answers": "headcount.skills.own_skills:Answers",
        "function_vector": "headcount.skills.own_skills:FunctionVector",
        "induction": "headcount.skills.own_skills:Induction",
        "duplicate_token": "headcount.skills.own_skills:DuplicateToken",
        "previous_token": "headcount.skills.own_skills:PreviousToken",
        "localization": "headcount.skills.own_skills:Localization",
        "picture_retrieval": "headcount.skills.own_skills:PictureRetrieval",
    },
)
"""Every skill by name; the words of those of headcount are in `vocabulary.SKILLS`, and of those on
prompts with pictures in `vocabulary.PICTURE_SKILLS`."""


def scored(
    given: type[Skill] | Skill, loaded: "models.Loaded", texts: Corpus, seed: int
) -> Float[np.ndarray, "case head"]:
    """The scores by a skill, whose code is guarded and whose numbers are checked.

    Raises:
        PluginError: if it fails, lacks words, or returns anything but numbers of all heads.
        UnsuitedError: if the model leaves too few cases.
    """
    origin = SKILL_CLASSES.origin(given)
    if origin != OURS and given.name in {**SKILLS, **PICTURE_SKILLS}:
        raise PluginError(
            f"Expected a new name for a skill of the plug-in {origin}, got {given.name}, which "
            "headcount has. Choose another name."
        )
    words = ("does", "about", "source", "least")
    lost = [each for each in words if getattr(given, each, None) in (None, "")]
    if lost and origin != OURS:
        raise PluginError(
            f"Expected words of the skill {given.name} of the plug-in {origin}, got no "
            f"{' and no '.join(lost)}. Say in them what the numbers mean."
        )
    with models.unchanged(loaded, origin), guarded(origin, f"score heads by {given.name}"):
        skill = given() if isinstance(given, type) else given
        found = np.asarray(skill.scores(loaded, texts, seed))
        heads = len(loaded.heads)
        is_right = found.ndim == 2 and found.shape[1] == heads and found.dtype.kind in "fiu"
        if not is_right or not np.isfinite(found).all():
            raise PluginError(
                f"Expected finite numbers [case, head] of the skill {given.name} of the plug-in "
                f"{origin}, for {amount(heads, 'head')}, got {_seen(found)}. Repair it, or leave "
                "it out."
            )
    if len(found) < FEWEST_CASES:
        raise UnsuitedError(
            f"Expected at least {FEWEST_CASES} cases for the skill {given.name}, got "
            f"{len(found)} with this model. Give it other texts, or leave it out."
        )
    return found.astype(float)


def _seen(found: np.ndarray) -> str:
    """What an array is, and how many of its numbers are none."""
    text = f"{found.dtype} of shape {found.shape}"
    if found.dtype.kind != "f" or np.isfinite(found).all():
        return text
    return f"{text}, of which {amount(int((~np.isfinite(found)).sum()), 'number')} NaN or infinite"
