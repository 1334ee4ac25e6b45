"""Commands that say what heads do: analyze, cluster, align, coreference, probe, serve."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table

from headcount import analysis, artifact, importance, models, probes, reports, results
from headcount.analysis import Options
from headcount.cli.arguments import (
    CorpusArguments,
    CorpusFiles,
    DeviceArguments,
    ModelArguments,
    ParallelArguments,
    ResumableArguments,
    check_corpus,
    check_data,
    check_model,
    check_no_unused_options,
    recorded,
)
from headcount.cli.console import (
    Report,
    plain_console,
    print_document,
    print_signature,
    print_warnings,
    shown,
)
from headcount.cli.frame import BesideCommand, Command, Flat, Measuring
from headcount.core import CorpusError, InputError, ResumePolicy, amount, check_accepted
from headcount.corpora import Corpus, check_frequencies, check_template, read_documents, read_links
from headcount.probes import AlignmentOptions, ClusterOptions, CoreferenceOptions, ProbeOptions

if TYPE_CHECKING:
    from headcount.serve import Address


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
    """Files: .txt (an example per line), .jsonl, .csv or .parquet (text or messages), .conllu, .tsv
    (source<TAB>target), or hf://dataset?split=train; for a Vision Transformer, images or a folder
    of them."""
    source: Path | None = None
    """Source side of parallel text (.txt or .conllu)."""
    target: Path | None = None
    """Target side, line by line; by default the model's own greedy translations."""
    pairs: bool = False
    """Read source and target as one input, as BERT reads GLUE's pairs; not for encoder-decoders."""
    links: tuple[str, ...] = ()
    """Relations of your own between words: names of plug-ins' relations, or misc.KEY for numbers of
    words in column 10 of a treebank (KEY=3 or KEY=3,5). A field links of .jsonl is read anyway."""
    measures: tuple[str, ...] = ()
    """Measures of plug-ins to take, too, by their names."""
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
        sides = (self.source, self.target, self.limit)
        how = {"pairs": self.pairs, "stream": self.stream, "links": self.links}
        return self.read(self.corpus, *sides, **how)

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
            importance.check_same_scores(self.out, models.revision(loaded.model))
        return loaded

    def start_over(self) -> None:
        """Delete the sums of an earlier run, in every process: hosts may share no disk."""
        results.start_over(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Analysis":
        """Analyse."""
        further = {"progress": progress, "measures": self.measures}
        return analysis.analyze(read, self.texts, self.how, self.out, **further)

    def store(self, found: "results.Analysis") -> None:
        """Write tables and record."""
        found.recorded(recorded(self)).write(self.out, self.resume)

    def publish(self, read: "models.Loaded", found: "results.Analysis") -> Path:
        """Write the page."""
        return reports.write_report(self.out)

    def show(self, read: "models.Loaded", found: "results.Analysis") -> None:
        """Print what the report opens with: what heads do, by role and trait, and where to look."""
        console = plain_console(soft_wrap=False)
        record = found.record
        rate = record.timings.get("tokens_per_s")
        console.print(
            f"Analysed {amount(len(found.rows), 'head')} on "
            f"{amount(record.counts.sentences, record.inputs.item)}, "
            f"{amount(record.counts.tokens, 'token')}{f' ({rate:,.0f} tokens/s)' if rate else ''}"
        )
        headline, *rest = reports.story(found, reports.Given(self.model, str(self.out)))
        console.print(headline, style="bold", soft_wrap=True)
        console.print(_roles(found))
        for line in rest:
            console.print(line, soft_wrap=True)
        print_warnings(record.warnings, console)
        print_signature(record.signature, console)


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
    for name in found.record.inputs.roles:
        having = [(each, head) for head, own in found.roles.items() for each in own]
        having = [pair for pair in having if pair[0].role == name]
        having.sort(key=lambda pair: -pair[0].score)
        tend = sum(name in own for own in found.heads.frame["tendencies"])
        heads = ", ".join(head for _, head in having[:SHOWN])
        table.add_row(name, str(len(having)), str(tend), heads or reports.why_none(found, name))
    return table


@dataclass(frozen=True)
class Cluster(ParallelArguments, BesideCommand["results.Clusters"]):
    """The arguments of `headcount cluster`."""

    RESULT = results.Clusters

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
            artifact.read_roles(self.analysis, loaded)
        return loaded

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Clusters":
        """Compare the heads."""
        return probes.cluster(read, self.texts, self.how, progress)


@dataclass(frozen=True)
class Align(ParallelArguments, BesideCommand["results.Alignment"]):
    """The arguments of `headcount align`."""

    RESULT = results.Alignment

    pairs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PAIRS ...")] = ()
    """Parallel text: .tsv (source<TAB>target), or any table with --columns text=NAME
    target=NAME."""
    gold: Path = field(kw_only=True)
    """Gold links of every pair in Pharaoh's format (0-0 1p2) or NAACL's (1 1 2 S)."""
    how: Flat[AlignmentOptions] = field(default_factory=AlignmentOptions)

    @cached_property
    def texts(self) -> Corpus:
        """The parallel text."""
        return self.read(self.pairs, self.source, self.target)

    def check(self) -> None:
        """Check everything that needs no model, the links included."""
        super().check()
        check_data([self.gold, *self.how.compare])
        read_links(self.gold, sum(1 for _ in self.texts))

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Alignment":
        """Align."""
        return probes.align(read, self.texts, self.gold, self.how, progress)


@dataclass(frozen=True)
class Coreference(BesideCommand["results.Coreference"]):
    """The arguments of `headcount coreference`."""

    RESULT = results.Coreference

    corpus: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .conllu with Entity= in MISC (GUM, CorefUD), .conll (CoNLL-2012), .tsv (GAP)."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    how: Flat[CoreferenceOptions] = field(default_factory=CoreferenceOptions)

    def check(self) -> None:
        """Check everything that needs no model, the documents included."""
        super().check()
        if not self.corpus:
            raise CorpusError("Expected a corpus, got nothing. Give at least one file.")
        check_data(self.corpus)
        read_documents(self.corpus)

    def forget(self) -> None:
        """Delete the selections of finished windows."""
        probes.forget_coreference(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Coreference":
        """Resolve the mentions."""
        return probes.select_antecedents(read, self.corpus, self.how, progress, out=self.out)


@dataclass(frozen=True)
class Probe(BesideCommand["results.Probed"]):
    """The arguments of `headcount probe`."""

    RESULT = results.Probed

    train: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to train on."""
    test: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to measure on."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    how: Flat[ProbeOptions] = field(default_factory=ProbeOptions)

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        for option, probe in (
            ("vectors", "words"),
            ("ranks", "structure"),
            ("normalize", "structure"),
        ):
            if probe not in self.how.probes:
                check_no_unused_options(self.how, option, f"the probe {probe}", f"Add {probe}")
        if not self.how.needs_states:
            check_no_unused_options(self.how, "layers", "hidden states", "Add structure or layers")
        check_corpus([*self.train, *self.test])

    def forget(self) -> None:
        """Delete finished probes."""
        probes.forget_probes(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Probed":
        """Run the probes."""
        return probes.probe(read, self.train, self.test, self.how, self.out, progress)


@dataclass(frozen=True)
class Serve(DeviceArguments, Command):
    """The arguments of `headcount serve`."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL|RUN|PRUNED")]
    """A model, the folder of headcount analyze (its roles are shown), or a pruned model's folder
    (the dense model is opened with the plan)."""
    model: str | None = None
    """Dense model of the run or pruned model; by default the one that its record names."""
    plan: Path | None = None
    """A plan.json or a folder with one, to set its gates by one click."""
    languages: tuple[str, str] | None = None
    """Languages of source and target, for a multilingual translator: eng_Latn deu_Latn."""
    host: str = "127.0.0.1"
    """Address to listen on; other machines can ask with 0.0.0.0 or an address of the network."""
    port: int = 8765
    """Port to listen on; 0 takes a free one."""
    token: bool = True
    """Require the random token in the printed address."""
    chat: bool = False
    """Read texts as a user's messages in the model's chat template; as they are by default."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""

    def run(self) -> int:
        """Bind the port, load the model, print the address and answer."""
        if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
            raise InputError(
                f"Expected the package {missing[0]}, which is not installed. Run pip install "
                "'headcount[serve]'."
            )
        from headcount import serve  # needs these packages

        check_model(self.name)
        check_template(self.chat, self.template)
        address = serve.bind(self.host, self.port, self.token)
        with address.socket:
            self._check_reach(address)
            live = serve.open_model(
                self.name,
                model=self.model,
                plan=self.plan,
                device=self.device,
                dtype=self.dtype,
                languages=self.languages,
                trust_remote_code=self.trust_remote_code,
                chat=self.chat,
                template=self.template,
            )
            console = plain_console()
            console.print(f"{live.loaded.name}: {live.loaded.heads}")
            try:
                if not address.is_local:
                    who = "with the address, token included," if self.token else "that reaches it"
                    console.print(f"Every machine {who} can ask, not only this one.")
                console.print(f"Open {' or '.join(address.urls)}  (Ctrl-C stops)")
                serve.run_server(live, address)
            except KeyboardInterrupt:  # uvicorn has answered what was asked
                with suppress(OSError):  # the terminal has closed
                    console.print("Stopped")
                    sys.stdout.flush()
                # Python would wait for a thread that answers, and take seconds to tear torch down.
                os._exit(0)
        return 0

    def _check_reach(self, address: "Address") -> None:
        """Check that a server without a token is out of other machines' reach."""
        if not (self.token or address.is_local):
            check_accepted(
                f"Expected a token, since other machines can reach --host {self.host}, got "
                "--no-token",
                "Leave --no-token out",
            )
