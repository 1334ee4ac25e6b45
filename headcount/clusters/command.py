"""The command `headcount cluster`."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headcount import clusters, models, results
from headcount.clusters.result import ClusterOptions
from headcount.commands import BesideCommand, CorpusFiles, Flat, ParallelArguments, Report
from headcount.corpora import Corpus

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Cluster(ParallelArguments, BesideCommand["clusters.Clusters"]):
    """The arguments of `headcount cluster`."""

    RESULT = clusters.Clusters

    corpus: CorpusFiles = ()
    """Files of texts or a treebank, as `headcount analyze` reads them."""
    limit: int | None = None
    """Largest number of sentences to read; all by default."""
    analysis: Path | None = None
    """Folder of `headcount analyze` of this model, whose roles colour the map; --out by default.
    Without one, layers do."""
    how: Flat[ClusterOptions] = field(default_factory=ClusterOptions)

    @cached_property
    def texts(self) -> Corpus:
        """The corpus."""
        return self.read(self.corpus, self.source, self.target, self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the corpus included."""
        super().check()
        self.texts  # noqa: B018

    def load(self) -> "models.Loaded":
        """Load the model, and check that the analyses are of exactly this one."""
        loaded = super().load()
        if self.analysis is not None:
            results.read_roles(self.analysis, loaded.heads, models.revision(loaded.model))
        return loaded

    def measure(self, read: "models.Loaded", progress: Report) -> "clusters.Clusters":
        """Compare the heads."""
        return clusters.cluster(read, self.texts, self.how, progress)
