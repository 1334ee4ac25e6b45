"""Evolution of representations: a row for each number, and the record, `evolution.json`."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import reading
from headcount.results.claiming import EVOLUTION_FILES
from headcount.results.json_file import JsonObject, encoded, write_sealed

EVOLUTION, EVOLUTION_ROWS, EVOLUTION_POINTS = EVOLUTION_FILES[:3]

_ADVICE = "Name a folder that `headcount evolve` wrote, or run it again."


@final
@dataclass(frozen=True)
class EvolutionRow:
    """One number of one layer of one model."""

    model: str
    """Hub name of the model, or the name of its folder."""
    objective: str
    """Training objective: translation, causal-lm, masked-lm, or encoder for any other encoder."""
    seed: int
    """Number of the model among those of its objective, from 1, in the order given."""
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
class EvolutionPoint:
    """One state of a token in a plane (t-SNE)."""

    model: str
    """Hub name of the model, or the name of its folder."""
    objective: str
    """Training objective of the model."""
    seed: int
    """Number of the model among those of its objective."""
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
class StoreFacts:
    """Facts about the states of one model that were compared."""

    model: str
    """Hub name of the model, or the name of its folder."""
    objective: str
    """Training objective of the model."""
    seed: int
    """Number of the model among those of its objective."""
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
class EvolutionRecord:
    """Facts about a comparison of layers that its tables do not hold."""

    signature: str
    """Models, corpus, options and versions that the numbers depend on, in one text."""
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
    warnings: tuple[str, ...] = ()
    """A sentence for everything that was left out."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if it was run in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `evolution.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "EvolutionRecord":
        """The record in an `evolution.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount evolve").decode(cls)


@final
@dataclass(frozen=True)
class Evolution:
    """How representations evolve from layer to layer."""

    rows: tuple[EvolutionRow, ...]
    """Every number."""
    points: tuple[EvolutionPoint, ...]
    """States of chosen words in a plane; empty if none were asked for."""
    record: EvolutionRecord
    """Facts about the run."""

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame: `model objective seed layer quantity against value ...`."""
        return _frame(EvolutionRow, self.rows)

    def select(self, **wanted: Any) -> list[EvolutionRow]:
        """The rows with some fields, in order.

        >>> evolution.select(seed=1, quantity="mi", against="output")  # doctest: +SKIP
        """
        return [
            row
            for row in self.rows
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]

    def curves(self, quantity: str, against: str) -> dict[str, dict[int, list[float]]]:
        """For each objective and layer, the values of all seeds."""
        found: dict[str, dict[int, list[float]]] = {}
        for row in self.select(quantity=quantity, against=against):
            found.setdefault(row.objective, {}).setdefault(row.layer, []).append(row.value)
        return found

    def write(self, folder: Path) -> None:
        """Write the tables and, last, the record."""
        tables = {
            EVOLUTION_ROWS: self.frame(),
            EVOLUTION_POINTS: _frame(EvolutionPoint, self.points),
        }
        write_sealed(folder / EVOLUTION, self.record, tables=tables)


def read_evolution(folder: Path) -> Evolution:
    """The numbers in a folder.

    Raises:
        InputError: if a file is missing or damaged.
    """
    record = EvolutionRecord.read(folder / EVOLUTION)
    rows = tuple(_read(folder / EVOLUTION_ROWS, EvolutionRow))
    points = tuple(_read(folder / EVOLUTION_POINTS, EvolutionPoint))
    return Evolution(rows, points, record)


def _frame(kind: type, rows: tuple[Any, ...]) -> pd.DataFrame:
    return pd.DataFrame([asdict(row) for row in rows], columns=[each.name for each in fields(kind)])


def _read(path: Path, kind: type) -> list[Any]:
    with reading(path, "the numbers of a comparison of layers", _ADVICE):
        return [
            kind(**{str(name): value for name, value in row.items()})
            for row in pd.read_parquet(path).to_dict("records")
        ]
