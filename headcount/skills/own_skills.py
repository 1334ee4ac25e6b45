"""The skills that headcount brings, each by itself, as one of a plug-in is."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from headcount.core import silent
from headcount.corpora import Corpus
from headcount.measures import PATTERNS, RepeatedTokens, pattern_means
from headcount.models import Loaded
from headcount.skills.answers import Inferred
from headcount.skills.function_vectors import Prompts, read_tasks
from headcount.skills.indirect import INDIRECT, Indirect, indirect_needles
from headcount.skills.localization import localize
from headcount.skills.measuring import LENGTH, TEXTS, FewShot, Found
from headcount.skills.needles import Hay, Needles
from headcount.skills.options import SkillOptions
from headcount.skills.picture_retrieval import retrieve_places
from headcount.skills.pictured_prompts import PicturedPrompts
from headcount.skills.skill import Skill
from headcount.vocabulary import PICTURE_SKILLS, SKILLS, SkillEntry


@dataclass(frozen=True)
class OwnSkill(Skill):
    """A skill whose words are in the vocabulary, and whose options are those of the command."""

    options: SkillOptions = SkillOptions()

    @classmethod
    def entry(cls) -> SkillEntry:
        """What tables and pages call it."""
        return {**SKILLS, **PICTURE_SKILLS}[cls.name]

    def asked(self, seed: int) -> SkillOptions:
        """The options, with a seed."""
        return replace(self.options, seed=seed)


class Retrieval(OwnSkill):
    """Cases are needles that the model found."""

    name = "retrieval"

    def scores(  # noqa: D102
        self, loaded: Loaded, texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        needles = Needles(loaded, [each.text for each in texts], self.asked(seed))
        return Found(loaded, needles, silent).score.value_NH


@dataclass(frozen=True)
class Answers(OwnSkill):
    """Cases are needles that the model answered, asked in other words than theirs."""

    name = "answers"
    kinds: Mapping[str, Indirect] = field(default_factory=lambda: INDIRECT)

    def scores(  # noqa: D102
        self, loaded: Loaded, texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        options = self.asked(seed)
        hay = Hay(loaded, [each.text for each in texts], options.chat, options.template)
        needles = [*indirect_needles(hay, options, self.kinds)]
        return Inferred(loaded, needles, silent).score.value_NH


class FunctionVector(OwnSkill):
    """Cases are prompts of the few-shot tasks that the model does."""

    name = "function_vector"

    def scores(  # noqa: D102
        self, loaded: Loaded, texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        prompts = Prompts(loaded, read_tasks(self.options.tasks), self.asked(seed))
        return FewShot(loaded, prompts, self.options, silent).score.value_NH


class Induction(OwnSkill):
    """Cases are texts of repeated random tokens."""

    name = "induction"

    def scores(  # noqa: D102
        self, loaded: Loaded, texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, seed, self.options.first)
        return pattern_means(loaded, tokens)[0][PATTERNS.index(self.name)]


class DuplicateToken(Induction):
    """Cases are texts of repeated random tokens."""

    name = "duplicate_token"


class PreviousToken(Induction):
    """Cases are texts of repeated random tokens."""

    name = "previous_token"


class Localization(OwnSkill):
    """Cases are prompts with pictures."""

    name = "localization"

    def scores(  # noqa: D102
        self, loaded: Loaded, texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        return localize(PicturedPrompts(loaded, texts), loaded.heads, seed).chosen_NH


class PictureRetrieval(OwnSkill):
    """Cases are prompts that ask about a part of a picture."""

    name = "picture_retrieval"

    def scores(  # noqa: D102
        self, loaded: Loaded, texts: Corpus, seed: int
    ) -> Float[np.ndarray, "case head"]:
        found_NH = retrieve_places(PicturedPrompts(loaded, texts)).score_NH
        return found_NH.reshape(-1, len(loaded.heads))
