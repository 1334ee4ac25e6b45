"""`headcount analyze`: what every head does on a corpus."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from headcount import analysis, importance, models, reports, results
from headcount.analysis import Options
from headcount.cli.arguments import (
    CorpusArguments,
    ModelArguments,
    check_data,
    check_model,
    check_no_unused_options,
    recorded,
)
from headcount.cli.console import plain_console, print_warnings, shown
from headcount.core import ResumePolicy, amount, is_main_process, wait_for_everyone
from headcount.corpora import check_frequencies

SHOWN = 3
"""Number of heads named for each role."""


def print_summary(run: "results.Analysis", console: Console) -> None:
    """Print what the report opens with: what heads do, by role and trait, and where to look."""
    record = run.record
    rate = record.timings.get("tokens_per_s")
    console.print(
        f"Analysed {amount(len(run.rows), 'head')} on "
        f"{amount(record.counts.sentences, 'image' if record.grid else 'sentence')}, "
        f"{amount(record.counts.tokens, 'token')}{f' ({rate:,.0f} tokens/s)' if rate else ''}"
    )
    headline, *rest = reports.story(run)
    console.print(headline, style="bold", soft_wrap=True)
    console.print(_roles(run))
    for line in rest:
        console.print(line, soft_wrap=True)
    print_warnings(record.warnings, console)
    console.print(record.signature, style="dim", soft_wrap=True)


def _roles(run: "results.Analysis") -> Table:
    """How many heads have each role and tend to it, and the clearest ones."""
    table = Table("role", "heads", "tendency", "clearest", box=None, pad_edge=False)
    profiles = run.traits or {}
    for name in analysis.IMAGE_ROLES if run.record.grid else analysis.ROLES:
        having = [(each, head) for head, own in run.roles.items() for each in own]
        having = [pair for pair in having if pair[0].role == name]
        having.sort(key=lambda pair: -pair[0].score)
        tend = sum(
            any(trait.role == name for trait in results.tendencies_of(traits))
            and all(role.role != name for role in run.roles[head])
            for head, traits in profiles.items()
        )
        heads = ", ".join(head for _, head in having[:SHOWN])
        table.add_row(name, str(len(having)), str(tend), heads or reports.why_none(run, name))
    return table


@dataclass(frozen=True)
class Analyze(CorpusArguments, ModelArguments):
    """Measure what every attention head does on a corpus; write tables, roles and a report."""

    RECORD = results.RunRecord.FILE
    HAS_TABLES = True

    corpus: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .txt (an example per line), .jsonl, .csv or .parquet (text or messages), .conllu, .tsv
    (source<TAB>target), or hf://dataset?split=train; for a Vision Transformer, images or a folder
    of them."""
    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --resume or --overwrite is given."""
    source: Path | None = None
    """Source side of parallel text (.txt or .conllu)."""
    target: Path | None = None
    """Target side, line by line; by default the model's own greedy translations."""
    pairs: bool = False
    """Read source and target as one input, as BERT reads GLUE's pairs; not for encoder-decoders."""
    limit: int | None = None
    """Largest number of sentences or images to read; all by default."""
    resume: bool = False
    """Resume an interrupted run in --out; no sentence is counted twice."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    how: Annotated[Options, tyro.conf.arg(name="")] = field(default_factory=Options)

    def run(self) -> int:
        """Run the analysis and write everything into `out`."""
        policy = ResumePolicy.of(self.resume, self.overwrite)
        if not (self.how.null or self.how.induction):
            drawn = "the random-weight copy and random tokens"
            check_no_unused_options(self.how, "seed", drawn, "Add --null or --induction")
        check_model(self.model)
        if self.how.frequencies is not None:
            check_data([self.how.frequencies])
            check_frequencies(self.how.frequencies)
        sides = (self.source, self.target, self.limit)
        corpus = self.read(self.corpus, *sides, pairs=self.pairs)
        self._claim(policy)
        loaded = self.loaded()
        if self.resume:  # keeps the scores in the folder
            importance.check_same_scores(self.out, models.revision(loaded.model))
        if policy is ResumePolicy.OVERWRITE:  # in every process, since hosts may share no disk
            results.start_over(self.out)
        wait_for_everyone()
        with shown() as progress:
            found = analysis.analyze(loaded, corpus, self.how, self.out, progress)
        if is_main_process():
            self._write(found)
        wait_for_everyone()
        return 0

    def _claim(self, policy: ResumePolicy) -> None:
        """Check the folder in the main process, then in the others, whose disks may be others."""
        if is_main_process():
            results.claim(self.out, policy)
        wait_for_everyone()
        if not is_main_process():
            results.claim(self.out, policy)

    def _write(self, found: "results.Analysis") -> None:
        found.recorded(recorded(self)).write(self.out, self.resume)
        report = reports.write_report(self.out)
        console = plain_console(soft_wrap=False)
        print_summary(found, console)
        console.print(f"Report: {report}", soft_wrap=True)
