"""`headcount evolve MODEL [MODEL...] CORPUS --out OUT`: what every layer keeps and builds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from headcount import models, papers
from headcount.cli.arguments import (
    CorpusArguments,
    DeviceArguments,
    check_data,
    check_model,
    recorded,
)
from headcount.cli.console import plain_console, print_warnings, show_document, shown
from headcount.cli.folder_arguments import FolderArguments
from headcount.cli.train import training_shown
from headcount.core import InputError, amount, claim
from headcount.corpora import Corpus
from headcount.papers import EvolutionOptions

SHOWN = ("mi-miller-madow", "pwcca")
"""Quantities that are printed."""


@dataclass(frozen=True)
class Evolve(CorpusArguments, FolderArguments, DeviceArguments):
    """Compare layers and models: what each layer keeps of a token and its neighbours."""

    RECORD = papers.EvolutionRecord.FILE
    HAS_TABLES = True

    inputs: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL [MODEL ...] CORPUS")
    ]
    """Models (Hugging Face names, folders, headcount:en-de), then one corpus (.txt, .jsonl,
    .conllu, .tsv, .csv, .parquet, or hf://dataset?split=train). Models of one objective are its
    seeds."""
    limit: int | None = None
    """Largest number of sentences; all by default."""
    how: Annotated[EvolutionOptions, tyro.conf.arg(name="")] = field(
        default_factory=EvolutionOptions
    )

    def run(self) -> int:
        """Measure every layer, and write and print the numbers."""
        if len(self.inputs) < 2:
            raise InputError(
                "Expected models and a corpus, got "
                f"{', '.join(self.inputs) or 'nothing'}. Name at least one model and one corpus."
            )
        *names, file = self.inputs
        for name in names:
            check_model(name)
        check_data([file])
        corpus = self.read([file], limit=self.limit)
        claim(self.out, papers.Evolution.files(), self.out / "state", self.policy)
        loaded = [self._loaded(name) for name in names]
        with shown() as progress:
            found = papers.evolve(loaded, corpus, self.how, self.out, progress)
        found = found.recorded(recorded(self))
        found.write(self.out)
        path = papers.write_evolution(found, self.out)
        papers.forget_evolution(self.out)
        print_evolution(found, plain_console(soft_wrap=False))
        plain_console().print(f"Figures and what they show: {path}")
        return 0

    def _loaded(self, name: str) -> "models.Loaded":
        return models.load(name, self.device, self.dtype, trust_remote_code=self.trust_remote_code)


@dataclass(frozen=True)
class Voita2019Evolution(FolderArguments):
    """Reproduce "The Bottom-up Evolution of Representations": three objectives, layer by layer."""

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

    def run(self) -> int:
        """Train what is missing, measure every layer, and write the document."""
        check_data((*self.data, *self.dev))
        if self.seeds < 1:
            raise InputError(f"Expected at least 1 seed, got {self.seeds}. Give --seeds 2.")
        claim(self.out, papers.Evolution.files(), self.out / "state", self.policy)
        trainings = papers.evolution_trainings(self.data, self.dev, self.seeds, self.device)
        with training_shown() as tell:
            loaded = papers.trained_models(self.models, trainings, tell)
        with shown() as progress:
            path = papers.reproduce_voita2019evolution(
                loaded, Corpus(self.data), self.out, arguments=recorded(self), progress=progress
            )
        papers.forget_evolution(self.out)
        return show_document(path)


def print_evolution(found: "papers.Evolution", console: Console) -> None:
    """Print what was stored, and the main curves."""
    for facts in found.record.stores:
        if facts.occurrences:
            console.print(
                f"{facts.objective}-{facts.seed}, {facts.view}: {amount(facts.types, 'token')} x "
                f"{amount(facts.occurrences, 'occurrence')}"
            )
    layers = sorted({row.layer for row in found.rows})
    table = Table("quantity", "against", "model", *map(str, layers), box=None, pad_edge=False)
    curves: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in found.rows:
        if row.quantity in SHOWN and " at " not in row.against:
            curves.setdefault((row.quantity, row.against, row.label), {})[row.layer] = row.value
    for names, values in sorted(curves.items()):
        cells = (f"{values[each]:.3f}" if each in values else "" for each in layers)
        table.add_row(*names, *cells)
    console.print(table)
    print_warnings(found.record.warnings, console)
    console.print(found.record.signature, style="dim", soft_wrap=True)
