"""Vision: which parts of a model that reads images and text see the images, and which write.

There is no table of architectures. A configuration holds those of its parts by name (CLIP's
`vision_config`, FLAVA's `image_config`), and a part has its own. So a vision tower is found where
it is in the model, whatever is passed.
"""

from collections.abc import Iterator
from inspect import signature
from typing import final

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
)

_NAMES = ("vision", "image", "video", "backbone")
"""What configurations of vision towers are called in those of whole models."""


@final
class Parts:
    """The vision towers of a model of images and text, and its language model.

    A model that reads images alone (a Vision Transformer), or text alone, has no towers. One that
    reads images and only writes text (TrOCR) has an encoder and a decoder.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._configs = {
            path: config
            for path, module in model.named_modules()
            if isinstance(config := getattr(module, "config", None), PreTrainedConfig)
        }
        seen = {type(each) for each in _of_vision(model.config)} - {type(model.config)}
        reads_text = "input_ids" in signature(model.forward).parameters
        found = [path for path, each in self._configs.items() if type(each) in seen]
        self.towers = tuple(
            path
            for path in found
            if reads_text and not any(path.startswith(f"{other}.") for other in found)
        )
        """Paths of the vision towers."""

    def is_vision(self, path: str) -> bool:
        """Whether a module is one of a vision tower."""
        return any(f"{path}.".startswith(f"{tower}.") for tower in self.towers)

    def is_decoder(self, path: str) -> bool:
        """Whether a module is one of a language model beside a vision tower.

        Its configuration is of models that predict the next token, and not of masked ones. It may
        attend in both directions within images and prompts (PaliGemma, GIT), as an encoder does.
        """
        around = (each for each in self._configs if f"{path}.".startswith(f"{each}."))
        outer = max(around, key=len, default="")  # the model
        kind = type(self._configs[outer])
        is_causal = kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
        return bool(self.towers) and is_causal


def _of_vision(config: PreTrainedConfig, inside: bool = False) -> Iterator[PreTrainedConfig]:
    """The configurations of vision towers inside one, at any depth."""
    for name in config.sub_configs:
        part, is_vision = getattr(config, name, None), any(each in name for each in _NAMES)
        if isinstance(part, PreTrainedConfig):
            if inside or is_vision:
                yield part
            yield from _of_vision(part, inside or is_vision)
