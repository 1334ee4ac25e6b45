"""`headcount cluster`: which heads look at the same places."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import artifact, probes, reports, results
from headcount.cli.arguments import CorpusArguments, check_model, recorded
from headcount.cli.beside_arguments import ParallelArguments
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.core import amount
from headcount.probes import ClusterOptions

SHOWN = 5
"""Number of pairs and of groups that are printed."""


def print_clusters(found: "results.Clusters", console: Console) -> None:
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
    print_warnings(record.warnings, console)
    console.print(record.signature, style="dim", soft_wrap=True)


@dataclass(frozen=True)
class Cluster(CorpusArguments, ParallelArguments):
    """Measure the distances between all heads, and group those that look at the same places."""

    RECORD = results.ClustersRecord.FILE
    HAS_TABLES = True

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

    def run(self) -> int:
        """Compare the heads and write everything into `out`."""
        check_model(self.model)
        corpus = self.read(self.corpus, self.source, self.target, self.limit)
        self.claim(results.Clusters, "clusters")
        loaded = self.loaded_beside()
        analysis = self.analysis or (self.out if (self.out / "run.json").exists() else None)
        roles = None if analysis is None else artifact.read_roles(analysis, loaded)
        with shown() as progress:
            found = probes.cluster(loaded, corpus, self.how, progress)
        found.recorded(recorded(self)).write(self.out)
        path = reports.write_clusters_document(self.out, roles)
        print_clusters(found, plain_console(soft_wrap=False))
        return self.finish(path)
