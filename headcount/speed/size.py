"""Size: the parameters of a model, in memory and on disk."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import final

from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)

from headcount.models.load import Loaded
from headcount.models.shipped import place_of

WEIGHTS = (SAFE_WEIGHTS_NAME, "*.safetensors", WEIGHTS_NAME)
INDICES = (SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_INDEX_NAME)


@final
@dataclass(frozen=True)
class Size:
    """Number and bytes of a model's parameters."""

    parameters: int
    """Number of parameters; shared ones are counted once."""
    parameter_bytes: int
    """Bytes in the number format that the model runs in."""
    disk_bytes: int | None
    """Bytes of the weight files; None for a model that is not in a folder."""

    @classmethod
    def of(cls, loaded: Loaded) -> "Size":
        """The size of a loaded model."""
        parameters = list(loaded.model.parameters())
        return cls(
            sum(each.numel() for each in parameters),
            sum(each.numel() * each.element_size() for each in parameters),
            _on_disk(folder) if _holds(folder := Path(place_of(loaded.name)), loaded) else None,
        )


def _holds(folder: Path, loaded: Loaded) -> bool:
    """Whether a folder holds this model, not the dense one that a compact model is named after."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None:
        return True
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["head_plan"]
        return found["sha256"] == plan["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _on_disk(folder: Path) -> int | None:
    """Bytes of the files that are loaded; others with the same weights may lie beside them."""
    for index in INDICES:
        if (folder / index).exists():
            named = json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"]
            return sum((folder / name).stat().st_size for name in {*named.values()})
    for pattern in WEIGHTS:
        if files := list(folder.glob(pattern)):
            return sum(file.stat().st_size for file in files)
    return None
