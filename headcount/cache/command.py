"""The command `headcount cache`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from headcount import cache, models
from headcount.cache.plan import CacheOptions
from headcount.commands import (
    CorpusArguments,
    Flat,
    ModelArguments,
    OutArguments,
    Report,
    ResultCommand,
    TextFiles,
)
from headcount.core import SAMPLE
from headcount.corpora import Corpus

if TYPE_CHECKING:
    Pair = tuple[models.Loaded, models.Loaded]
    """The dense model and the pruned one."""


PLAN = "plan.json"
"""Name of the plan in --out."""


@dataclass(frozen=True)
class CacheCommand(
    ModelArguments,
    CorpusArguments,
    OutArguments,
    ResultCommand["models.Loaded", "cache.PlannedCache"],
):
    """The arguments of `headcount cache`."""

    RESULT = cache.PlannedCache

    texts: TextFiles = ()
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

    def measure(self, read: "models.Loaded", progress: Report) -> "cache.PlannedCache":
        """Score groups, choose, and judge the choice."""
        return cache.plan_cache(read, self.corpus, self.how, progress=progress)

    def store(self, found: "cache.PlannedCache") -> None:
        """Write the plan, then tables and record."""
        cache.plan_of(found).write(self.out / PLAN)
        super().store(found)

    def next_steps(self, read: "models.Loaded", found: "cache.PlannedCache") -> Iterable[str]:
        """How to generate under the plan."""
        yield "Next: generate with such a cache, in Python:"
        yield f"  loaded = headcount.load({self.model!r})"
        yield '  inputs = loaded.tokenizer("Once upon a time", return_tensors="pt")'
        yield f"  plan = headcount.CachePlan.read({str(self.out / PLAN)!r})"
        yield "  with headcount.streaming_cache(loaded, plan) as cache:"
        yield '      how = {"past_key_values": cache, "max_new_tokens": 50}'
        yield "      output = loaded.model.generate(**inputs, **how)"
