"""The image processor that is saved with a model: what turns images into its pixels."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import AutoImageProcessor, PreTrainedModel

from headcount.core import reason
from headcount.models.model_files import NotLookedUpError, file_of

CONFIGS = ("preprocessor_config.json", "processor_config.json")
"""Files with the settings of an image processor."""


def image_processor(
    model: PreTrainedModel, name: str | Path, options: Mapping[str, Any]
) -> Any | None:
    """The image processor beside a model of pixels; None for other models, and where none is saved.

    The one that works with Pillow is taken: another one, made for torchvision, resizes a little
    differently, and numbers should not depend on what is installed.
    """
    if model.main_input_name != "pixel_values":
        return None
    try:
        return AutoImageProcessor.from_pretrained(name, backend="pil", **options)
    except Exception as error:  # damaged files raise errors of many kinds
        if any(_exists(str(name), f"{options['subfolder']}/{each}") for each in CONFIGS):
            why = reason(error)
            warnings.warn(
                f"{name}: its image processor can't be read and is ignored: {why}", stacklevel=3
            )
        return None


def _exists(name: str, file: str) -> bool:
    try:
        return file_of(name, file.removeprefix("/")) is not None
    except NotLookedUpError:
        return False
