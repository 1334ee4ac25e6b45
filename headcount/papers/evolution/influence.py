r"""Change and influence of tokens: how much a layer changes them, and how much they change others.

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

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float32
from torch import Tensor

from headcount.core import Progress
from headcount.corpora import groups_by_length, present
from headcount.papers.evolution.distances import Basis, pwcca
from headcount.papers.evolution.record import EvolutionOptions, EvolutionRow, Measurement
from headcount.papers.evolution.stores import Row, length
from headcount.papers.evolution.subjects import Occurrences, StateStore, Subject, Tokens, drawn
from headcount.tap import StateId, heard

MOST_IN_GROUP = 2000
"""Largest number of states of a group whose change is measured, unless FEWEST asks for more."""

SENTENCES = 500
"""Largest number of sentences from which a token of a group is taken away."""

NUM_BINS = 5
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
    edges = np.unique(np.quantile(count_S, np.linspace(0, 1, NUM_BINS + 1)[1:-1], method="lower"))
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
        most = max(MOST_IN_GROUP, FEWEST * width)
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
