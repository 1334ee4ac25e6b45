"""`headcount reproduce clark2019`, `coenen2019` and `hewitt2019`: papers that train probes."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from headcount import models, papers, probes, results
from headcount.cli.arguments import ModelArguments, check_corpus, check_data, recorded
from headcount.cli.console import Report
from headcount.cli.folder_arguments import ResumableArguments
from headcount.cli.frame import Flat, PaperCommand
from headcount.core import ResumePolicy
from headcount.probes import ProbeOptions, TreebankOptions


@dataclass(frozen=True)
class ProbePaperCommand(ResumableArguments, ModelArguments, PaperCommand["models.Loaded"]):
    """A paper on probes."""

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
        results.claim_beside(self.out, results.Probed, policy)

    def start_over(self) -> None:
        """Delete finished probes."""
        probes.forget_probes(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> Path:
        """Train the probes, and write the document."""
        files = (self.train, self.test)
        return self.reproduced()(read, files, self.out, self.options(), recorded(self), progress)

    def options(self) -> ProbeOptions:
        """The options of the probes."""
        return ProbeOptions(**vars(self.how), seed=self.seed)

    @abstractmethod
    def reproduced(self) -> "papers.ProbeReproduction":
        """The paper's probes and document."""


@dataclass(frozen=True)
class Clark2019(ProbePaperCommand):
    """Reproduce "What Does BERT Look At?": attention probes, relations, coreference, clusters."""

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

    def reproduced(self) -> "papers.ProbeReproduction":
        """The paper's probes and document."""
        return partial(papers.reproduce_clark2019, documents=self.coreference)


@dataclass(frozen=True)
class Coenen2019(ProbePaperCommand):
    """Reproduce "Visualizing and Measuring the Geometry of BERT": is there an arc, and which."""

    def reproduced(self) -> "papers.ProbeReproduction":
        """The paper's probes and document."""
        return papers.reproduce_coenen2019


@dataclass(frozen=True)
class Hewitt2019(ProbePaperCommand):
    """Reproduce "A Structural Probe for Finding Syntax": trees in hidden states, by rank."""

    ranks: tuple[int, ...] = ()
    """Ranks; the first one for every hidden state. The paper's by default, 64 first."""

    def options(self) -> ProbeOptions:
        """The options of the probes."""
        return replace(super().options(), ranks=self.ranks or papers.HEWITT_RANKS)

    def reproduced(self) -> "papers.ProbeReproduction":
        """The paper's probes and document."""
        return papers.reproduce_hewitt2019
