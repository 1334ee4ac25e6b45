r"""Distances: PWCCA and CKA between layers of a model, and between models layer by layer.

PWCCA says how far apart two sets of states of the same tokens are, up to an invertible linear map.

With canonical correlations rho_i and canonical variates h_i of the first set X,

$$d(X, Y) = 1 - \frac{\sum_i \alpha_i\, \rho_i}{\sum_i \alpha_i}, \qquad
\alpha_i = \sum_j |\langle h_i, x_j \rangle| \in [0, 1]$$

where x_j are the columns of X: a canonical direction counts as much as it accounts for X.

Reference: Insights on representational similarity in neural networks with canonical correlation
(Morcos et al., 2018), section 2, https://arxiv.org/abs/1806.05759
Departure: directions of X and Y below 1e-5 of the largest singular value, which float16 can't
represent, are left out. The measure is not symmetric: the first set is the lower
layer, or the first model.

Linear CKA is reported, too: `||Y'X||^2 / (||X'X|| ||Y'Y||)`, Frobenius norms of centred sets.
Reference: Similarity of Neural Network Representations Revisited (Kornblith et al., 2019), section
3, https://arxiv.org/abs/1905.00414
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float32, Float64

from headcount.core import InputError, amount
from headcount.papers.evolution.record import EvolutionRow, Measurement
from headcount.papers.evolution.subjects import StateStore, Subject, drawn

MOST_STATES = 20_000
"""Largest number of states of a distance; more are drawn from, the same for all models."""

RANK_TOLERANCE = 1e-5
"""Singular values below this share of the largest are rounding of float16."""


@final
@dataclass(frozen=True, eq=False)
class Basis:
    """A set of states, centred, with the matrix that makes its columns orthonormal."""

    centred_SD: Float64[np.ndarray, "state width"]
    gram_DD: Float64[np.ndarray, "width width"]
    """Inner products of the columns."""
    whitening_DK: Float64[np.ndarray, "width rank"]
    """`centred @ whitening` is an orthonormal basis."""

    @classmethod
    def of(cls, states_SD: Float32[np.ndarray, "state width"], name: str = "the states") -> "Basis":
        """The basis of some states.

        Raises:
            InputError: if the states don't vary, or are no more than their width.
        """
        centred_SD = states_SD.astype(np.float64)
        centred_SD -= centred_SD.mean(0)
        count, width = centred_SD.shape
        scale = np.abs(states_SD).max(initial=0.0)
        if not np.abs(centred_SD).max(initial=0.0) > 1e-6 * scale:
            raise InputError(
                f"Expected states that vary, got the same state {amount(count, 'time')} in {name}: "
                "canonical correlations are not defined. Leave this layer out."
            )
        if count <= width:
            raise InputError(
                f"Expected more states than their width ({width:,}), got {count:,} in {name}: any "
                "two such sets are linearly the same. Give a larger corpus or more --sentences."
            )
        gram_DD = centred_SD.T @ centred_SD
        square_D, direction_DD = np.linalg.eigh(gram_DD)
        kept = square_D > RANK_TOLERANCE**2 * square_D[-1]
        return cls(centred_SD, gram_DD, direction_DD[:, kept] / np.sqrt(square_D[kept]))


def pwcca(
    first: Basis, second: Basis, cross_DE: Float64[np.ndarray, "width width2"] | None = None
) -> float:
    """Projection-weighted CCA distance of the second set from the first.

    Args:
        first: the set whose directions count.
        second: the other set.
        cross_DE: inner products of their columns, if they are known.
    """
    if cross_DE is None:
        cross_DE = first.centred_SD.T @ second.centred_SD
    left_KR, rho_R, _ = np.linalg.svd(
        first.whitening_DK.T @ cross_DE @ second.whitening_DK, full_matrices=False
    )
    weight_R = np.abs(left_KR.T @ first.whitening_DK.T @ first.gram_DD).sum(1)
    return float(1 - (weight_R * np.clip(rho_R, 0, 1)).sum() / weight_R.sum())


def cka(
    first: Basis, second: Basis, cross_DE: Float64[np.ndarray, "width width2"] | None = None
) -> float:
    """Linear CKA of two sets: 1 if they are the same up to rotation and scale, 0 if unrelated."""
    if cross_DE is None:
        cross_DE = first.centred_SD.T @ second.centred_SD
    norms = np.linalg.norm(first.gram_DD) * np.linalg.norm(second.gram_DD)
    return float(np.linalg.norm(cross_DE) ** 2 / norms)


def shuffled_pwcca(first: Basis, second: Basis, seed: int) -> float:
    """The distance after the states of the second set are shuffled: what independence gives."""
    order = np.random.default_rng(seed).permutation(len(second.centred_SD))
    return pwcca(first, second, first.centred_SD.T @ second.centred_SD[order])


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
