"""The Bottom-up Evolution of Representations in the Transformer: its findings on our models.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
https://arxiv.org/abs/1909.01380
Departure: models are small (recipe `small`), tokens fewer, and each finding is tested by a
difference with a band over seeds. Tokens are swapped when the models read, not when they learn.

Every finding is a difference that the paper says is above 0. Its band runs from the smallest to the
largest difference between the seeds. Differences of mutual information have a band for each of the
estimates that correct it (see `mutual_information`), since each has a bias of its own that may move
with the evenness of clusters. The finding is

- *undecided* if there is one seed only, if a band contains 0, or if the estimates disagree;
- *in all N seeds*, or *in none of N seeds*, if all bands are above 0, or below;
- and only then *holds*, or *fails*, if chance orders so many seeds like this with a probability of
  at most 0.05. For N models against N others it is 1 / (2N choose N), which takes three seeds. For
  differences within each of N models it is 1 / 2^N, which takes five.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from pathlib import Path
from statistics import fmean
from typing import final

from headcount.core import Document, ResumePolicy, Table, Text, amount, paced
from headcount.models import Loaded, load
from headcount.numbers import percent
from headcount.papers.evolution.document import evolution_document
from headcount.papers.evolution.mutual_information import ESTIMATES
from headcount.papers.evolution.record import QUANTITIES, Evolution, EvolutionOptions
from headcount.papers.evolution.subjects import CAUSAL, MASKED, TRANSLATION
from headcount.papers.pretraining.pretraining import train
from headcount.papers.pretraining.recipe import RECIPES, ObjectiveName, PretrainingConfig
from headcount.training import Tell


@final
@dataclass(frozen=True)
class Finding:
    """One finding of the paper, and what our models say."""

    claim: str
    """What the paper found."""
    measure: str
    """The difference that must be above 0, in words."""
    bands: Mapping[str, tuple[float, float]]
    """Smallest and largest difference between seeds, by quantity."""
    seeds: int
    """Number of seeds of each objective."""
    chance: float
    """Probability that chance orders so many seeds like this."""

    @property
    def verdict(self) -> str:
        """`holds`, `fails`, `undecided`, or in how many seeds it is so."""
        is_above = {low > 0 for low, _ in self.bands.values()}
        has_zero = any(low <= 0 <= high for low, high in self.bands.values())
        if self.seeds < 2 or has_zero or len(is_above) > 1:
            return "undecided"
        if self.chance <= 0.05:
            return "holds" if is_above == {True} else "fails"
        if self.seeds == 2:
            return "in both seeds" if is_above == {True} else "in neither seed"
        return f"in {'all' if is_above == {True} else 'none of'} {self.seeds} seeds"


def findings(evolution: Evolution) -> list[Finding]:
    """Every finding that the numbers allow to test: all quantities of its claim are there."""
    found = []
    for claim, measure, quantities, differences in CLAIMS:
        bands = [differences(evolution, each) for each in quantities]
        if known := [band for band in bands if band is not None]:
            if len(known) == len(bands):
                ends = dict(zip(quantities, (band[:2] for band in known), strict=True))
                found.append(Finding(claim, measure, ends, *known[0][2:]))
    return found


_Band = tuple[float, float, int, float]
"""Smallest and largest difference over seeds, their number, and what chance expects."""


def _best_kept(against: str, sign: int, evolution: Evolution, quantity: str) -> _Band | None:
    """Translation less the best other in the last layer; all three objectives must be there.

    The sign is -1 if the lowest number is the best.
    """
    curves = evolution.curves(quantity, against)
    if not {TRANSLATION, CAUSAL, MASKED} <= set(curves):
        return None
    ours, causal, masked = (
        [sign * each for each in curves[name][max(curves[name])]]
        for name in (TRANSLATION, CAUSAL, MASKED)
    )
    return _between(ours, [max(pair) for pair in zip(causal, masked, strict=False)])


def _gained(against: str, sign: int, evolution: Evolution, quantity: str) -> _Band | None:
    """What a causal language model gains from the first to the last layer, times the sign."""
    curves = evolution.curves(quantity, against).get(CAUSAL)
    if curves is None:
        return None
    return _within([sign * each for each in _less(curves[max(curves)], curves[min(curves)])])


def _rebuilt(evolution: Evolution, quantity: str) -> _Band | None:
    curves = evolution.curves(quantity, "input").get(MASKED)
    if curves is None or len(curves) < 3:
        return None
    first, *inner, last = (curves[layer] for layer in sorted(curves))
    lowest, ends = map(min, zip(*inner, strict=True)), map(min, zip(first, last, strict=True))
    return _within(_less(ends, lowest))


def _replaced(evolution: Evolution, quantity: str) -> _Band | None:
    """Both must happen: the smaller of what is forgotten and what is built."""
    false, right = (
        evolution.curves(quantity, f"replaced {which}").get(MASKED) for which in ("input", "output")
    )
    if false is None or right is None:
        return None
    first, last = min(false), max(false)
    forgotten, built = _less(false[first], false[last]), _less(right[last], right[first])
    return _within([*map(min, zip(forgotten, built, strict=True))])


def _influence(evolution: Evolution, quantity: str) -> _Band | None:
    found = _rarest_less_most_frequent(evolution, quantity)
    return None if found is None else _within(found)


def _swapped(evolution: Evolution, quantity: str) -> _Band | None:
    """The effect goes away if less than half of it is left."""
    effect, left = (_rarest_less_most_frequent(evolution, name) for name in ("influence", quantity))
    if effect is None or left is None:
        return None
    return _within(_less((each / 2 for each in effect), left))


def _rarest_less_most_frequent(evolution: Evolution, quantity: str) -> list[float] | None:
    """The mean influence over layers of the rarest bin less that of the last, by seed."""
    rows = evolution.select(quantity=quantity, objective=TRANSLATION)
    bins = list(dict.fromkeys(row.against for row in rows if row.against.startswith("frequency ")))
    if len(bins) < 2:
        return None
    rare, frequent = (
        [
            fmean(row.value for row in rows if (row.against, row.seed) == (name, seed))
            for seed in sorted({row.seed for row in rows})
        ]
        for name in (bins[0], bins[-1])
    )
    return _less(rare, frequent)


def _less(larger: Iterable[float], smaller: Iterable[float]) -> list[float]:
    return [one - other for one, other in zip(larger, smaller, strict=True)]


def _within(differences: Sequence[float]) -> _Band:
    """Differences within each model: chance gives each its sign."""
    count = len(differences)
    return min(differences), max(differences), count, 0.5**count


def _between(larger: Sequence[float], smaller: Sequence[float]) -> _Band:
    """Differences between models: chance gives them any order."""
    low, high = min(larger) - max(smaller), max(larger) - min(smaller)
    chance = 1 / comb(len(larger) + len(smaller), len(larger))
    return low, high, min(len(larger), len(smaller)), chance


_RARE = "influence of the rarest tokens less that of the most frequent, mean of layers"

CLAIMS: Sequence[tuple[str, str, Sequence[str], Callable[[Evolution, str], _Band | None]]] = (
    (
        "Translation keeps the identity of tokens best",
        "information about the input token in the last layer: translation less the best other",
        ESTIMATES,
        partial(_best_kept, "input", 1),
    ),
    (
        "Translation keeps the position of tokens best",
        "distance in position of the nearest states in the last layer, in tokens: the lowest other "
        "less translation",
        ("neighbours",),
        partial(_best_kept, "position", -1),
    ),
    (
        "A causal language model forgets the past",
        "information about the input token: first layer less last layer",
        ESTIMATES,
        partial(_gained, "input", -1),
    ),
    (
        "A causal language model builds the future",
        "information about the next token: last layer less first layer",
        ESTIMATES,
        partial(_gained, "output", 1),
    ),
    (
        "A masked language model loses the token, then rebuilds it",
        "information about the input token: the lower of first and last layer less the lowest "
        "layer between",
        ESTIMATES,
        _rebuilt,
    ),
    (
        "A masked language model forgets a false token and builds the right one",
        "information about a false token: first layer less last; about the right one: last less "
        "first; the smaller of both",
        ESTIMATES,
        _replaced,
    ),
    ("Rare tokens influence others most (translation)", _RARE, ("influence",), _influence),
    (
        "The influence of rare tokens goes away with swapped tokens",
        f"{_RARE}: half of it less that with swapped tokens",
        ("influence-swapped",),
        _swapped,
    ),
)
"""The paper's findings, the difference that must be above 0 in words, the quantities that it is a
difference of, and what gives it; None if the numbers are not there."""

EPOCHS: Mapping[ObjectiveName, int] = {"translation": 3, "causal-lm": 6, "masked-lm": 6}
"""Epochs of each training; those of language models take half as long."""

BATCH_TOKENS, SAVE_EVERY = 6000, 700

VOITA_OPTIONS = EvolutionOptions(
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
    configs = (
        PretrainingConfig(
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
        for objective in EPOCHS
    )
    trainings = paced(configs, seeds * len(EPOCHS), "trainings", held=True)
    return {f"{each.objective}-{each.seed}": each for each in trainings}


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
    for name, config in paced(trainings.items(), len(trainings), "trainings"):
        if not (folder / name / "config.json").exists():
            train(config, folder / name, ResumePolicy.RESUME, tell)
    return [load(folder / name) for name in trainings]


def voita2019evolution_document(evolution: Evolution) -> Document:
    """The paper's findings and what the models say, then what all comparisons of layers show."""
    record = evolution.record
    shown = evolution_document(evolution).ending(record.warnings, record.signature)
    tested = findings_table(evolution)
    blocks = (*((tested,) if tested.rows else ()), Text(ceiling_sentence(evolution)), *shown.blocks)
    return replace(shown, blocks=tuple(each for each in blocks if each != Text("")))


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
        parts.append(f"{objective} {percent(low / ceiling, 1)} to {percent(high / ceiling, 1)}")
    return (
        f"{amount(count, 'token')} have at most ln {count} = {ceiling:.3f} nats. In the last layer"
        f", of information about the input token, over estimates and seeds: {', '.join(parts)}."
    )


def findings_table(evolution: Evolution) -> Table:
    """The findings of the paper and what the models say, as a table."""
    rows = [
        [each.claim, each.measure, bands(each), each.verdict, f"{each.chance:.3f}"]
        for each in findings(evolution)
    ]
    headers = ["finding", "difference", "band over seeds", "verdict", "chance"]
    return Table.of(headers, rows, "The paper's findings")


def bands(finding: Finding) -> str:
    """The bands of a finding, named where there are several."""
    found = {name: f"{low:.4f} to {high:.4f}" for name, (low, high) in finding.bands.items()}
    if len(found) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{name.removeprefix('mi-')} {band}" for name, band in found.items())
