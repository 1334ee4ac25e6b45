"""`headcount cluster`: which heads look at the same places."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import artifact, models, probes, results
from headcount.cli.arguments import ParallelArguments
from headcount.cli.console import Report
from headcount.cli.documents import FORMATS, write_documents
from headcount.cli.folder_arguments import BesideArguments
from headcount.cli.frame import BesideCommand
from headcount.core import amount
from headcount.corpora import Corpus
from headcount.probes import ClusterOptions

SHOWN = 5
"""Number of pairs and of groups that are printed."""


@dataclass(frozen=True)
class Cluster(
    ParallelArguments, BesideArguments, BesideCommand["models.Loaded", "results.Clusters"]
):
    """Measure the distances between all heads, and group those that look at the same places."""

    RESULT = results.Clusters

    corpus: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .txt (an example per line), .jsonl, .csv or .parquet (text or messages), .conllu, .tsv
    (source<TAB>target), or hf://dataset?split=train."""
    limit: int | None = None
    """Largest number of sentences to read; all by default."""
    analysis: Path | None = None
    """Folder of `headcount analyze` of this model, whose roles colour the map; --out by default.
    Without one, layers do."""
    how: Annotated[ClusterOptions, tyro.conf.arg(name="")] = field(default_factory=ClusterOptions)

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

    def write_document(self, found: "results.Clusters") -> None:
        """Write the document and the map, coloured by roles."""
        write_documents(found, self.out, FORMATS, self.analysis or self.out)

    def summarize(self, found: "results.Clusters", console: Console) -> None:
        """Print the nearest heads, the largest groups, and the tests of the layers."""
        record, groups = found.record, found.groups
        console.print(
            f"Compared {amount(len(found.places), 'head')} on "
            f"{amount(record.sentences, 'sentence')}: {amount(len(groups), 'group')} "
            f"within {record.within} nats"
        )
        table = Table("nearest heads", "nats", box=None, pad_edge=False)
        for row in found.distances.nsmallest(SHOWN, "distance").to_dict("records"):
            table.add_row(f"{row['head_a']}, {row['head_b']}", f"{row['distance']:.3f}")
        console.print(table)
        largest = [group for group in sorted(groups, key=len, reverse=True) if len(group) > 1]
        for group in largest[:SHOWN]:
            console.print(f"Group of {len(group)}: {', '.join(group)}", soft_wrap=True)
        for test in record.tests:
            console.print(
                f"{test.site}: heads of one layer are {test.same_layer:.3f} nats apart, heads of "
                f"different layers {test.other_layers:.3f} (p = {test.p:.2g}, "
                f"{amount(test.permutations, 'permutation')})",
                soft_wrap=True,
            )
