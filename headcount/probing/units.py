"""Units: the parts of a run of probes, and what each finds.

Distances in place of attention: the baseline that knows the words and where they stand.

Map k is 1 where the key is at offset k from the query, from -10 (and further) to 10 (and further).
The places of special tokens are those directly before and after the sentence. So the attention
probe reads distances as it reads attention.

Departure: Clark et al. (2019) do not say how their distances + GloVe baseline reads distances.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import assert_never, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import InputError
from headcount.measures import probe_heads
from headcount.probing.arc_probing import ArcTest, baseline_rows, head_weights, probe_arcs
from headcount.probing.attention_probe import ATTENTION, WORDS, ProbeData
from headcount.probing.edge_probing import probe_edges
from headcount.probing.extraction import (
    RANDOM_INIT,
    TEST,
    TRAIN,
    TRAINED,
    FeatureSets,
    probe_states,
    slots,
)
from headcount.probing.layer_probes import Asked, LayerCases, probe_layer, probe_mix
from headcount.probing.result import PROBES, ProbeName, ProbeRow, ProbeTree, ProbeWeight
from headcount.probing.structural_probe import StructureData, predicted_trees, probe_structure
from headcount.probing.treebank import ProbeSentence
from headcount.probing.vectors import WordVectors, word_vectors
from headcount.results import select
from headcount.statistics import Bootstrap

REACH = 10
"""Largest offset with a map of its own; further words share one with it."""

NUM_MAPS = 2 * REACH + 1


def distance_data(
    sentences: Sequence[ProbeSentence], vectors: WordVectors | None = None
) -> ProbeData:
    """The data of a probe that reads distances."""

    def maps_of(indices: Sequence[int]) -> Float[Tensor, "batch query key map"]:
        lengths = [len(sentences[index].words) for index in indices]
        size = max(lengths) + 2
        maps_BNNK = np.zeros((len(lengths), size, size, NUM_MAPS), dtype=np.float32)
        for row, length in enumerate(lengths):
            place = slots(length, max(lengths))
            maps_BNNK[row][np.ix_(place, place)] = distance_map(length)
        return torch.from_numpy(maps_BNNK)

    return ProbeData(sentences, NUM_MAPS, maps_of, vectors)


def distance_map(length: int) -> Float[np.ndarray, "query key map"]:
    """The maps of one sentence of some words; a word has no distance to itself."""
    position_N = np.array([*range(length), -1, length])
    offset_NN = np.clip(position_N[None] - position_N[:, None], -REACH, REACH)
    maps_NNK = np.eye(NUM_MAPS, dtype=np.float32)[offset_NN + REACH]
    maps_NNK[..., REACH] = 0
    return maps_NNK


ASKED: tuple[Asked, ...] = ("tag", "relation")

BEST = "best hidden state"
"""Name of units that read which hidden state is best."""

MASSIVE = 20
"""Norm of a word's state, in medians, from which a structural probe sees little else."""


@final
@dataclass(frozen=True)
class UnitResult:
    """What one unit found."""

    rows: tuple[ProbeRow, ...]
    weights: tuple[ProbeWeight, ...] = ()
    trees: tuple[ProbeTree, ...] = ()


Unit = Callable[[Sequence[ProbeRow]], UnitResult]
"""Does one unit of the work, given rows of other units: of all others if it `follows` them."""


@final
class Units:
    """The units of a run, and what they share.

    Args:
        features: the features of the model and its random-weight copy.
    """

    def __init__(self, features: FeatureSets) -> None:
        self.features, self.options = features, features.options
        self.progress, self._structured = features.progress, dict[tuple[str, str], StructureData]()
        self.train, self.test = (features.treebanks[side] for side in (TRAIN, TEST))
        num_sentences = len(self.test.sentences)
        self.bootstrap = Bootstrap(num_sentences, self.options.samples, self.options.seed)

    def named(self) -> dict[str, Unit]:
        """All units by name, in order."""
        return {
            f"{name}, {part}": unit
            for name in PROBES
            if name in self.options.probes
            for part, unit in self._units_of(name).items()
        }

    def follows(self, name: str) -> bool:
        """Whether a unit reads the rows of the others, so that it is done after them."""
        return BEST in name

    def _units_of(self, name: ProbeName) -> dict[str, Unit]:
        variants = (TRAINED, RANDOM_INIT)
        match name:
            case "attention":
                return {
                    "baselines": self._baselines,
                    **{each: partial(self._arcs, name, each) for each in variants},
                }
            case "words":
                return {each: partial(self._arcs, name, each) for each in (*variants, "distances")}
            case "edges":
                return {each: partial(self._edges, each) for each in variants}
            case "structure":
                return self._structures()
            case "layers":
                return {
                    **{f"hidden state {each}": partial(self._layer, each) for each in self.states},
                    "scalar mix": self._mixes,
                }
            case _:
                assert_never(name)

    def _structures(self) -> dict[str, Unit]:
        first, *others = self.ranks
        return {
            **{
                f"hidden state {state}, rank {first}": partial(self._structure, state, first)
                for state in self.states
            },
            **{f"{BEST}, rank {rank}": partial(self._best, rank, TRAINED) for rank in others},
            f"{BEST}, {RANDOM_INIT}": partial(self._best, first, RANDOM_INIT),
        }

    @cached_property
    def states(self) -> tuple[int, ...]:
        """Numbers of the hidden states that are probed.

        Raises:
            InputError: if the model lacks one.
        """
        every = range(len(probe_states(self.features.loaded)))
        if unknown := sorted(set(self.options.layers) - set(every)):
            raise InputError(
                f"Expected hidden states from 0 to {every[-1]} in --layers, got "
                f"{', '.join(map(str, unknown))}."
            )
        return tuple(sorted(set(self.options.layers))) or tuple(every)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are at most the width of a hidden state; at least one."""
        width = self.features.loaded.model.config.get_text_config().hidden_size
        fitting = tuple(dict.fromkeys(rank for rank in self.options.ranks if rank <= width))
        return fitting or (width,)

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors of all words of both treebanks."""
        sentences = [*self.train.sentences, *self.test.sentences]
        return word_vectors(self.options.vectors, self.features.loaded, sentences)

    @cached_property
    def arc_test(self) -> ArcTest:
        """How predicted arcs are measured."""
        return ArcTest(self.test.sentences, self.bootstrap, self.options.min_cases)

    def _baselines(self, so_far: Sequence[ProbeRow]) -> UnitResult:
        return UnitResult(tuple(baseline_rows(self.train.sentences, self.arc_test)))

    def _arcs(self, name: ProbeName, variant: str, so_far: Sequence[ProbeRow]) -> UnitResult:
        with_words = name == "words"
        vectors = self.vectors if with_words else None
        train, test = (
            distance_data(bank.sentences, vectors)
            if variant == "distances"
            else self._maps(variant, side, vectors)
            for side, bank in ((TRAIN, self.train), (TEST, self.test))
        )
        training = WORDS if with_words else ATTENTION
        told, seed = self._epochs(f"{name}, {variant}", training.epochs), self.options.seed
        rows, trained = probe_arcs(train, test, training, self.arc_test, variant, seed, told)
        if with_words or variant != TRAINED:
            return UnitResult(tuple(rows))
        weights = head_weights(trained, test, probe_heads(self.features.loaded))
        return UnitResult(tuple(rows), tuple(weights))

    def _edges(self, variant: str, so_far: Sequence[ProbeRow]) -> UnitResult:
        self.progress(f"edges, {variant}", 0, 1)
        train, test = (self._maps(variant, side) for side in (TRAIN, TEST))
        least, seed = self.options.min_cases, self.options.seed
        rows = probe_edges(train, test, self.bootstrap, variant, least, seed)
        self.progress(f"edges, {variant}", 1, 1)
        return UnitResult(tuple(rows))

    def _structure(
        self, state: int, rank: int, so_far: Sequence[ProbeRow], variant: str = TRAINED
    ) -> UnitResult:
        train, test = (self._structure_data(variant, side).at(state) for side in (TRAIN, TEST))
        if self.options.normalize:
            train, test = train.normalized(), test.normalized()
        told = self._epochs(f"structure, {variant}, hidden state {state}, rank {rank}", 0)
        settings = (self.bootstrap, rank, variant, self.options.seed)
        rows, distance_DR = probe_structure(train, test, *settings, told)
        drawn = variant == TRAINED and rank == self.ranks[0]
        trees = predicted_trees(test, distance_DR) if drawn else ()
        return UnitResult(tuple(rows), trees=tuple(trees))

    def massive_states(self) -> dict[int, float]:
        """The probed states with words whose norm is above `MASSIVE` medians, and the largest."""
        test = self._structure_data(TRAINED, TEST)
        ratios = {state: test.at(state).norm_ratio() for state in self.states}
        return {state: ratio for state, ratio in ratios.items() if ratio > MASSIVE}

    def _best(self, rank: int, variant: str, so_far: Sequence[ProbeRow]) -> UnitResult:
        return self._structure(best_state(so_far), rank, so_far, variant)

    def _layer(self, state: int, so_far: Sequence[ProbeRow]) -> UnitResult:
        rows: list[ProbeRow] = []
        for asked in ASKED:
            self.progress(f"layers, hidden state {state}", ASKED.index(asked), len(ASKED))
            train, test = self._layer_cases[asked]
            rows.append(probe_layer(train, test, self.bootstrap, state, self.options.seed))
        self.progress(f"layers, hidden state {state}", len(ASKED), len(ASKED))
        return UnitResult(tuple(rows))

    def _mixes(self, so_far: Sequence[ProbeRow]) -> UnitResult:
        rows: list[ProbeRow] = []
        for asked in ASKED:
            train, test = self._layer_cases[asked]
            told = self._epochs(f"layers, scalar mix, {asked}", 0)
            rows += probe_mix(train, test, self.bootstrap, self.options.seed, told)
        return UnitResult(tuple(rows))

    @cached_property
    def _layer_cases(self) -> dict[Asked, tuple[LayerCases, LayerCases]]:
        found: dict[Asked, tuple[LayerCases, LayerCases]] = {}
        train, test = (self.features.of(TRAINED, side) for side in (TRAIN, TEST))
        assert train.states is not None and test.states is not None
        for asked in ASKED:
            cases = LayerCases.of(train.sentences, train.states, asked)
            held = LayerCases.of(test.sentences, test.states, asked, cases.classes)
            found[asked] = (cases, held)
        return found

    def _structure_data(self, variant: str, side: str) -> StructureData:
        """The sentences with their tree distances, which are computed once."""
        if (variant, side) not in self._structured:
            features = self.features.of(variant, side)
            assert features.states is not None
            found = StructureData.of(features.sentences, features.states, 0)
            self._structured[variant, side] = found
        return self._structured[variant, side]

    def _maps(self, variant: str, side: str, vectors: WordVectors | None = None) -> ProbeData:
        features = self.features.of(variant, side)
        assert features.maps is not None
        return ProbeData.of(features.sentences, features.maps, vectors)

    def _epochs(self, stage: str, total: int) -> Callable[[int], None]:
        return lambda epoch: self.progress(f"{stage}: epochs", epoch, total)


def best_state(rows: Sequence[ProbeRow]) -> int:
    """The hidden state with the largest UUAS so far, for further ranks and controls."""
    found = select(rows, probe="structure", variant=TRAINED, metric="uuas")
    best = max(found, key=lambda row: row.value)
    assert best.layer is not None
    return best.layer
