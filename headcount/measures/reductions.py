"""Reductions: what one layer's attention on one batch can be reduced to, and what a measure reads.

Every reduction is one over keys (or queries) of the weights A. Its size is batch x heads x tokens,
never tokens x tokens. A measure declares the reductions that it needs; the others are not computed.
`AttentionReducer` (reducer.py) computes them.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, final

from jaxtyping import Float, Int64
from torch import Tensor

from headcount.corpora import Arcs, Tokens
from headcount.tap import AttentionLayer

OFFSETS = (-2, -1, 0, 1, 2)
"""Diagonals whose weights are recorded, as key minus query."""

MASSES = ("sep", "punct")
"""Classes of keys whose weights are summed."""

NORM_MASSES = ("norm", "norm_first", "norm_sep", "norm_punct")
"""Classes of keys (all, first, separators, punctuation) whose weights times norms are summed."""


@final
class Reduction(Enum):
    """What one layer's attention on one batch can be reduced to: what `Attention` offers."""

    PEAK = "peak_BHQ"
    PEAK_KEY = "peak_key_BHQ"
    PEAK_SPECIAL = "peak_special_BHQ"
    ENTROPY = "entropy_BHQ"
    DIAGONALS = "diagonals_BHQO"
    FIRST = "first_BHQ"
    MASS = "mass"
    NORM_MASS = "norm_mass"
    OWN_SEGMENT = "own_segment_BHQ"
    COLUMN = "column_BHK"
    VALUE_NORM = "value_norm_BHK"
    WORDS = "words"


@final
@dataclass(frozen=True)
class Attention:
    """One layer's attention over one batch: B sentences, H heads, Q queries, K keys.

    It holds the reductions that were asked for. Reading another one is an error of the measure.
    """

    layer: AttentionLayer
    queries: Tokens
    keys: Tokens
    arcs: Arcs | None
    reduced: Mapping[Reduction, Any]
    """The computed reductions."""
    needs: Set[Reduction]
    """The reductions that may be read."""
    reader: str = "A measure"
    """Name of the measure that reads."""

    def read_by(self, reader: str, needs: Set[Reduction]) -> "Attention":
        """The same attention for one measure, which may only read what it needs."""
        return replace(self, reader=reader, needs=needs)

    def _of(self, reduction: Reduction) -> Any:
        assert reduction in self.needs, (
            f"{self.reader} reads {reduction.value}, which it does not declare. Add "
            f"Reduction.{reduction.name} to its `needs`."
        )
        return self.reduced[reduction]

    @property
    def peak_BHQ(self) -> Float[Tensor, "batch head query"]:
        """Largest weight on a content key."""
        return self._of(Reduction.PEAK)

    @property
    def peak_key_BHQ(self) -> Int64[Tensor, "batch head query"]:
        """The content key with the largest weight; the earliest in a tie."""
        return self._of(Reduction.PEAK_KEY)

    @property
    def peak_special_BHQ(self) -> Float[Tensor, "batch head query"]:
        """Largest weight on a special key."""
        return self._of(Reduction.PEAK_SPECIAL)

    @property
    def entropy_BHQ(self) -> Float[Tensor, "batch head query"]:
        """-sum A ln A over all keys, in nats."""
        return self._of(Reduction.ENTROPY)

    @property
    def diagonals_BHQO(self) -> Float[Tensor, "batch head query offset"]:
        """Weight on the key at query + offset, for each of `OFFSETS`; 0 if there is none."""
        return self._of(Reduction.DIAGONALS)

    @property
    def first_BHQ(self) -> Float[Tensor, "batch head query"]:
        """Weight on the first token."""
        return self._of(Reduction.FIRST)

    def mass(self, name: str) -> Float[Tensor, "batch head query"]:
        """Weight on one class of keys, by its name in `MASSES`."""
        return self._of(Reduction.MASS)[..., MASSES.index(name)]

    def norm_mass(self, name: str) -> Float[Tensor, "batch head query"]:
        """Weight times value norm on one class of keys, by its name in `NORM_MASSES`."""
        return self._of(Reduction.NORM_MASS)[..., NORM_MASSES.index(name)]

    @property
    def own_segment_BHQ(self) -> Float[Tensor, "batch head query"] | None:
        """Weight on the query's own segment, separators included; None without two segments."""
        return self._of(Reduction.OWN_SEGMENT)[0]

    @property
    def segment_BN(self) -> Int64[Tensor, "batch token"] | None:
        """Segment number of each token, increasing, possibly with gaps; None if no row has two."""
        return self._of(Reduction.OWN_SEGMENT)[1]

    @property
    def column_BHK(self) -> Float[Tensor, "batch head key"]:
        """Sum over the (non-padding) queries of the weight on each key."""
        return self._of(Reduction.COLUMN)

    @property
    def value_norm_BHK(self) -> Float[Tensor, "batch head key"]:
        """||f(x_j)|| = ||v_j W_O^h||; NaN if no output projection was found."""
        return self._of(Reduction.VALUE_NORM)

    @property
    def word_keys_BHW(self) -> Int64[Tensor, "batch head word"] | None:
        """The other word each word attends to most, -1 if it sees none; None without trees."""
        return self._of(Reduction.WORDS)[0]

    @property
    def word_queries_BHW(self) -> Int64[Tensor, "batch head word"] | None:
        """The other word that attends most to each word, -1 if none sees it; None without trees."""
        return self._of(Reduction.WORDS)[1]
