"""`headcount cluster`: which heads look at the same places."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, models, probes, results
from headcount.cli.arguments import ParallelArguments
from headcount.cli.console import Report
from headcount.cli.folder_arguments import BesideArguments
from headcount.cli.frame import BesideCommand, Flat
from headcount.corpora import Corpus
from headcount.probes import ClusterOptions


@dataclass(frozen=True)
class Cluster(
    ParallelArguments, BesideArguments, BesideCommand["models.Loaded", "results.Clusters"]
):
    """Group heads that look at the same places."""

    RESULT = results.Clusters

    corpus: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
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
            artifact.read_roles(self.analysis, loaded)
        return loaded

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Clusters":
        """Compare the heads."""
        return probes.cluster(read, self.texts, self.how, progress)
