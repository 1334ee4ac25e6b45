"""Evolution of representations: its options, a row for each number, and `evolution.json`.

Needs no torch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, final, get_args

from headcount.core import (
    BELOW_1,
    MAX_TOKENS,
    CorpusError,
    Count,
    InputError,
    Seed,
    at_least,
    check_known,
    check_options,
)
from headcount.results import Record, Result, select, table

QuantityName = Literal["information", "distance", "neighbours", "influence", "pictures"]
QUANTITIES: tuple[QuantityName, ...] = get_args(QuantityName)
"""Every kind of number, in the order in which they are measured."""


@final
@dataclass(frozen=True)
class EvolutionOptions:
    """Settings of `evolve`, in Python and as options of the command."""

    measure: tuple[QuantityName, ...] = ("information",)
    """What to measure: information (mutual information with tokens), distance (PWCCA and CKA
    between layers and models), neighbours (what the nearest states share), influence (change and
    influence of tokens by frequency and tag), pictures (t-SNE of --words)."""
    occurrences: Annotated[int, at_least(2)] = 1000
    """Number of occurrences of each chosen token, as in the paper; rarer tokens are not chosen."""
    types: Annotated[int, at_least(2)] = 1000
    """Largest number of chosen tokens, the most frequent first, as in the paper."""
    clusters: Annotated[int | None, at_least(2)] = None
    """Number of clusters of mutual information; by default one for every 100 states, as 10,000 for
    the paper's million."""
    sentences: Annotated[int, at_least(2)] = 5000
    """Number of sentences for distance and influence, as in the paper."""
    nearest: Count = 50
    """Number of nearest states."""
    queries: Count = 1000
    """Number of states whose neighbours are searched."""
    pool: Annotated[int, at_least(3)] = 50_000
    """Largest number of states among which they are searched."""
    swap: Annotated[float, BELOW_1] = 0.0
    """Share of the tokens of each sentence that influence replaces by other tokens of the corpus;
    0.1 in the paper's second experiment."""
    words: tuple[str, ...] = ("is", "are", "was", "were")
    """Words in pictures."""
    max_tokens: Count = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    seed: Seed = 0
    """Seed of occurrences, clusters, shuffles, swaps and pictures."""

    def __post_init__(self) -> None:
        check_options(self)
        if not self.measure:
            raise InputError(f"Expected a quantity out of {', '.join(QUANTITIES)}, got none.")
        for name in self.measure:
            check_known("a quantity", name, QUANTITIES)


def check_clusters(num_states: int, num_clusters: int) -> None:
    """Check that there are states for all clusters.

    Raises:
        CorpusError: if there are fewer.
    """
    if num_states < num_clusters:
        raise CorpusError(
            f"Expected at least as many states as clusters ({num_clusters:,}), got "
            f"{num_states:,}. Give a larger corpus, or lower --clusters."
        )


_NUMBERS = "the numbers of a comparison of layers"


@final
@dataclass(frozen=True)
class Measurement:
    """One number with the number of cases that it is over."""

    quantity: str
    """What was measured, e.g. `mi` or `pwcca`."""
    against: str
    """What the states were compared with, e.g. `input` or `next layer`."""
    value: float
    cases: int
    """Number of states, or of other cases, that the number is over."""
    low: float = math.nan
    """Lower end of the quantity's interval; NaN without one."""
    high: float = math.nan
    """Upper end of that interval."""


@dataclass(frozen=True)
class OfModel:
    """Something of one of the models that are compared."""

    model: str
    """Hub name of the model, or the name of its folder."""
    objective: str
    """Training objective: translation, causal-lm, masked-lm, or encoder for any other encoder."""
    seed: int
    """Number of the model among those of its objective, from 1, in the order given."""


@final
@dataclass(frozen=True)
class EvolutionRow(OfModel):
    """One number of one layer of one model."""

    layer: int
    """Number of the hidden state, 0 for what enters the first layer."""
    quantity: str
    """What was measured, e.g. `mi` or `pwcca`."""
    against: str
    """What the states were compared with, e.g. `input`, `next layer` or `causal-lm-2`."""
    value: float
    low: float = math.nan
    """Lower end of the interval that docs/evolution.md names for the quantity; NaN without one."""
    high: float = math.nan
    """Upper end of that interval."""
    cases: int = 0
    """Number of states, or of other cases, that the number is over."""

    @property
    def label(self) -> str:
        """The model by objective and seed, e.g. `causal-lm-2`."""
        return f"{self.objective}-{self.seed}"


@final
@dataclass(frozen=True)
class EvolutionPoint(OfModel):
    """One state of a token in a plane (t-SNE)."""

    layer: int
    """Number of the hidden state."""
    token: str
    """The token."""
    position: int
    """Position of the token in its sentence, from 0."""
    x: float
    y: float
    picture: str = "words"
    """Picture that the point is in: `words`, `position` (of the first word) or `tags`."""
    label: str = ""
    """What the point is coloured by in `position` and `tags`: positions, or a tag."""


@final
@dataclass(frozen=True)
class StoreFacts(OfModel):
    """Facts about the states of one model that were compared."""

    view: str
    """Which states: `text`, `output` or `sentences`."""
    occurrences: int
    """Number of occurrences of each token; 0 where all tokens of sentences were taken."""
    types: int
    """Number of different tokens."""
    states: int
    """Number of states in each layer."""
    num_bytes: int
    """Size on disk."""


@final
@dataclass(frozen=True, kw_only=True)
class EvolutionRecord(Record):
    """Facts about a comparison of layers that its tables do not hold."""

    FILE = "evolution.json"
    COMMAND = "headcount evolve"

    models: tuple[str, ...]
    """Names of the models, as in the rows."""
    corpora: tuple[str, ...]
    """Files of the corpus."""
    stores: tuple[StoreFacts, ...] = ()
    """Facts about the states that were compared."""
    clusters: int = 0
    """Number of clusters of the estimate of mutual information."""
    peak_bytes: int = 0
    """Largest size of states on disk."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""


@final
@dataclass(frozen=True)
class Evolution(Result[EvolutionRecord]):
    """How representations evolve from layer to layer."""

    DOCUMENTS = ("evolution.md", "evolution.html", "voita2019evolution.md")

    record: EvolutionRecord
    """Facts about the run."""
    rows: tuple[EvolutionRow, ...] = table("evolution.parquet", _NUMBERS)
    """Every number."""
    points: tuple[EvolutionPoint, ...] = table("evolution_points.parquet", _NUMBERS)
    """States of chosen words in a plane; empty if none were asked for."""

    def select(self, **wanted: Any) -> list[EvolutionRow]:
        """The rows with some fields, in order.

        >>> evolution.select(seed=1, quantity="mi", against="output")  # doctest: +SKIP
        """
        return select(self.rows, **wanted)

    def curves(self, quantity: str, against: str) -> dict[str, dict[int, list[float]]]:
        """For each objective and layer, the values of all seeds."""
        found: dict[str, dict[int, list[float]]] = {}
        for row in self.select(quantity=quantity, against=against):
            found.setdefault(row.objective, {}).setdefault(row.layer, []).append(row.value)
        return found
