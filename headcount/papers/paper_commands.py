"""`headcount evolve`, and `headcount reproduce` of papers on layers, norms, tuning and probes."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from headcount import models, pages, papers, probing, results
from headcount.commands import (
    CorpusArguments,
    CorpusFiles,
    DeviceArguments,
    Flat,
    ModelArguments,
    OutArguments,
    PaperCommand,
    Report,
    ResultCommand,
    ResumableArguments,
    TaskArguments,
    check_corpus,
    check_data,
    check_model,
    recorded,
)
from headcount.core import Count, Document, InputError, ResumePolicy, check_options
from headcount.corpora import Corpus, named_columns
from headcount.papers.evolution.record import EvolutionOptions
from headcount.papers.train_command import training_shown
from headcount.probing import ProbeName, ProbeOptions, TreebankOptions


@dataclass(frozen=True)
class Evolve(
    CorpusArguments,
    ResumableArguments,
    DeviceArguments,
    ResultCommand["list[models.Loaded]", "papers.Evolution"],
):
    """The arguments of `headcount evolve`."""

    RESULT = papers.Evolution

    inputs: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL [MODEL ...] CORPUS")
    ]
    """Models (Hugging Face names, folders, headcount:en-de), then one corpus, as `headcount
    analyze` reads it. Models of one objective are its seeds."""
    limit: int | None = None
    """Largest number of sentences; all by default."""
    how: Flat[EvolutionOptions] = field(default_factory=EvolutionOptions)

    @cached_property
    def texts(self) -> Corpus:
        """The corpus."""
        return self.read(self.inputs[-1:], limit=self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the corpus included."""
        if len(self.inputs) < 2:
            raise InputError(
                "Expected models and a corpus, got "
                f"{', '.join(self.inputs) or 'nothing'}. Name at least one model and one corpus."
            )
        for name in self.inputs[:-1]:
            check_model(name)
        check_data(self.inputs[-1:])
        self.texts  # noqa: B018

    def prepare(self) -> "list[models.Loaded]":
        """Load the models."""
        return [self.load_model(name) for name in self.inputs[:-1]]

    def forget(self) -> None:
        """Delete the measured quantities."""
        papers.forget_evolution(self.out)

    def measure(self, read: "list[models.Loaded]", progress: Report) -> "papers.Evolution":
        """Measure every layer."""
        return papers.evolve(read, self.texts, self.how, self.out, progress)


@dataclass(frozen=True)
class Voita2019Evolution(ResumableArguments, PaperCommand["list[models.Loaded]"]):
    """Reproduce "The Bottom-up Evolution of Representations": three objectives, layer by layer."""

    RESULT = papers.Evolution
    DOCUMENT = "voita2019evolution.md"

    models: Path
    """Folder with the models translation-1, causal-lm-1, masked-lm-1, translation-2 ...; those that
    are missing are trained: minutes on a GPU, most of a day on two cores."""
    data: tuple[str, ...]
    """Parallel text: the models read its sources, and missing models are trained on it."""
    dev: tuple[str, ...] = ()
    """Development set of the trainings."""
    seeds: Count = 2
    """Number of models of each objective."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device to train on."""

    def check(self) -> None:
        """Check everything that needs no model."""
        check_data((*self.data, *self.dev))
        check_options(self)

    def prepare(self) -> "list[models.Loaded]":
        """Load the models, after training those that are missing."""
        trainings = papers.evolution_trainings(self.data, self.dev, self.seeds, self.device)
        with training_shown() as tell:
            return papers.trained_models(self.models, trainings, tell)

    def measure(self, read: "list[models.Loaded]", progress: Report) -> Document:
        """Measure every layer."""
        corpus = Corpus(self.data)
        found = papers.evolve(read, corpus, papers.VOITA_OPTIONS, self.out, progress)
        found = found.recorded(recorded(self))
        found.write(self.out)
        papers.forget_evolution(self.out)
        return papers.voita2019evolution_document(found)


@dataclass(frozen=True)
class Kobayashi2020(CorpusArguments, OutArguments, ModelArguments, PaperCommand["models.Loaded"]):
    """Reproduce "Attention is Not Only a Weight": weights, norms, mixing ratios (2020 and 2021)."""

    RESULT = papers.ContributionTable
    DOCUMENT = "kobayashi2020.md"

    corpus: CorpusFiles = ()
    """Files of texts or a treebank, as `headcount analyze` reads them."""
    limit: int | None = field(default=1000, kw_only=True)
    """Largest number of sentences to read; numbers of all their tokens are held in memory."""
    samples: int = field(default=1000, kw_only=True)
    """Number of resamples of the sentences, for intervals."""
    max_tokens: int = field(default=2048, kw_only=True)
    """Number of padded tokens in a batch; lower it if memory runs out."""
    masked: float = field(default=0.0, kw_only=True)
    """Share of the tokens that the model reads as its mask token; 0.12 in the code of 2021."""

    @cached_property
    def texts(self) -> Corpus:
        """The corpus."""
        return self.read(self.corpus, limit=self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the corpus included."""
        super().check()
        check_data(self.corpus)
        self.texts  # noqa: B018

    def measure(self, read: "models.Loaded", progress: Report) -> Document:
        """Measure weights, norms and mixing ratios."""
        found = papers.measure_contributions(
            read,
            self.texts,
            samples=self.samples,
            max_tokens=self.max_tokens,
            share_masked=self.masked,
            progress=progress,
        )
        found.recorded(recorded(self)).write(self.out)
        return papers.kobayashi2020_document(found)


@dataclass(frozen=True)
class Kovaleva2019(OutArguments, TaskArguments, PaperCommand["papers.TunedCase"]):
    """Reproduce "Revealing the Dark Secrets of BERT": patterns, fine-tuning, disabled heads."""

    RESULT = papers.TunedMaps
    DOCUMENT = "kovaleva2019.md"

    tuned: str = field(kw_only=True)
    """The same model fine-tuned on the task, as `headcount finetune` leaves it."""
    treebank: tuple[Path, ...] = field(default=(), kw_only=True)
    """CoNLL-U files with tags, for attention to classes of words; left out by default."""
    treebank_limit: int = field(default=500, kw_only=True)
    """Largest number of their sentences."""
    as_words: bool = field(default=False, kw_only=True)
    """Read the treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""
    samples: int = field(default=1000, kw_only=True)
    """Number of resamples of the examples, for intervals."""

    def check(self) -> None:
        """Check everything that needs no model."""
        if self.task not in ("classification", "similarity"):
            raise InputError(
                f"Expected a task on texts or pairs of texts (classification, similarity), got "
                f"{self.task}. The paper fine-tunes encoders."
            )
        super().check()
        check_model(self.tuned)
        check_corpus(self.treebank)

    def prepare(self) -> "papers.TunedCase":
        """Load the model, the fine-tuned one and the task."""
        before, after = self.load(), self.load_model(self.tuned)
        return papers.TunedCase(
            before,
            after,
            self.task_on(after, self.data),
            self.given(self.data),
            columns=named_columns(self.columns),
            limit=self.limit,
            treebank=self.treebank,
            treebank_limit=self.treebank_limit,
            as_words=self.as_words,
            samples=self.samples,
        )

    def measure(self, read: "papers.TunedCase", progress: Report) -> Document:
        """Compare the models."""
        found = papers.measure_tuned_maps(read, min(self.max_tokens, 1024), progress)
        found.recorded(recorded(self)).write(self.out)
        return papers.kovaleva2019_document(found)


@dataclass(frozen=True)
class ProbePaperCommand(ResumableArguments, ModelArguments, PaperCommand["models.Loaded"]):
    """A paper on probes."""

    PROBES: ClassVar[tuple[ProbeName, ...]]
    """The paper's probes."""

    train: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to train on."""
    test: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to measure on."""
    how: Flat[TreebankOptions] = field(default_factory=TreebankOptions)
    seed: int = 0
    """Seed of everything random."""

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        check_corpus([*self.train, *self.test])

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new, or may be written into again."""
        results.claim_beside(self.out, probing.Probed, policy)

    def start_over(self) -> None:
        """Delete finished probes."""
        probing.forget_probes(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> Document:
        """Train the probes."""
        found = probing.probe(read, self.train, self.test, self.options(), self.out, progress)
        found = found.recorded(recorded(self))
        found.write(self.out)
        probing.forget_probes(self.out)
        pages.document_of(found).write(self.out / "probes.md")
        return self.document(read, found, progress)

    def options(self) -> ProbeOptions:
        """The options of the probes."""
        return ProbeOptions(probes=self.PROBES, **vars(self.how), seed=self.seed)

    @abstractmethod
    def document(
        self, read: "models.Loaded", found: "probing.Probed", progress: Report
    ) -> Document:
        """The paper's document, from its probes and whatever else it measures."""


@dataclass(frozen=True)
class Clark2019(ProbePaperCommand):
    """Reproduce "What Does BERT Look At?": attention probes, relations, coreference, clusters."""

    DOCUMENT = "clark2019.md"
    PROBES = ("attention", "words")

    coreference: tuple[Path, ...] = ()
    """Files with coreference (.conllu, .conll, GAP's .tsv), those of one folder as one corpus;
    coreference is left out by default."""
    vectors: str | None = None
    """Word vectors, as in headcount probe; the model's input embeddings by default."""

    def check(self) -> None:
        """Check everything that needs no model."""
        check_data(self.coreference)
        super().check()

    def options(self) -> ProbeOptions:
        """The options of the probes."""
        return replace(super().options(), vectors=self.vectors)

    def document(
        self, read: "models.Loaded", found: "probing.Probed", progress: Report
    ) -> Document:
        """Measure relations, coreference and clusters, too."""
        about = (self.test, self.out, self.options(), progress)
        return papers.reproduce_clark2019(read, found, *about, documents=self.coreference)


@dataclass(frozen=True)
class Coenen2019(ProbePaperCommand):
    """Reproduce "Visualizing and Measuring the Geometry of BERT": is there an arc, and which."""

    DOCUMENT = "coenen2019.md"
    PROBES = ("edges",)

    def document(self, read: object, found: "probing.Probed", progress: Report) -> Document:
        """The document of the probes."""
        return papers.coenen2019_document(found)


@dataclass(frozen=True)
class Hewitt2019(ProbePaperCommand):
    """Reproduce "A Structural Probe for Finding Syntax": trees in hidden states, by rank."""

    DOCUMENT = "hewitt2019.md"
    PROBES = ("structure",)

    ranks: tuple[int, ...] = ()
    """Ranks; the first one for every hidden state. The paper's by default, 64 first."""

    def options(self) -> ProbeOptions:
        """The options of the probes."""
        return replace(super().options(), ranks=self.ranks or papers.HEWITT_RANKS)

    def document(self, read: object, found: "probing.Probed", progress: Report) -> Document:
        """The document of the probes."""
        return papers.hewitt2019_document(found)
