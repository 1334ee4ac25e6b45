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


*Change* of a group in a layer is the PWCCA distance between what enters and what leaves the layer,
over the group's states. *Influence* of a group on a layer is the PWCCA distance between what the
layer returns for all other tokens with a token of the group, and without it:

$$\mathrm{influence}_l(G) = d\big(\{x_{l+1}(j)\}_{j \neq i},\;
\{x_{l+1}(j \mid \text{no token attends to } i \text{ in layer } l)\}_{j \neq i}\big)$$

with one token i of the group in every sentence that has one. The layer reads the same states in
both cases, so only this layer's attention to i differs. Two forward passes give all layers: in the
second, token i is masked out everywhere, and every layer but the one measured gets the states of
the first.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
section 5.3, https://arxiv.org/abs/1909.01380
Departure: bins of frequency have about as many tokens of text each, and each group has the same
largest number of states, since the distance depends on it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from torch import Tensor

from headcount.core import InputError, Progress, amount
from headcount.corpora import groups_by_length, present
from headcount.papers.evolution.record import EvolutionOptions, EvolutionRow, Measurement
from headcount.papers.evolution.stores import Row, length
from headcount.papers.evolution.subjects import Occurrences, StateStore, Subject, Tokens, drawn
from headcount.tap import StateId, heard

MOST_STATES = 20_000
"""Largest number of states of a distance; more are drawn from, the same for all models."""

_RANK_TOLERANCE = 1e-5
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
        kept = square_D > _RANK_TOLERANCE**2 * square_D[-1]
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


_MOST_IN_GROUP = 2000
"""Largest number of states of a group whose change is measured, unless FEWEST asks for more."""

SENTENCES = 500
"""Largest number of sentences from which a token of a group is taken away."""

_NUM_BINS = 5
"""Number of bins of frequency, with about as many tokens of text in each."""

FEWEST = 4
"""Number of states that a distance needs, as a multiple of their width."""


def frequency_bins(
    tokens: Tokens, chosen: Occurrences
) -> Iterator[tuple[str, Bool[np.ndarray, " state"]]]:
    """Names of the bins, the rarest first, and which occurrences are in each.

    Edges are quantiles of the corpus frequency over the occurrences. All occurrences of a token are
    in one bin, so bins are only about equally large.
    """
    count_S = tokens.counts()[chosen.token_S]
    edges = np.unique(np.quantile(count_S, np.linspace(0, 1, _NUM_BINS + 1)[1:-1], method="lower"))
    bin_S = np.searchsorted(edges, count_S, side="left")
    for number in np.unique(bin_S):
        is_in_S = bin_S == number
        low, high = count_S[is_in_S].min(), count_S[is_in_S].max()
        yield f"frequency {low}-{high}", is_in_S


def groups_of(
    tokens: Tokens, chosen: Occurrences
) -> Iterator[tuple[str, Bool[np.ndarray, " state"]]]:
    """All groups: bins of frequency, then tags if the corpus has them."""
    yield from frequency_bins(tokens, chosen)
    for number, tag in enumerate(tokens.tags):
        yield f"tag {tag}", chosen.tag_S == number


def change_rows(
    subject: Subject, tokens: Tokens, store: StateStore, options: EvolutionOptions
) -> Iterator[EvolutionRow]:
    """The change of every group in every layer; too small groups have none."""
    num_layers, _, width = store.shape
    for name, is_in_S in groups_of(tokens, store.occurrences):
        most = max(_MOST_IN_GROUP, FEWEST * width)
        numbers = drawn(np.flatnonzero(is_in_S), most, options.seed)
        if len(numbers) < FEWEST * width:
            continue
        bases = [Basis.of(store.layer(layer, numbers), name) for layer in range(num_layers)]
        for layer in range(num_layers - 1):
            value = pwcca(bases[layer], bases[layer + 1])
            yield subject.row(layer, Measurement("change", name, value, len(numbers)))


def influence_rows(
    subject: Subject,
    tokens: Tokens,
    chosen: Occurrences,
    options: EvolutionOptions,
    progress: Progress,
) -> Iterator[EvolutionRow]:
    """The influence of every group on every layer; too small groups have none.

    With a share of swapped tokens, `influence-swapped` joins `influence`: the same tokens
    are taken from the same sentences, in which other tokens were replaced.
    """
    groups = list(groups_of(tokens, chosen))
    for done, (name, is_in_S) in enumerate(groups, start=1):
        rows = rows_without(tokens, chosen, is_in_S, options.seed)
        if sum(len(row.ids) - 2 for row in rows) >= FEWEST * subject.width:
            yield from _of_group(subject, rows, "influence", name, options)
            if options.swap:
                swapped = swap_tokens(tokens, rows, options.swap, options.seed)
                yield from _of_group(subject, swapped, "influence-swapped", name, options)
        progress(f"{subject.label}, influence: groups", done, len(groups))


def rows_without(
    tokens: Tokens,
    chosen: Occurrences,
    is_in_S: Bool[np.ndarray, " state"],
    seed: int,
) -> list[Row]:
    """Sentences with a token of the group: its position, after those of all other content tokens.

    Sentences with fewer than two content tokens have no others and are left out.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(np.flatnonzero(is_in_S))
    _, first = np.unique(chosen.sentence_S[order], return_index=True)
    rows = []
    for number in order[np.sort(first)]:
        sentence = int(chosen.sentence_S[number])
        inside = slice(*tokens.starts[sentence : sentence + 2])
        content = np.flatnonzero(tokens.is_content_T[inside])
        position = chosen.position_S[number]
        others = content[content != position]
        if len(others):
            positions = np.append(others, position)
            rows.append(Row(tokens.ids_T[inside], positions, positions))
        if len(rows) == SENTENCES:
            break
    return rows


def swap_tokens(tokens: Tokens, rows: Sequence[Row], share: float, seed: int) -> list[Row]:
    """The same inputs with a share of their other content tokens, rounded, replaced.

    Replacements are drawn from all content tokens of the corpus. So frequent tokens are frequent
    among them.
    """
    generator = np.random.default_rng(seed)
    usual = tokens.ids_T[tokens.is_content_T]
    found = []
    for row in rows:
        others = row.positions[:-1]
        count = round(share * len(row.positions))
        places = generator.choice(others, min(count, len(others)), replace=False)
        ids = row.ids.copy()
        ids[places] = generator.choice(usual, len(places))
        found.append(Row(ids, row.numbers, row.positions))
    return found


def _of_group(
    subject: Subject, rows: Sequence[Row], quantity: str, name: str, options: EvolutionOptions
) -> Iterator[EvolutionRow]:
    listener = _Listener(subject)
    with heard(subject.loaded.model, subject.loaded.anatomy, hidden_states=listener):
        for batch in groups_by_length(rows, length, options.max_tokens):
            listener.read(batch)
    for layer, (with_SD, without_SD) in enumerate(listener.pairs()):
        if len(with_SD) >= FEWEST * subject.width:
            value = pwcca(Basis.of(with_SD, name), Basis.of(without_SD, name))
            yield subject.row(layer, Measurement(quantity, name, value, len(with_SD)))


@final
class _Listener:
    """Hears every layer with and without a token of each input.

    Args:
        subject: the model.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._layer = {state: number for number, state in enumerate(subject.states)}
        self._clean: dict[int, Tensor] = {}
        self._is_clean = True
        last = len(subject.states)
        self._with: list[list[Tensor]] = [[] for _ in range(last)]
        self._without: list[list[Tensor]] = [[] for _ in range(last)]

    def read(self, batch: Sequence[Row]) -> None:
        """Run the model with all tokens, then without the last of each row's positions."""
        ids = [row.ids.tolist() for row in batch]
        others = [row.positions[:-1] for row in batch]
        rows = np.repeat(np.arange(len(batch)), [len(each) for each in others])
        self._places = torch.from_numpy(rows), torch.from_numpy(np.concatenate(others))
        is_seen_BN = torch.from_numpy(present(ids))
        self._is_clean = True
        self._subject.loaded.read_sources(ids)
        is_seen_BN[np.arange(len(batch)), [int(row.positions[-1]) for row in batch]] = False
        self._is_clean = False
        self._subject.loaded.read_sources(ids, is_seen_BN)
        self._clean.clear()

    def __call__(self, state: StateId, state_BND: Tensor) -> Tensor | None:
        """Hear one state; the second time, the layers above get that of the first."""
        if (layer := self._layer.get(state)) is None:
            return None
        kept = self._with if self._is_clean else self._without
        if layer:
            rows, positions = (each.to(state_BND.device) for each in self._places)
            kept[layer - 1].append(state_BND[rows, positions].float().cpu())
        if self._is_clean:
            self._clean[layer] = state_BND.clone()
            return None
        return self._clean[layer]

    def pairs(self) -> Iterator[tuple[Float32[np.ndarray, "_ _"], Float32[np.ndarray, "_ _"]]]:
        """For every layer, the states of the other tokens with and without the token."""
        for with_it, without in zip(self._with[:-1], self._without[:-1], strict=True):
            yield torch.cat(with_it).numpy(), torch.cat(without).numpy()
