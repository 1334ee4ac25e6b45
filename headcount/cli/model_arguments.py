"""Arguments of commands on one model: its name, languages, device and number format."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from headcount import models
from headcount.core import ModelError


@dataclass(frozen=True)
class DeviceArguments:
    """How models are loaded."""

    device: str = field(default="cpu", kw_only=True)
    """Device to run on, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = field(
        default="float32", kw_only=True
    )
    """Number format of the model; float32 is the most exact."""


@dataclass(frozen=True)
class ModelArguments(DeviceArguments):
    """One model, and how it is loaded."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    languages: tuple[str, str] | None = field(default=None, kw_only=True)
    """Languages of source and target, for a multilingual translator: eng_Latn deu_Latn."""

    def loaded(self) -> "models.Loaded":
        """Load the model."""
        return models.load(self.model, self.device, self.dtype, self.languages)


def check_model(name: str) -> None:
    """Check the name of a model, as far as that is possible without the hub.

    Raises:
        InputError: If it is the path of a folder that does not exist, or the name of a model that
            headcount does not ship.
    """
    place = Path(models.place_of(name))
    is_path = place.is_absolute() or name.startswith((".", "~")) or len(place.parts) > 2
    if is_path and not place.exists():
        raise ModelError(
            f"Expected a Hugging Face name or a folder, got {name}, which does not exist: it can't "
            "be loaded. Check the path."
        )
