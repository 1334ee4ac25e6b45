"""Probes: a row for each number, a row for each head's weights, and the record, `probes.json`."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, final

import pandas as pd

from headcount.core import reading
from headcount.results.claiming import PROBE_FILES
from headcount.results.json_file import JsonObject, encoded, write_sealed

PROBES, PROBE_ROWS, PROBE_WEIGHTS = PROBE_FILES

T = TypeVar("T")

_ADVICE = "Name a folder that `headcount probe` wrote, or run it again."


@final
@dataclass(frozen=True)
class ProbeRow:
    """One number of one probe."""

    probe: str
    """Name of the probe: attention, words, edges, structure or layers."""
    variant: str
    """What was probed: trained, or a control or baseline such as random-init."""
    metric: str
    """Name of the metric: uas, las, accuracy, uuas, spearman, root ..."""
    value: float
    low: float
    """Lower end of the 95 % interval by a bootstrap over sentences."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of cases that the number is over."""
    relation: str = "all"
    """Relation that the number is for; `all`, or `macro` for the mean over frequent relations."""
    layer: int | None = None
    """Number of the hidden state, 0 for the embeddings; None for a probe of attention."""
    rank: int | None = None
    """Rank of a structural probe; None for others."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ProbeRow":
        """The row of some values, in which an unknown number is None."""
        unknown = {name: math.nan for name in ("value", "low", "high") if values.get(name) is None}
        return cls(**{**values, **unknown})


@final
@dataclass(frozen=True)
class ProbeTree:
    """The tree that a structural probe predicts for one test sentence, beside the gold one."""

    layer: int
    """Number of the hidden state."""
    words: tuple[str, ...]
    heads: tuple[int, ...]
    """Index of each word's head in the gold tree; the number of words for the root."""
    counts: tuple[bool, ...]
    """Whether each word is in the tree: all but punctuation."""
    edges: tuple[tuple[int, ...], ...]
    """The two words of every predicted edge."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ProbeTree":
        """The tree of some values, in which tuples are lists."""
        return cls(
            layer=values["layer"],
            words=tuple(values["words"]),
            heads=tuple(values["heads"]),
            counts=tuple(values["counts"]),
            edges=tuple(map(tuple, values["edges"])),
        )

    @property
    def gold(self) -> tuple[tuple[int, int], ...]:
        """The two words of every gold arc between words of the tree."""
        return tuple(
            (min(word, head), max(word, head))
            for word, head in enumerate(self.heads)
            if head < len(self.words) and self.counts[word] and self.counts[head]
        )


@final
@dataclass(frozen=True)
class ProbeWeight:
    """What one head adds to the attention probe."""

    head: str
    """Name of the head."""
    from_dependent: float
    """Weight of the attention from a word to its candidate head: w."""
    from_head: float
    """Weight of the attention from a candidate head to the word: u."""
    contribution: float
    """Nats by which the head raises the right candidate above the mean of all, on test words."""


@final
@dataclass(frozen=True, kw_only=True)
class ProbeRecord:
    """Facts about probes that their tables do not hold."""

    signature: str
    """Model, treebanks, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model, as given."""
    model_type: str
    """Architecture of the model, by transformers' name."""
    probes: tuple[str, ...]
    """Probes that were trained."""
    train: tuple[str, ...]
    """Files that were trained on."""
    test: tuple[str, ...]
    """Files that were tested on."""
    train_sentences: int
    """Number of training sentences."""
    train_words: int
    """Number of words in them."""
    test_sentences: int
    """Number of test sentences."""
    test_words: int
    """Number of words in them."""
    overlap: int = 0
    """Number of test sentences that are among the training sentences, too."""
    vectors: str | None = None
    """Source of the word vectors; None if no probe used them."""
    vectors_found: float | None = None
    """Share of the test words that have a vector."""
    min_cases: int = 100
    """Number of cases that a relation needs to be ranked."""
    layers: int = 0
    """Number of layers whose attention was read."""
    heads: int = 0
    """Number of heads whose attention was read."""
    feature_bytes: int = 0
    """Largest size of word-level features on disk."""
    trees: tuple[ProbeTree, ...] = ()
    """Trees that structural probes predict for some test sentences."""
    warnings: tuple[str, ...] = ()
    """A sentence for everything that was left out."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if the probes were trained in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `probes.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "ProbeRecord":
        """The record in a `probes.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount probe").decode(cls)


@final
@dataclass(frozen=True)
class Probed:
    """The results of probes."""

    rows: tuple[ProbeRow, ...]
    """Every number."""
    weights: tuple[ProbeWeight, ...]
    """Weights of the attention probe, one a head; empty without that probe."""
    record: ProbeRecord
    """Facts about the probes."""

    def find(self, **wanted: Any) -> ProbeRow | None:
        """The first row with some fields; None if there is none.

        >>> probed.find(probe="attention", variant="trained", metric="uas")  # doctest: +SKIP
        """
        for row in self.rows:
            if all(getattr(row, name) == value for name, value in wanted.items()):
                return row
        return None

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame: `probe layer rank variant relation metric value ...`."""
        names = "probe layer rank variant relation metric value low high cases".split()
        frame = pd.DataFrame([asdict(row) for row in self.rows], columns=names)
        return frame.astype({"layer": "Int64", "rank": "Int64"})

    def weight_frame(self) -> pd.DataFrame:
        """The weights as a data frame, one row a head."""
        return _frame(ProbeWeight, self.weights)

    def write(self, folder: Path) -> None:
        """Write the tables and, last, the record."""
        tables = {PROBE_ROWS: self.frame(), PROBE_WEIGHTS: self.weight_frame()}
        write_sealed(folder / PROBES, self.record, tables=tables)


def read_probes(folder: Path) -> Probed:
    """The probes in a folder.

    Raises:
        InputError: if a file is missing or damaged.
    """
    record = ProbeRecord.read(folder / PROBES)
    rows = _read(folder / PROBE_ROWS, ProbeRow.of)
    weights = _read(folder / PROBE_WEIGHTS, lambda values: ProbeWeight(**values))
    return Probed(rows, weights, record)


def _frame(kind: type, rows: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame([asdict(row) for row in rows], columns=[each.name for each in fields(kind)])


def _read(path: Path, make: Callable[[dict[str, Any]], T]) -> tuple[T, ...]:
    with reading(path, "the numbers of probes", _ADVICE):
        found = pd.read_parquet(path).astype(object)
        found = found.where(found.notna(), None)
        return tuple(
            make({str(name): row[name] for name in row}) for row in found.to_dict("records")
        )
