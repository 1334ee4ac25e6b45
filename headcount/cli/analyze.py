"""`headcount analyze`: what every head does on a corpus."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from headcount.analysis import ROLES, Options, analyze
from headcount.cli.console import check_no_unused_options, plain_console, to_jsonable
from headcount.cli.progress import shown
from headcount.core import processes
from headcount.corpora import Corpus
from headcount.importance import check_same_scores
from headcount.models import load, revision
from headcount.reports import write_report
from headcount.results import Analysis, Thresholds, claim, start_over, write_results

SHOWN = 3
"""Number of heads named for each role."""


def print_summary(analysis: Analysis, console: Console) -> None:
    """Print how many heads have each role, with the clearest heads and their evidence."""
    roles, record = analysis.roles, analysis.record
    console.print(
        f"Analysed {len(roles)} heads on {record.counts.sentences:,} sentences, "
        f"{record.counts.tokens:,} tokens "
        f"({record.timings['sentences_per_s']:,.0f} sentences/s)"
    )
    table = Table("role", "heads", "clearest", "evidence", box=None, pad_edge=False)
    for name in ROLES:
        found = [(role, head) for head, each in roles.items() for role in each if role.role == name]
        found.sort(key=lambda pair: -pair[0].score)
        heads = ", ".join(head for _, head in found[:SHOWN])
        table.add_row(name, str(len(found)), heads, found[0][0].evidence if found else "none found")
    without = sum(not found for found in roles.values())
    table.add_row("no role", str(without), "", "")
    console.print(table)
    for warning in record.warnings:
        console.print(f"warning: {warning}", style="yellow")
    console.print(record.signature, style="dim", soft_wrap=True)


@dataclass(frozen=True)
class Analyze:
    """Measure what every attention head does on a corpus; write tables, roles and a report."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
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
    languages: tuple[str, str] | None = None
    """Languages of source and target, for a multilingual translator: eng_Latn deu_Latn."""
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
    device: str = "cpu"
    """Device to run on, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Number format of the model; float32 is the most exact."""
    exclude_keys: bool = True
    """Exclude special tokens from the keys of confidence."""
    exclude_queries: bool = True
    """Exclude special tokens from the queries that confidence averages over."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds for assigning roles; the papers' values by default."""

    def run(self) -> int:
        """Run the analysis and write everything into `out`."""
        if not self.null:
            check_no_unused_options(self, "seed", "the random-weight copy", "Add --null")
        main_process = processes().is_main_process
        if main_process:
            claim(self.out, self.resume, self.overwrite)
        processes().wait_for_everyone()
        corpus = Corpus(self.corpus, self.source, self.target, self.limit, pairs=self.pairs)
        loaded = load(self.model, self.device, self.dtype, self.languages)
        if self.resume:  # keeps the scores in the folder
            check_same_scores(self.out, revision(loaded.model))
        if main_process and self.overwrite and not self.resume:
            start_over(self.out)
        processes().wait_for_everyone()
        with shown() as progress:
            analysis = analyze(loaded, corpus, self._options(), self.out, progress)
        if main_process:
            self._write(analysis)
        processes().wait_for_everyone()
        return 0

    def _options(self) -> Options:
        return Options(
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

    def _write(self, analysis: Analysis) -> None:
        write_results(analysis, self.out, to_jsonable(asdict(self)))
        report = write_report(self.out)
        console = plain_console(soft_wrap=False)
        print_summary(analysis, console)
        console.print(f"Report: {report}", soft_wrap=True)
