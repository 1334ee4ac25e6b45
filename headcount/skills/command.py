"""The command `headcount skills`."""

from dataclasses import dataclass, field
from functools import cached_property

from headcount import models, skills
from headcount.commands import BesideCommand, CorpusArguments, Flat, Report, TextFiles
from headcount.core import SAMPLE
from headcount.corpora import Corpus
from headcount.skills.options import SkillOptions


@dataclass(frozen=True)
class SkillsCommand(CorpusArguments, BesideCommand["skills.Skills"]):
    """The arguments of `headcount skills`."""

    RESULT = skills.Skills

    texts: TextFiles = ()
    """Files of texts to hide needles in, or prompts with pictures; a sample of ours by default."""
    limit: int | None = None
    """Largest number of texts or prompts to read; all by default."""
    how: Flat[SkillOptions] = field(default_factory=SkillOptions)

    @cached_property
    def corpus(self) -> Corpus:
        """The texts."""
        return self.read(self.texts or (SAMPLE,), limit=self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the texts and the tasks included."""
        super().check()
        self.corpus  # noqa: B018
        skills.read_tasks(self.how.tasks)

    def measure(self, read: "models.Loaded", progress: Report) -> "skills.Skills":
        """Ask for needles and words, and remove heads."""
        return skills.skills(read, self.corpus, self.how, progress=progress)
