"""`headcount evolve MODEL [MODEL...] CORPUS --out OUT`: what every layer keeps and builds."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headcount import models, papers
from headcount.cli.arguments import (
    CorpusArguments,
    DeviceArguments,
    check_data,
    check_model,
    recorded,
)
from headcount.cli.console import Report
from headcount.cli.folder_arguments import ResumableArguments
from headcount.cli.frame import Flat, PaperCommand, ResultCommand
from headcount.cli.train import training_shown
from headcount.core import InputError
from headcount.corpora import Corpus
from headcount.papers import EvolutionOptions


@dataclass(frozen=True)
class Evolve(
    CorpusArguments,
    ResumableArguments,
    DeviceArguments,
    ResultCommand["list[models.Loaded]", "papers.Evolution"],
):
    """Compare what each layer keeps of a token and its neighbours."""

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

    models: Path
    """Folder with the models translation-1, causal-lm-1, masked-lm-1, translation-2 ...; those that
    are missing are trained: minutes on a GPU, most of a day on two cores."""
    data: tuple[str, ...]
    """Parallel text: the models read its sources, and missing models are trained on it."""
    dev: tuple[str, ...] = ()
    """Development set of the trainings."""
    seeds: int = 2
    """Number of models of each objective."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device to train on."""

    def check(self) -> None:
        """Check everything that needs no model."""
        check_data((*self.data, *self.dev))
        if self.seeds < 1:
            raise InputError(f"Expected at least 1 seed, got {self.seeds}. Give --seeds 2.")

    def prepare(self) -> "list[models.Loaded]":
        """Load the models, after training those that are missing."""
        trainings = papers.evolution_trainings(self.data, self.dev, self.seeds, self.device)
        with training_shown() as tell:
            return papers.trained_models(self.models, trainings, tell)

    def measure(self, read: "list[models.Loaded]", progress: Report) -> Path:
        """Measure every layer, and write the document."""
        path = papers.reproduce_voita2019evolution(
            read, Corpus(self.data), self.out, arguments=recorded(self), progress=progress
        )
        papers.forget_evolution(self.out)
        return path
