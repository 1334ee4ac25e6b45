"""The Bottom-up Evolution of Representations in the Transformer: its findings on our models.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
https://arxiv.org/abs/1909.01380
Departure: models are small (recipe `small`), tokens fewer, and each finding is tested by a
difference with a band over seeds. Tokens are swapped when the models read, not when they learn.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transformers import PreTrainedModel

from headcount.core import Progress, ResumePolicy, amount, silent, table, write_document
from headcount.corpora import Corpus
from headcount.models import Loaded, load
from headcount.papers.evolution.document import evolution_document
from headcount.papers.evolution.evolving import evolve
from headcount.papers.evolution.figures import evolution_figures
from headcount.papers.evolution.options import QUANTITIES, EvolutionOptions
from headcount.papers.evolution.record import Evolution
from headcount.papers.pretraining.config import PretrainingConfig
from headcount.papers.pretraining.pretraining import train
from headcount.papers.pretraining.recipe import RECIPES
from headcount.papers.reproduce.evolution_findings import INFORMATION, findings
from headcount.training import Tell

OBJECTIVES = ("translation", "causal-lm", "masked-lm")
EPOCHS = {"translation": 3, "causal-lm": 6, "masked-lm": 6}
"""Epochs of each training; those of language models take half as long."""

BATCH_TOKENS, SAVE_EVERY = 6000, 700

OPTIONS = EvolutionOptions(
    measure=QUANTITIES,
    occurrences=50,
    types=300,
    clusters=600,
    sentences=1500,
    nearest=10,
    queries=500,
    swap=0.1,
)
"""Smaller than the paper's, so that all of it takes under half an hour on two cores: 15,000 states
of a view and model. They are of many tokens with few occurrences, since information about few
tokens is at its ceiling, ln(tokens), in every layer. There are more clusters than tokens, and fewer
nearest states than occurrences of a token."""


def evolution_trainings(
    data: Sequence[str], dev: Sequence[str], seeds: int = 2, device: str = "cpu"
) -> dict[str, PretrainingConfig]:
    """The trainings of the paper's models, by the name of their folders.

    Args:
        data: files of parallel text; language models read their sources.
        dev: files of the development set.
        seeds: number of seeds of each objective.
        device: device to train on.
    """
    return {
        f"{objective}-{seed}": PretrainingConfig(
            objective=objective,
            recipe=replace(
                RECIPES["small"],
                epochs=EPOCHS[objective],
                batch_tokens=BATCH_TOKENS,
                concatenated=0.0,
            ),
            data=tuple(data),
            dev=tuple(dev),
            pieces="headcount:en-de",
            seed=seed,
            save_every=SAVE_EVERY,
            device=device,
        )
        for seed in range(1, seeds + 1)
        for objective in OBJECTIVES
    }


def trained_models(
    folder: Path, trainings: dict[str, PretrainingConfig], tell: Tell
) -> list[Loaded]:
    """The models in a folder; those that are not there are trained into it first.

    Args:
        folder: folder with a folder for each model.
        trainings: the trainings by the names of these folders.
        tell: called with the progress of a training.

    Raises:
        InputError: if a training is impossible, or a folder holds something else.
    """
    for name, config in trainings.items():
        if not (folder / name / "config.json").exists():
            train(config, folder / name, ResumePolicy.RESUME, tell)
    return [load(folder / name) for name in trainings]


def reproduce_voita2019evolution(
    models: Sequence[Loaded | PreTrainedModel],
    corpus: Corpus,
    out: Path,
    options: EvolutionOptions = OPTIONS,
    arguments: dict | None = None,
    progress: Progress = silent,
) -> Path:
    """Measure the models and write `voita2019evolution.md` beside the tables.

    Args:
        models: models of the three objectives, several seeds each.
        corpus: text that they read.
        out: the folder of the run.
        options: what is measured and how.
        arguments: the arguments of the command, for the record.
        progress: called with the stage and the progress.

    Returns:
        The path of the document.
    """
    found = evolve(models, corpus, options, out, progress)
    found = found.recorded(arguments or {})
    found.write(out)
    return write_voita2019evolution(found, out)


def write_voita2019evolution(evolution: Evolution, out: Path) -> Path:
    """Write `voita2019evolution.md` and its figures; returns the path."""
    figures = evolution_figures(evolution)
    parts = [findings_table(evolution), ceiling_sentence(evolution), evolution_document(evolution)]
    text = "\n\n".join(part for part in parts if part)
    return write_document(out / "voita2019evolution.md", text, figures)


def ceiling_sentence(evolution: Evolution) -> str:
    """How near information about the input token is to its ceiling; empty if it is not there.

    Where all objectives are at the ceiling, the first finding can't separate them.
    """
    types = {facts.types for facts in evolution.record.stores if facts.view == "text"}
    curves = evolution.curves(INFORMATION, "input")
    if len(types) != 1 or not curves:
        return ""
    (count,) = types
    ceiling = math.log(count)
    shares = []
    for objective, layers in curves.items():
        low, high = (100 * end(layers[max(layers)]) / ceiling for end in (min, max))
        shares.append(f"{objective} {low:.2f} to {high:.2f} %")
    return (
        f"{amount(count, 'token')} have at most ln {count} = {ceiling:.3f} nats. In the last layer"
        f", of information about the input token: {', '.join(shares)}."
    )


def findings_table(evolution: Evolution) -> str:
    """The findings of the paper and what the models say, as a table."""
    rows = [
        [each.claim, each.measure, f"{each.low:.4f} to {each.high:.4f}", each.verdict]
        for each in findings(evolution)
    ]
    return table(["finding", "difference", "band over seeds", "verdict"], rows)
