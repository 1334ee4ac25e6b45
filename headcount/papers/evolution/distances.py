"""Distances: PWCCA and CKA between layers of a model, and between models layer by layer."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from headcount.papers.evolution.measurement import Measurement
from headcount.papers.evolution.pwcca import Basis, cka, pwcca, shuffled_pwcca
from headcount.papers.evolution.record import EvolutionRow
from headcount.papers.evolution.state_store import StateStore
from headcount.papers.evolution.subjects import Subject
from headcount.papers.evolution.tokens import drawn

MOST_STATES = 20_000
"""Largest number of states of a distance; more are drawn from, the same for all models."""


def between_layers(subject: Subject, store: StateStore, seed: int) -> Iterator[EvolutionRow]:
    """Each layer against the next, the first and the last, with the control."""
    numbers = drawn(np.arange(len(store.occurrences)), MOST_STATES, seed)
    last = store.shape[0] - 1
    bases = {at: _basis(subject, store, at, numbers) for at in (0, last)}
    before = bases[0]
    for layer in range(last + 1):
        current = bases[layer] if layer in bases else _basis(subject, store, layer, numbers)
        if layer:
            for measured in _compared("next layer", before, current, seed):
                yield subject.row(layer - 1, measured)
            from_first = pwcca(bases[0], current)
            yield subject.row(layer, Measurement("pwcca", "first layer", from_first, len(numbers)))
        if layer != last:
            to_last = pwcca(current, bases[last])
            yield subject.row(layer, Measurement("pwcca", "last layer", to_last, len(numbers)))
        before = current


def between_models(
    subjects: Sequence[Subject],
    get: Callable[[Subject], StateStore],
    seed: int,
    progress: Callable[[int, int], None],
) -> Iterator[EvolutionRow]:
    """Each layer of each model against the same layer of each later model with its tokenizer.

    Args:
        subjects: the models.
        get: gives the states of a model.
        seed: seed of the states that are drawn.
        progress: called with the number of layers done, and of all.
    """
    pairs = [
        (first, second)
        for number, first in enumerate(subjects)
        for second in subjects[number + 1 :]
        if first.tokenizer_revision == second.tokenizer_revision
        and len(first.states) == len(second.states)
    ]
    layers = max((len(first.states) for first, _ in pairs), default=0)
    for layer in range(layers):
        bases: dict[str, Basis] = {}
        for pair in pairs:
            if layer >= len(pair[0].states):
                continue
            for subject in pair:
                if subject.label not in bases:
                    store = get(subject)
                    numbers = drawn(np.arange(len(store.occurrences)), MOST_STATES, seed)
                    bases[subject.label] = _basis(subject, store, layer, numbers)
            first, second = (bases[subject.label] for subject in pair)
            for measured in _compared(pair[1].label, first, second, seed):
                yield pair[0].row(layer, measured)
        progress(layer + 1, layers)


def _basis(subject: Subject, store: StateStore, layer: int, numbers: Any) -> Basis:
    name = f"layer {layer} of {subject.loaded.name}"
    return Basis.of(store.layer(layer, numbers), name)


def _compared(against: str, first: Basis, second: Basis, seed: int) -> Iterator[Measurement]:
    count = len(first.centred_SD)
    cross_DE = first.centred_SD.T @ second.centred_SD
    yield Measurement("pwcca", against, pwcca(first, second, cross_DE), count)
    yield Measurement("cka", against, cka(first, second, cross_DE), count)
    yield Measurement("pwcca-shuffled", against, shuffled_pwcca(first, second, seed), count)
