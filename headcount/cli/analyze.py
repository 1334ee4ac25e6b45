"""`headcount analyze`: what every head does on a corpus."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from headcount import analysis, importance, models, reports, results
from headcount.cli.console import check_no_unused_options, plain_console, to_jsonable
from headcount.cli.model_arguments import ModelArguments, check_model
from headcount.cli.progress import shown
from headcount.cli.task_arguments import check_data
from headcount.core import ResumePolicy, check_seed, is_main_process, wait_for_everyone
from headcount.corpora import Corpus
from headcount.results import Thresholds

SHOWN = 3
"""Number of heads named for each role."""


def print_summary(found: "results.Analysis", console: Console) -> None:
    """Print how many heads have each role, with the clearest heads and their evidence."""
    roles, record = found.roles, found.record
    console.print(
        f"Analysed {len(roles)} heads on {record.counts.sentences:,} sentences, "
        f"{record.counts.tokens:,} tokens "
        f"({record.timings['sentences_per_s']:,.0f} sentences/s)"
    )
    table = Table("role", "heads", "clearest", "evidence", box=None, pad_edge=False)
    for name in analysis.ROLES:
        having = [(each, head) for head in roles for each in roles[head] if each.role == name]
        having.sort(key=lambda pair: -pair[0].score)
        heads = ", ".join(head for _, head in having[:SHOWN])
        evidence = having[0][0].evidence if having else "none found"
        table.add_row(name, str(len(having)), heads, evidence)
    without = sum(not each for each in roles.values())
    table.add_row("no role", str(without), "", "")
    console.print(table)
    for warning in record.warnings:
        console.print(f"warning: {warning}", style="yellow")
    console.print(record.signature, style="dim", soft_wrap=True)


@dataclass(frozen=True)
class Analyze(ModelArguments):
    """Measure what every attention head does on a corpus; write tables, roles and a report."""

    corpus: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Files: .txt (an example per line), .jsonl (field text), .conllu, .tsv (source<TAB>target)."""
    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --resume or --overwrite is given."""
    source: Path | None = None
    """One side of a parallel text (.txt or .conllu)."""
    target: Path | None = None
    """The other side, line by line; by default the model's own greedy translation."""
    pairs: bool = False
    """Read source and target as one input, as BERT reads GLUE's pairs; not for encoder-decoders."""
    limit: int | None = None
    """Largest number of sentences to read; all by default."""
    frequencies: Path | None = None
    """File of `word count` lines that defines rare words; by default counted on the corpus."""
    null: bool = False
    """Also measure a random-weight copy of the model."""
    strict: bool = False
    """Refuse sentences that are too long for the model instead of truncating and counting them."""
    resume: bool = False
    """Resume an interrupted run in --out; no sentence is counted twice."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    max_tokens: int = 4096
    """Number of padded tokens in a batch; lower it if memory runs out."""
    window: int = 2000
    """Number of sentences sorted by length at a time; a larger window needs less padding."""
    save_every: float = 30.0
    """Seconds between two saves of the sums, the most work that a kill can lose."""
    seed: int = 0
    """Seed of the random-weight copy."""
    exclude_keys: bool = True
    """Exclude special tokens from the keys of confidence."""
    exclude_queries: bool = True
    """Exclude special tokens from the queries that confidence averages over."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds for assigning roles; the papers' values by default."""

    def run(self) -> int:
        """Run the analysis and write everything into `out`."""
        policy = ResumePolicy.of(self.resume, self.overwrite)
        if not self.null:
            check_no_unused_options(self, "seed", "the random-weight copy", "Add --null")
        check_seed(self.seed)
        check_model(self.model)
        if self.frequencies is not None:
            check_data([self.frequencies])
        corpus = Corpus(self.corpus, self.source, self.target, self.limit, pairs=self.pairs)
        if is_main_process():
            results.claim(self.out, policy)
        wait_for_everyone()
        loaded = self.loaded()
        if self.resume:  # keeps the scores in the folder
            importance.check_same_scores(self.out, models.revision(loaded.model))
        if is_main_process() and policy is ResumePolicy.OVERWRITE:
            results.start_over(self.out)
        wait_for_everyone()
        with shown() as progress:
            found = analysis.analyze(loaded, corpus, self._options(), self.out, progress)
        if is_main_process():
            self._write(found)
        wait_for_everyone()
        return 0

    def _options(self) -> "analysis.Options":
        return analysis.Options(
            frequencies=self.frequencies,
            null=self.null,
            strict=self.strict,
            max_tokens=self.max_tokens,
            window=self.window,
            save_every=self.save_every,
            seed=self.seed,
            exclude_keys=self.exclude_keys,
            exclude_queries=self.exclude_queries,
            thresholds=self.thresholds,
        )

    def _write(self, found: "results.Analysis") -> None:
        results.write_results(found, self.out, to_jsonable(asdict(self)), self.resume)
        report = reports.write_report(self.out)
        console = plain_console(soft_wrap=False)
        print_summary(found, console)
        console.print(f"Report: {report}", soft_wrap=True)
