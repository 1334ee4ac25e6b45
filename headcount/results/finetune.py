"""The record of a model that was trained further: the contents of `finetune.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headcount.core import InputError, nulls_for_nan, write_json
from headcount.results.changes import DATA_SETS, DataSetChange
from headcount.results.json_object import JsonObject

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
        teacher = found.optional("teacher", found.inside)
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
        data_sets = {name: found.inside(name) for name in DATA_SETS if name in found}
        arguments = found.optional("arguments", found.inside)
        return cls(
            data_sets={name: FinetuneChange.from_json(each) for name, each in data_sets.items()},
            tuning=found.inside("tuning").values,
            warnings=found.texts("warnings"),
            signature=found.text("signature"),
            history=found.mappings("history"),
            arguments=arguments and arguments.values,
        )

    def write(self, folder: Path) -> None:
        """Write `finetune.json`, completely or not at all."""
        write_json(folder / FINETUNE, nulls_for_nan(self.to_json()))

    @classmethod
    def read(cls, folder: Path) -> "FinetuneRecord":
        """Read the record of a folder.

        Raises:
            InputError: If there is none, or it can't be read; the error names file and field.
        """
        try:
            found = JsonObject.read(folder / FINETUNE)
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"Expected the folder of a fine-tuned model with its {FINETUNE}, as `headcount "
                f"finetune` writes it, but {folder} has none that can be read "
                f"({type(error).__name__}: {error})."
            ) from error
        return cls.from_json(found)
