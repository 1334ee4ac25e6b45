"""`headcount cache`: which key/value groups of a language model keep the whole cache."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import tyro

from headcount import cache, models, results
from headcount.cache import CacheOptions
from headcount.cli.arguments import CorpusArguments, ModelArguments
from headcount.cli.console import Report
from headcount.cli.folder_arguments import OutArguments
from headcount.cli.frame import Flat, ResultCommand
from headcount.cli.skills import SAMPLE
from headcount.corpora import Corpus

PLAN = "plan.json"
"""Name of the plan in --out."""


@dataclass(frozen=True)
class CacheCommand(
    ModelArguments,
    CorpusArguments,
    OutArguments,
    ResultCommand["models.Loaded", "results.PlannedCache"],
):
    """Choose which key/value groups keep few tokens, and judge that."""

    RESULT = results.PlannedCache

    texts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT ...")] = ()
    """Running text; its first half scores groups, its second half judges the plan; by default a
    sample of ours, with --lengths as long as it allows."""
    how: Flat[CacheOptions] = field(default_factory=CacheOptions)

    @cached_property
    def corpus(self) -> Corpus:
        """The texts."""
        return self.read(self.texts or (SAMPLE,))

    def check(self) -> None:
        """Check everything that needs no model, the texts included."""
        super().check()
        self.corpus  # noqa: B018

    def measure(self, read: "models.Loaded", progress: Report) -> "results.PlannedCache":
        """Score groups, choose, and judge the choice."""
        return cache.plan_cache(read, self.corpus, self.how, progress=progress)

    def store(self, found: "results.PlannedCache") -> None:
        """Write the plan, then tables, record and document."""
        cache.plan_of(found).write(self.out / PLAN)
        super().store(found)

    def next_steps(self, read: "models.Loaded", found: "results.PlannedCache") -> Iterable[str]:
        """How to generate under the plan."""
        yield "Next: generate with such a cache, in Python:"
        yield f'  plan = headcount.cache.CachePlan.read("{self.out / PLAN}")'
        yield "  with headcount.streaming_cache(model, plan) as cache:"
        yield "      model.generate(**inputs, past_key_values=cache)"
