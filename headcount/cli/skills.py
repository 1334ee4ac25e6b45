"""`headcount skills`: which heads of a language model retrieve or carry tasks, and what for."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import tyro

from headcount import models, results, skills
from headcount.cli.arguments import CorpusArguments
from headcount.cli.console import Report
from headcount.cli.folder_arguments import BesideArguments
from headcount.cli.frame import BesideCommand, Flat
from headcount.core import DATA
from headcount.corpora import Corpus
from headcount.skills import SkillOptions

SAMPLE = DATA / "sample.conllu"
"""Texts of ours."""


@dataclass(frozen=True)
class SkillsCommand(
    CorpusArguments, BesideArguments, BesideCommand["models.Loaded", "results.Skills"]
):
    """Measure which heads retrieve facts or carry few-shot tasks."""

    RESULT = results.Skills

    texts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT ...")] = ()
    """Files of texts to hide needles in; a sample of ours by default."""
    how: Flat[SkillOptions] = field(default_factory=SkillOptions)

    @cached_property
    def corpus(self) -> Corpus:
        """The texts."""
        return self.read(self.texts or (SAMPLE,))

    def check(self) -> None:
        """Check everything that needs no model, the texts and the tasks included."""
        super().check()
        self.corpus  # noqa: B018
        skills.read_tasks(self.how.tasks)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Skills":
        """Ask for needles and words, and remove heads."""
        return skills.skills(read, self.corpus, self.how, progress=progress)
