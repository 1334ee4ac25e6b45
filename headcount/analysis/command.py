"""Commands that say what heads do: analyze, cluster, align, coreference, probe, serve."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from headcount import analysis, models, pages, results
from headcount.analysis.options import Options
from headcount.commands import (
    CorpusArguments,
    CorpusFiles,
    Flat,
    Measuring,
    ModelArguments,
    Report,
    ResumableArguments,
    check_data,
    check_no_unused_options,
    plain_console,
    print_document,
    print_signature,
    print_warnings,
    recorded,
    shown,
)
from headcount.core import InputError, ResumePolicy, amount
from headcount.corpora import (
    Corpus,
    check_frequencies,
    check_reads_sound,
    holds_recordings,
    named_columns,
)

if TYPE_CHECKING:
    pass


SHOWN = 3
"""Number of heads named for each role."""


@dataclass(frozen=True)
class Analyze(
    CorpusArguments,
    ResumableArguments,
    ModelArguments,
    Measuring["models.Loaded", "results.Analysis"],
):
    """The arguments of `headcount analyze`."""

    RESULT = results.Analysis

    corpus: CorpusFiles = ()
    """Files: .txt (an example per line or paragraph), .jsonl, .csv or .parquet (text or messages),
    .conllu, .tsv (source<TAB>target), or hf://dataset?split=train; for a Vision Transformer, images
    or a folder of them; for a Whisper or Qwen2-Audio, a folder or a table of recordings with
    transcripts."""
    source: Path | None = None
    """Source side of parallel text (.txt or .conllu)."""
    target: Path | None = None
    """Target side, line by line; by default the model's own greedy translations."""
    pairs: bool = False
    """Read source and target as one input, as BERT reads GLUE's pairs; not for encoder-decoders."""
    links: tuple[str, ...] = ()
    """Relations of your own between words: names of plug-ins' relations, or misc.KEY for numbers of
    words in column 10 of a treebank (KEY=3 or KEY=3,5). A field links of .jsonl is always read."""
    measures: tuple[str, ...] = ()
    """Names of plug-ins' measures to take as well."""
    traits: tuple[str, ...] = ()
    """Names of plug-ins' traits to test as well."""
    limit: int | None = None
    """Largest number of sentences or images to read; all by default."""
    stream: bool = False
    """Read data sets of the hub (hf://...) from there on every pass, without a copy on disk."""
    estimate: bool = False
    """Print what the run would cost in hours and memory, alone and with several processes; measures
    some of the texts and writes nothing."""
    how: Flat[Options] = field(default_factory=Options)

    @classmethod
    def parsed_by(cls, arguments: Sequence[str]) -> type["Analyze"]:
        """A class that needs no --out if nothing is written."""
        return Estimating if "--estimate" in arguments else cls

    @cached_property
    def texts(self) -> Corpus:
        """The corpus."""
        if models.reads_sound(self.model) or holds_recordings(self.corpus):
            return self.recordings
        sides = (self.source, self.target, self.limit)
        how = {"pairs": self.pairs, "stream": self.stream, "links": self.links}
        return self.read(self.corpus, *sides, **how)

    @property
    def recordings(self) -> Corpus:
        """The corpus of a model that reads sound."""
        check_reads_sound()
        if len(self.corpus) != 1:
            raise InputError(
                f"Expected one folder, table or data set of recordings, since {self.model} reads "
                f"sound, got {len(self.corpus)}. Put the files into one folder."
            )
        return Corpus.of_recordings(self.corpus[0], named_columns(self.columns), self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the corpus included."""
        if not (self.how.null or self.how.induction):
            drawn = "the random-weight copy and random tokens"
            check_no_unused_options(self.how, "seed", drawn, "Add --null or --induction")
        super().check()
        if self.how.frequencies is not None:
            check_data([self.how.frequencies])
            check_frequencies(self.how.frequencies)
        self.texts  # noqa: B018

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or holds a run that is resumed or replaced."""
        results.claim(self.out, policy)

    def load(self) -> "models.Loaded":
        """Load the model, and check that scores that stay in the folder are of exactly this one."""
        loaded = super().load()
        if self.resume:
            results.check_same_scores(self.out, models.revision(loaded.model))
        return loaded

    def start_over(self) -> None:
        """Delete the sums of an earlier run, in every process: hosts may share no disk."""
        results.start_over(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Analysis":
        """Analyse."""
        further = {"progress": progress, "measures": self.measures, "traits": self.traits}
        return analysis.analyze(read, self.texts, self.how, self.out, **further)

    def store(self, found: "results.Analysis") -> None:
        """Write tables and record."""
        found.recorded(recorded(self)).write(self.out, self.resume)

    def publish(self, read: "models.Loaded", found: "results.Analysis") -> Path:
        """Write the page."""
        return pages.write_report(self.out)

    def show(self, read: "models.Loaded", found: "results.Analysis") -> None:
        """Print what the report opens with: what heads do, by role and trait, and where to look."""
        console = plain_console(soft_wrap=False)
        record = found.record
        console.print(
            f"Analysed {amount(len(found.rows), 'head')} on "
            f"{amount(record.counts.sentences, record.inputs.item)}, {length_of(record)}"
        )
        headline, *rest = pages.story(found, pages.Given(self.model, str(self.out)))
        console.print(headline, style="bold", soft_wrap=True)
        console.print(_roles(found))
        for line in rest:
            console.print(line, soft_wrap=True)
        print_warnings(record.warnings, console)
        print_signature(record.signature, console)


def length_of(record: "results.RunRecord") -> str:
    """How long the corpus is, and how much of it was measured in a second."""
    rate, number = record.timings.get("tokens_per_s"), record.counts.tokens
    if record.frame_ms is None:
        return f"{amount(number, 'token')}{f' ({rate:,.0f} tokens/s)' if rate else ''}"
    seconds = number * record.frame_ms / 1000
    pace = seconds / max(record.timings["measure_s"], 1e-3)
    return f"{seconds:,.0f} s of sound{f' ({pace:,.1f} s of it in a second)' if rate else ''}"


@dataclass(frozen=True)
class Estimating(Analyze):
    """Print what an analysis would cost."""

    RESULT = None
    out: Path = field(default=Path(), kw_only=True)
    """Folder for the results, of which there are none."""

    def run(self) -> int:
        """Estimate and print; no folder is claimed."""
        self.check()
        with shown() as progress:
            found = analysis.estimate(self.load(), self.texts, self.how, progress)
        print_document(found.document(), plain_console(soft_wrap=False))
        return 0


def _roles(found: "results.Analysis") -> Table:
    """How many heads have each role and tend to it, and the clearest ones."""
    table = Table("role", "heads", "tendency", "clearest", box=None, pad_edge=False)
    for name in found.record.possible_roles:
        having = [(each, head) for head, own in found.roles.items() for each in own]
        having = [pair for pair in having if pair[0].role == name]
        having.sort(key=lambda pair: -pair[0].score)
        tend = sum(name in own for own in found.heads.frame["tendencies"])
        heads = ", ".join(head for _, head in having[:SHOWN])
        table.add_row(name, str(len(having)), str(tend), heads or pages.why_none(found, name))
    return table
