"""`headcount reproduce clark2019`, `coenen2019` and `hewitt2019`: papers that train probes."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from headcount import papers, probes, results
from headcount.cli.arguments import (
    ModelArguments,
    check_corpus,
    check_data,
    check_model,
    recorded,
)
from headcount.cli.console import show_document, shown
from headcount.cli.folder_arguments import FolderArguments
from headcount.core import ResumePolicy
from headcount.probes import ProbeOptions, TreebankOptions


@dataclass(frozen=True)
class ProbePaperArguments(FolderArguments, ModelArguments):
    """Arguments of a paper on probes."""

    train: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to train on."""
    test: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to measure on."""
    how: Annotated[TreebankOptions, tyro.conf.arg(name="")] = field(default_factory=TreebankOptions)
    seed: int = 0
    """Seed of everything random."""

    def options(self) -> ProbeOptions:
        """The options that the papers share."""
        return ProbeOptions(**vars(self.how), seed=self.seed)

    def reproduced(self, by: "papers.ProbeReproduction", options: ProbeOptions) -> int:
        """Run a paper's probes and print its document."""
        check_model(self.model)
        check_corpus([*self.train, *self.test])
        results.claim_beside(self.out, results.Probed, "probes", self.policy)
        if self.policy is ResumePolicy.OVERWRITE:
            probes.forget_probes(self.out)
        files, loaded = (self.train, self.test), self.loaded()
        with shown() as progress:
            path = by(loaded, files, self.out, options, recorded(self), progress)
        return show_document(path)


@dataclass(frozen=True)
class Clark2019(ProbePaperArguments):
    """Reproduce "What Does BERT Look At?": attention probes, relations, coreference, clusters."""

    coreference: tuple[Path, ...] = ()
    """Files with coreference (.conllu, .conll, GAP's .tsv), those of one folder as one corpus;
    coreference is left out by default."""
    vectors: str | None = None
    """Word vectors, as in headcount probe; the model's input embeddings by default."""

    def run(self) -> int:
        """Train the probes and write the document."""
        check_data(self.coreference)
        options = replace(self.options(), vectors=self.vectors)
        by = partial(papers.reproduce_clark2019, documents=self.coreference)
        return self.reproduced(by, options)


@dataclass(frozen=True)
class Coenen2019(ProbePaperArguments):
    """Reproduce "Visualizing and Measuring the Geometry of BERT": is there an arc, and which."""

    def run(self) -> int:
        """Train the probes and write the document."""
        return self.reproduced(papers.reproduce_coenen2019, self.options())


@dataclass(frozen=True)
class Hewitt2019(ProbePaperArguments):
    """Reproduce "A Structural Probe for Finding Syntax": trees in hidden states, by rank."""

    ranks: tuple[int, ...] = ()
    """Ranks; the first one for every hidden state. The paper's by default, 64 first."""

    def run(self) -> int:
        """Train the probes and write the document."""
        ranks = self.ranks or papers.HEWITT_RANKS
        options = replace(self.options(), ranks=ranks)
        return self.reproduced(papers.reproduce_hewitt2019, options)
