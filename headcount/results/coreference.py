"""Coreference: how often the attention of a mention's head points at an antecedent."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, final

import pandas as pd

from headcount.core import reading
from headcount.results.claiming import COREFERENCE_FILES
from headcount.results.json_file import JsonObject, encoded, write_sealed

T = TypeVar("T")
NAMES = COREFERENCE_FILES[1]


@final
@dataclass(frozen=True, kw_only=True)
class CoreferenceRow:
    """How often one head chooses an antecedent, and how often the baselines do."""

    head: str
    """Name of the head, e.g. `enc.3.7`."""
    kind: str
    """Kind of the mentions: `all`, `pronoun`, `proper` or `nominal`."""
    accuracy: float
    """Share of the cases in which the largest weight is on the head of an antecedent."""
    low: float
    """Lower end of the 95 % interval over documents."""
    high: float
    """Upper end of the 95 % interval over documents."""
    cases: int
    """Number of mentions of this kind with an antecedent in reach."""
    nearest: float
    """Accuracy of the nearest mention."""
    head_match: float
    """Accuracy of the nearest mention with the same head word."""
    rules: float
    """Accuracy of the cascade of rules."""


@final
@dataclass(frozen=True, kw_only=True)
class ChosenHead:
    """The best head of one half of the documents, on the other half."""

    kind: str
    """Kind of the mentions that it was chosen for."""
    head: str
    """Name of the head."""
    chosen_on: float
    """Accuracy on the half that it was chosen on."""
    accuracy: float
    """Accuracy on the other half."""
    low: float
    """Lower end of the 95 % interval of that accuracy."""
    high: float
    """Upper end of the 95 % interval of that accuracy."""
    cases: int
    """Number of cases in the other half."""
    nearest: float
    """Accuracy of the nearest mention on the other half."""
    head_match: float
    """Accuracy of the nearest mention with the same head word on the other half."""
    rules: float
    """Accuracy of the cascade of rules on the other half."""


@final
@dataclass(frozen=True, kw_only=True)
class NameRow:
    """How often one head chooses the name that a pronoun means, out of two (GAP)."""

    head: str
    """Name of the head, e.g. `enc.3.7`."""
    gender: str
    """Gender of the pronouns: `all`, `feminine` or `masculine`."""
    f1: float
    """F1 of the answers for both names, each of which is right or wrong."""
    low: float
    """Lower end of the 95 % interval of F1 over passages."""
    high: float
    """Upper end of the 95 % interval of F1 over passages."""
    accuracy: float
    """Share of the passages with a right name in which it is chosen."""
    passages: int
    """Number of passages."""
    nearest: float
    """F1 of the name nearest to the pronoun."""


@final
@dataclass(frozen=True, kw_only=True)
class CoreferenceRecord:
    """Facts about antecedent selection that its rows do not hold."""

    signature: str
    """Model, documents, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model, as given."""
    corpora: tuple[str, ...]
    """Names of the files with documents."""
    documents: int
    """Number of documents."""
    windows: int
    """Number of windows that they were cut into."""
    window: int
    """Largest number of tokens in a window, special ones included."""
    mentions: int
    """Number of mentions."""
    cases: int
    """Number of mentions with an antecedent in their window."""
    out_of_reach: int
    """Number of mentions whose antecedents all lie before their window."""
    single: int
    """Number of cases with one candidate only, which every head gets right."""
    too_long: int
    """Number of sentences that are longer than a window and were left out."""
    best: tuple[ChosenHead, ...]
    """The best head for each kind of mention, chosen on one half and measured on the other."""
    best_names: tuple[NameRow, ...] = ()
    """The head with the highest F1 on one half of GAP's passages, measured on the other."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was left out."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if it was done in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `coreference.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "CoreferenceRecord":
        """The record in a `coreference.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount coreference").decode(cls)


@final
@dataclass(frozen=True)
class Coreference:
    """The result of antecedent selection."""

    rows: tuple[CoreferenceRow, ...]
    record: CoreferenceRecord
    names: tuple[NameRow, ...] = ()
    """Answers to GAP's questions, by head and gender; empty for other corpora."""

    @property
    def frame(self) -> pd.DataFrame:
        """The table: one row per head and kind of mention."""
        return pd.DataFrame([asdict(row) for row in self.rows])

    def ranked(self, kind: str = "all") -> list[CoreferenceRow]:
        """The rows of one kind of mention, the best head first."""
        rows = [row for row in self.rows if row.kind == kind]
        return sorted(rows, key=lambda row: -row.accuracy)


def write_coreference(coreference: Coreference, folder: Path) -> None:
    """Write `coreference.parquet`, the names of GAP if there are any, then `coreference.json`."""
    tables = {"coreference.parquet": coreference.frame}
    if coreference.names:
        tables[NAMES] = pd.DataFrame([asdict(row) for row in coreference.names])
    else:  # of an earlier run
        (folder / NAMES).unlink(missing_ok=True)
    write_sealed(folder / "coreference.json", coreference.record, tables=tables)


def read_coreference(folder: Path) -> Coreference:
    """The antecedent selection in a folder.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = CoreferenceRecord.read(folder / "coreference.json")
    rows = _rows(folder / "coreference.parquet", CoreferenceRow)
    names = _rows(folder / NAMES, NameRow) if record.best_names else ()
    return Coreference(rows, record, names)


def _rows(path: Path, row_type: type[T]) -> tuple[T, ...]:
    with reading(path, "accuracies of antecedents", "Run `headcount coreference` again."):
        rows = pd.read_parquet(path).to_dict("records")
        return tuple(row_type(**{str(name): each for name, each in row.items()}) for row in rows)
