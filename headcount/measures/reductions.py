"""Reductions: what one layer's attention on one batch can be reduced to, and what a measure reads.

Every reduction is one over keys (or queries) of the weights A. Its size is batch x heads x tokens,
never tokens x tokens. A measure declares the reductions that it needs; the others are not computed.
A kernel of the tap computes them (`tap/listener.py`), and `AttentionReducer` (reducer.py) says what
they are of a batch's tokens.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from headcount.core import SITES, Grid, ModelError, amount
from headcount.corpora import Arcs, Tokens
from headcount.measures.arcs import Words
from headcount.tap import AttentionLayer, Counted, Reduction, moved

T = TypeVar("T")

OFFSETS = (-2, -1, 0, 1, 2)
"""Diagonals whose weights are recorded, as key minus query."""

MASSES = ("sep", "punct")
"""Classes of keys whose weights are summed."""

NORM_MASSES = ("norm", "norm_first", "norm_sep", "norm_punct")
"""Classes of keys (all, first, separators, punctuation) whose weights times norms are summed."""


GRID_MASSES = ("row", "column", "patches", "distance")
"""Sums of weights on the query's row, its column, all patches, and of weights times distances."""


@final
@dataclass(frozen=True, eq=False)
class Sides:
    """The tokens of one batch's attention; what its layers share is computed once."""

    queries: Tokens
    """The tokens that attend and are measured."""
    keys: Tokens
    """The tokens attended to; in self-attention the same object as `attending`."""
    arcs: Arcs | None = None
    """Dependency arcs over the words, if sentences have trees and attend to themselves."""
    is_causal: bool = False
    """Whether no token attends to a later one."""
    with_context: Tokens | None = None
    """All tokens that attend, if some are context and not measured (see `corpora/encoder.py`)."""
    grid: Grid | None = None
    """Patches of the images; None for sentences."""
    last_BQ: Int64[Tensor, "batch query"] | None = None
    """The last key that each query sees, where a causal model shows some later ones (pictures see
    themselves); all earlier keys are seen, too."""
    host: "Sides | None" = None
    """The same in main memory, where facts are found without waiting; None if these are there."""
    _made: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def attending(self) -> Tokens:
        """All tokens that attend, context included."""
        return self.queries if self.with_context is None else self.with_context

    @property
    def is_self(self) -> bool:
        """Whether tokens attend to their own sequence."""
        return self.attending is self.keys

    @property
    def measured_keys(self) -> Tokens:
        """The keys; in self-attention, without those that are context here."""
        return self.queries if self.is_self else self.keys

    @property
    def device(self) -> torch.device:
        """Where the tokens are."""
        return self.keys.ids_BN.device

    @property
    def segment_BN(self) -> Int64[Tensor, "batch token"] | None:
        """Segment of each token; None if no row has two, and between two sequences."""
        return self.once(_segments)

    @cached_property
    def counted(self) -> Counted:
        """The tokens that count in what kernels compute."""
        attending, queries, keys = self.attending, self.queries, self.keys
        sides = (attending.is_token_BN, queries.is_token_BN, keys.is_token_BN, keys.is_content_BN)
        return Counted(*sides, OFFSETS, None if self.host is None else self.host.counted)

    def once(self, make: Callable[["Sides"], T]) -> T:
        """What a function makes of these tokens, shared by layers and measures.

        It is made once, in main memory if the tokens are there, too.
        """
        if make not in self._made:
            host = self.host
            found = make(self) if host is None else moved(host.once(make), self.device)
            self._made[make] = found
        return self._made[make]

    @cached_property
    def words(self) -> Words | None:
        """The words that arcs are between."""
        if self.arcs is None:
            return None
        host = None if self.host is None else self.host.words
        return Words(self.keys, self.arcs, self.queries.is_token_BN, host)

    def to(self, device: torch.device) -> "Sides":
        """The same tokens on a device."""
        if device == self.device:
            return self
        tokens = (self.queries, self.keys, self.with_context)
        copies = {id(each): moved(each, device) for each in tokens}
        queries, keys, with_context = (copies[id(each)] for each in tokens)
        arcs = moved(self.arcs, device)
        last_BQ = moved(self.last_BQ, device)
        return Sides(queries, keys, arcs, self.is_causal, with_context, self.grid, last_BQ, self)


def _segments(sides: Sides) -> Int64[Tensor, "batch token"] | None:
    return segments(sides.keys) if sides.is_self else None


def segments(tokens: Tokens) -> Int64[Tensor, "batch token"] | None:
    """Segment of each token; None if no row has two segments.

    A segment begins at the first content token after a separator. So a second separator (RoBERTa)
    or a language code (mBART), which follow a sentence as part of it, do not start a segment.
    """
    is_sep_BN = tokens.is_sep_BN.long()
    before_BN = is_sep_BN.cumsum(1) - is_sep_BN
    segment_BN = (before_BN * tokens.is_content_BN).cummax(1).values * tokens.is_token_BN
    return segment_BN if bool(segment_BN.any()) else None


def _join(reduction: Reduction, layers: list[Any]) -> Any:
    """One reduction of several layers, joined along heads; None if there is nothing to join."""
    match reduction, layers[0]:
        case _, None:
            return None
        case Reduction.WORD_LOOKS, _:
            return torch.cat(layers)
        case _, several if several.ndim == 4:  # each kind by itself, so that sums are vectorised
            return torch.cat([each.movedim(-1, 0) for each in layers], 2).movedim(0, -1)
        case _:
            return torch.cat(layers, 1)


@final
@dataclass(frozen=True)
class _Read(Generic[T]):
    """A reduction as an attribute of `Attention`, for measures that declare it."""

    reduction: Reduction

    def __get__(self, attention: "Attention", owner: type) -> T:
        assert self.reduction in attention.needs, (
            f"{attention.reader} reads {self.reduction.offered}, which it does not declare. Add "
            f"Reduction.{self.reduction.name} to its `needs`."
        )
        return attention.reduced[self.reduction]


@final
@dataclass(frozen=True)
class Attention:
    """One layer's attention over one batch: B sentences, H heads, Q queries, K keys.

    It holds the reductions that were asked for. Reading another one is an error of the measure.
    """

    layer: AttentionLayer
    sides: Sides
    reduced: Mapping[Reduction, Any]
    """The computed reductions."""
    needs: Set[Reduction]
    """The reductions that may be read."""
    reader: str = "A measure"
    """Name of the measure that reads."""
    values_H: Float[Tensor, " head"] | None = None
    """Sum of each head's values, if their norms are not among the reductions."""

    @classmethod
    def join(cls, layers: Sequence["Attention"]) -> "Attention":
        """The attention of several layers over the same tokens, with the heads of one another."""
        first, reduced = layers[0], {}
        for reduction in first.reduced:
            reduced[reduction] = _join(reduction, [each.reduced[reduction] for each in layers])
        values = [each.values_H for each in layers if each.values_H is not None]
        return replace(first, reduced=reduced, values_H=torch.cat(values) if values else None)

    @property
    def size(self) -> int:
        """Number of bytes that the reductions take."""
        return sum(each.nbytes for each in self.reduced.values() if isinstance(each, Tensor))

    def total_H(self) -> Float[Tensor, " head"]:
        """A sum over each head, which is finite if all of its weights and values are."""
        # A weight that is not finite makes its whole row of weights so
        total_H = _sum(self.reduced[Reduction.FIRST], self.queries.is_token_BN)
        if self.values_H is not None:
            return total_H + self.values_H
        return total_H + _sum(self.reduced[Reduction.VALUE_NORM], self.keys.is_token_BN)

    @property
    def queries(self) -> Tokens:
        """The tokens that attend and are measured."""
        return self.sides.queries

    @property
    def keys(self) -> Tokens:
        """The tokens attended to."""
        return self.sides.keys

    @property
    def arcs(self) -> Arcs | None:
        """Dependency arcs, if sentences have trees and attend to themselves."""
        return self.sides.arcs

    def read_by(self, reader: str, needs: Set[Reduction]) -> "Attention":
        """The same attention for one measure, which may only read what it needs."""
        return replace(self, reader=reader, needs=needs)

    peak_BHQ = _Read[Float[Tensor, "batch head query"]](Reduction.PEAK)
    """Largest weight on a content key."""
    peak_key_BHQ = _Read[Int64[Tensor, "batch head query"]](Reduction.PEAK_KEY)
    """The content key with the largest weight; the earliest in a tie."""
    peak_later_BHQ = _Read[Int64[Tensor, "batch head query"]](Reduction.PEAK_LATER)
    """The content key with the largest weight, the first token of the text left out."""
    peak_special_BHQ = _Read[Float[Tensor, "batch head query"]](Reduction.PEAK_SPECIAL)
    """Largest weight on a special key."""
    entropy_BHQ = _Read[Float[Tensor, "batch head query"]](Reduction.ENTROPY)
    """-sum A ln A over all keys, in nats."""
    diagonals_BHQO = _Read[Float[Tensor, "batch head query offset"]](Reduction.DIAGONALS)
    """Weight on the key at query + offset, for each of `OFFSETS`; 0 if there is none."""
    first_BHQ = _Read[Float[Tensor, "batch head query"]](Reduction.FIRST)
    """Weight on the first token."""
    none_BHQ = _Read[Float[Tensor, "batch head query"]](Reduction.NONE)
    """What the weights on all keys lack to 1."""
    masses_BHQM = _Read[Float[Tensor, "batch head query mass"]](Reduction.MASS)
    """Weight on each class of keys, in the order of `MASSES`."""
    norm_masses_BHQM = _Read[Float[Tensor, "batch head query mass"]](Reduction.NORM_MASS)
    """Weight times value norm on each class of keys, in the order of `NORM_MASSES`."""
    own_segment_BHQ = _Read[Float[Tensor, "batch head query"] | None](Reduction.OWN_SEGMENT)
    """Weight on the query's own segment, separators included; None without two segments."""
    kinds_BHQM = _Read[Float[Tensor, "batch head query mass"] | None](Reduction.KINDS)
    """Weight on tokens of pictures, and on those of what the text says; None without pictures."""
    column_BHK = _Read[Float[Tensor, "batch head key"]](Reduction.COLUMN)
    """Sum over the measured queries of the weight on each key."""
    value_norm_BHK = _Read[Float[Tensor, "batch head key"]](Reduction.VALUE_NORM)
    """||f(x_j)|| = ||v_j W_O^h||; NaN if no output projection was found."""
    arc_hits_AHD = _Read[Bool[Tensor, "arc head direction"] | None](Reduction.ARC_HITS)
    """Whether each head predicts each arc, in each of `DIRECTIONS`; None without trees."""
    word_looks_HSO = _Read[Int64[Tensor, "head side offset"]](Reduction.WORD_LOOKS)
    """Number of words that look most at the word at each offset, see `arcs.ArcHits.looks`."""
    beside_BHQO = _Read[Float[Tensor, "batch head query displacement"]](Reduction.BESIDE)
    """Weight on the patch at each displacement up to one row and one column; 0 if none is."""

    grid_masses_BHQM = _Read[Float[Tensor, "batch head query mass"]](Reduction.GRID_MASS)
    """Sums over patches, in the order of `GRID_MASSES`; 0 for queries that are no patch."""

    class_weights_BHQT = _Read[Float[Tensor, "batch head query trait"]](Reduction.CLASS_WEIGHTS)
    """Weight on each class of keys of plug-ins' traits."""

    def grid_mass(self, name: str) -> Float[Tensor, "batch head query"]:
        """A sum over patches by its name."""
        return self.grid_masses_BHQM[..., GRID_MASSES.index(name)]


def check_finite(total_H: Float[Tensor, " head"], layers: Sequence[AttentionLayer]) -> None:
    """Refuse weights or values that are not finite.

    Args:
        total_H: `Attention.total_H` of all heads of the layers.
        layers: the layers.

    Raises:
        ModelError: names the first head.
    """
    if total_H.isfinite().all():
        return
    is_finite = total_H.isfinite().split([layer.num_heads for layer in layers])
    layer, its = next(each for each in zip(layers, is_finite, strict=True) if not each[1].all())
    broken = (~its).tolist()
    name = f"{SITES[layer.site]}.{layer.layer}.{broken.index(True)}"
    raise ModelError(
        f"Expected finite attention weights and values, got NaN or infinity in head {name} "
        f"({sum(broken)} of the layer's {amount(len(broken), 'head')} have some). Check the "
        f"parameters of {layer.module}, or load the model in float32."
    )


def _sum(numbers_BHN: Tensor, counts_BN: Tensor) -> Float[Tensor, " head"]:
    return (numbers_BHN * counts_BN[:, None]).sum((0, 2))
