"""The record of a model that was trained further: the contents of `finetune.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headcount.core import JsonObject
from headcount.results.changes import DataSetChange, by_data_set
from headcount.results.sealing import read_sealed, write_sealed

FINETUNE = "finetune.json"


@final
@dataclass(frozen=True)
class FinetuneChange:
    """A model that was trained further, on one data set."""

    trained: DataSetChange
    """The change from the given to the trained model."""
    teacher: DataSetChange | None
    """The change from the teacher to the trained model; None without a teacher."""

    def to_json(self) -> dict[str, Any]:
        """The numbers as in `finetune.json`."""
        return self.trained.to_json() | {"teacher": self.teacher and self.teacher.to_json()}

    @classmethod
    def from_json(cls, found: JsonObject) -> "FinetuneChange":
        """The numbers in a `finetune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        teacher = found.optional("teacher", JsonObject)
        beside = None if teacher is None else DataSetChange.from_json(teacher)
        return cls(DataSetChange.from_json(found), beside)


@final
@dataclass(frozen=True)
class FinetuneRecord:
    """How a model was trained further, and every number before and after."""

    data_sets: Mapping[str, FinetuneChange]
    """Numbers before and after, by the data set's name: `dev` and `test`."""
    tuning: Mapping[str, Any]
    """All fields of the training's settings, by name."""
    warnings: tuple[str, ...]
    """A sentence for everything that the user was warned of."""
    signature: str
    """Signature of everything that the numbers depend on."""
    history: tuple[Mapping[str, Any], ...] = ()
    """Log entries of the training."""
    arguments: Mapping[str, Any] | None = None
    """Arguments of the command; None if the model was trained in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `finetune.json`."""
        found: dict[str, Any] = {name: each.to_json() for name, each in self.data_sets.items()}
        found |= {"tuning": dict(self.tuning), "warnings": list(self.warnings)}
        found |= {"signature": self.signature, "history": list(self.history)}
        return found if self.arguments is None else found | {"arguments": self.arguments}

    @classmethod
    def from_json(cls, found: JsonObject) -> "FinetuneRecord":
        """The record in the contents of `finetune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        return cls(
            data_sets=by_data_set(found, FinetuneChange.from_json),
            tuning=found.field("tuning", Mapping[str, Any]),
            warnings=found.field("warnings", tuple[str, ...]),
            signature=found.field("signature", str),
            history=found.field("history", tuple[Mapping[str, Any], ...]),
            arguments=found.optional("arguments", Mapping[str, Any]),
        )

    def write(self, folder: Path) -> None:
        """Write `finetune.json` with the hashes of the weight files, which exist."""
        weights = [path.name for path in folder.glob("*.safetensors")]
        write_sealed(folder / FINETUNE, self.to_json(), weights)

    @classmethod
    def read(cls, folder: Path) -> "FinetuneRecord":
        """Read the record of a folder.

        Raises:
            InputError: If there is none, or it can't be read; the error names file and field.
        """
        of_model = "the folder of a fine-tuned model"
        return cls.from_json(read_sealed(folder / FINETUNE, "headcount finetune", of_model))
