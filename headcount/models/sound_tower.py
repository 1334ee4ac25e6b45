"""The tower of a model of texts and sound (Qwen2-Audio), as a model of recordings.

It hears a recording as the whole model does: padded to the longest sound, whose frames behind the
end are masked. Its transcript is not read.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import AutoProcessor, PreTrainedModel, ProcessorMixin
from transformers.masking_utils import create_bidirectional_mask

from headcount.core import ModelError
from headcount.corpora import Recording
from headcount.models.loaded import Loaded
from headcount.models.model_files import Place
from headcount.models.speech import Spectrograms
from headcount.tap import input_device


def hears_beside_text(model: PreTrainedModel) -> bool:
    """Whether a model reads sound as tokens beside a text."""
    taken = {"input_ids", "input_features"} <= {*signature(model.forward).parameters}
    return taken and not model.config.is_encoder_decoder


def sound_processor(model: PreTrainedModel, place: Place) -> Any | None:
    """The processor beside a model of texts and sound; None for others, and if none is saved."""
    if not hears_beside_text(model):
        return None
    try:
        found = place.read(AutoProcessor)
    except Exception:  # none is saved, or it is damaged; where sound is given, it is missed
        return None
    return found if isinstance(found, ProcessorMixin) else None


def sound_tower_of(loaded: Loaded) -> Loaded:
    """The sound tower of a model of texts and sound, as a model of recordings.

    Raises:
        ModelError: if the model has no tower that hears spectrograms of one length, or no
            processor.
    """
    extractor = getattr(loaded.processor, "feature_extractor", None)
    if extractor is None:
        raise ModelError(
            f"Expected a processor beside the weights of {loaded.name}, since the rows are "
            "recordings, got none. Save one: processor.save_pretrained(FOLDER)."
        )
    parts = (each for each in loaded.model.modules() if isinstance(each, PreTrainedModel))
    tower = next(
        (
            each
            for each in parts
            if [*signature(each.forward).parameters][:2] == ["input_features", "attention_mask"]
            and isinstance(getattr(each.config, "max_source_positions", None), int)
        ),
        None,
    )
    if tower is None:
        raise ModelError(
            f"Expected a tower that hears spectrograms of one length, got {loaded.name} "
            f"({loaded.config.model_type}), which has none. Give texts for the heads of the "
            "language model."
        )
    return replace(
        loaded,
        model=_hearing(tower),
        tokenizer=None,
        inputs=None,
        image_processor=extractor,
        processor=None,
        source=None,
    )


def _hearing(tower: PreTrainedModel) -> PreTrainedModel:
    """A tower that shares all modules, and is told which frames are sound."""
    kind: Any = type(tower)

    class SoundTower(kind):
        """A tower that masks the frames behind the end of a recording."""

        main_input_name = "input_features"

        def forward(
            self,
            input_features: Float[Tensor, "recording bin step"],
            is_sound: Bool[Tensor, "recording frame"] | None = None,
        ) -> Any:
            """What the tower returns of some spectrograms."""
            if is_sound is None:
                return super().forward(input_features)
            mask = create_bidirectional_mask(
                config=self.config,
                inputs_embeds=input_features.new_zeros(*is_sound.shape, 1),
                attention_mask=is_sound.long().to(input_features.device),
            )
            return super().forward(input_features, attention_mask=mask)

    SoundTower.__name__ = SoundTower.__qualname__ = kind.__name__
    found: Any = copy.copy(tower)
    found.__class__ = SoundTower
    return found


@final
class TowerSpeech(Spectrograms):
    """What a tower hears of a recording, without words.

    Args:
        loaded: the tower, by `sound_tower_of`.
    """

    hides_silence = True

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded, loaded.image_processor)

    def features(self, samples_N: Float[np.ndarray, " sample"]) -> Float[Tensor, "1 bin step"]:
        """The spectrogram of a recording, padded to the longest sound."""
        model = self.loaded.model
        return self._made(samples_N).input_features.to(input_device(model), model.dtype)

    def num_frames(self, samples_N: Float[np.ndarray, " sample"]) -> int:
        """Number of frames up to the end of a recording."""
        return (int(self._made(samples_N).attention_mask.sum()) - 1) // 2 + 1

    def forced(
        self, samples_N: Float[np.ndarray, " sample"], words: Sequence[str]
    ) -> tuple[list[int], list[int]]:
        """No tokens: the tower writes nothing."""
        return [], []

    def cut(self, recording: Recording, heard: Callable[[Recording], None]) -> list[Recording]:
        """Pieces of a recording that the tower hears at once."""
        pieces = recording.cut(self.longest)
        if len(pieces) > 1:
            for piece in pieces:
                heard(piece)
        return pieces

    def piece(self, token: int) -> str:
        """The text of a token: there are none."""
        return ""

    def _made(self, samples_N: Float[np.ndarray, " sample"]) -> Any:
        return self.extractor(
            samples_N,
            sampling_rate=self.rate,
            padding="max_length",
            return_attention_mask=True,
            return_tensors="pt",
        )
