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
from headcount.papers.evolution.mutual_information import ESTIMATES
from headcount.papers.evolution.options import QUANTITIES, EvolutionOptions
from headcount.papers.evolution.record import Evolution
from headcount.papers.pretraining.config import PretrainingConfig
from headcount.papers.pretraining.pretraining import train
from headcount.papers.pretraining.recipe import RECIPES
from headcount.papers.reproduce.evolution_findings import Finding, findings
from headcount.training import Tell

OBJECTIVES = ("translation", "causal-lm", "masked-lm")
EPOCHS = {"translation": 3, "causal-lm": 6, "masked-lm": 6}
"""Epochs of each training; those of language models take half as long."""

BATCH_TOKENS, SAVE_EVERY = 6000, 700

OPTIONS = EvolutionOptions(
    measure=QUANTITIES,
    occurrences=400,
    types=100,
    clusters=200,
    sentences=1500,
    nearest=10,
    queries=500,
    swap=0.1,
)
"""Smaller than the paper's, so that it takes minutes: 40,000 states of a view and model, 200 of a
cluster. With twice as many states of a cluster as tokens, the estimates of mutual information lie
within 0.3 nats of the truth (`benchmarks/mutual_information.py`); in the paper's design the plug-in
estimate gives independent tokens 2.4 nats. There are more clusters than tokens, so that each token
can have its own, and fewer nearest states than occurrences of a token."""


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
    shown = evolution_document(evolution)
    parts = [findings_table(evolution), ceiling_sentence(evolution), shown.markdown()]
    text = "\n\n".join(part for part in parts if part)
    return write_document(out / "voita2019evolution.md", text, shown.charts)


def ceiling_sentence(evolution: Evolution) -> str:
    """How near information about the input token is to its ceiling; empty if it is not there.

    Where all objectives are at the ceiling, the first finding can't separate them.
    """
    types = {facts.types for facts in evolution.record.stores if facts.view == "text"}
    curves = {name: evolution.curves(name, "input") for name in ESTIMATES}
    if len(types) != 1 or not all(curves.values()):
        return ""
    (count,) = types
    ceiling = math.log(count)
    parts = []
    for objective in curves[ESTIMATES[0]]:
        last = [layers[objective][max(layers[objective])] for layers in curves.values()]
        low, high = min(map(min, last)), max(map(max, last))
        parts.append(f"{objective} {low / ceiling:.1%} to {high / ceiling:.1%}")
    return (
        f"{amount(count, 'token')} have at most ln {count} = {ceiling:.3f} nats. In the last layer"
        f", of information about the input token, over estimates and seeds: {', '.join(parts)}."
    )


def findings_table(evolution: Evolution) -> str:
    """The findings of the paper and what the models say, as a table."""
    rows = [
        [each.claim, each.measure, bands(each), each.verdict, f"{each.chance:.3f}"]
        for each in findings(evolution)
    ]
    headers = ["finding", "difference", "band over seeds", "verdict", "chance"]
    return table(headers, rows) if rows else ""


def bands(finding: Finding) -> str:
    """The bands of a finding, named where there are several."""
    found = {name: f"{low:.4f} to {high:.4f}" for name, (low, high) in finding.bands.items()}
    if len(found) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{name.removeprefix('mi-')} {band}" for name, band in found.items())
