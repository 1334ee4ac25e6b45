"""The encoder of a model of texts and pictures, or sound, and the processor saved with it.

The processor that works with Pillow is taken, as for images alone. One that also reads videos needs
torchvision for them; where that is missing, the processor is put together without videos.
"""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedModel,
    ProcessorMixin,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from headcount.core import ModelError
from headcount.corpora import PictureEncoder
from headcount.models.loaded import Loaded
from headcount.models.model_files import Place, warn_of_processor
from headcount.models.sound_tower import hears_beside_text


def reads_pictures(model: PreTrainedModel) -> bool:
    """Whether a model reads pictures beside a text."""
    taken = signature(model.forward).parameters
    return model.main_input_name == "input_ids" and {"input_ids", "pixel_values"} <= {*taken}


def picture_encoder(loaded: Loaded, values: Mapping[str, Any] | None = None) -> PictureEncoder:
    """The encoder that turns prompts with pictures or recordings into the model's inputs.

    Args:
        loaded: the model.
        values: values for the chat template, which then ends where the model's reply begins; None
            for chats as they are.

    Raises:
        ModelError: if the model reads neither, or has no processor.
    """
    hears = hears_beside_text(loaded.model)
    what, kind = ("recordings", "audio") if hears else ("pictures", "image")
    if not (hears or reads_pictures(loaded.model)):
        raise ModelError(
            f"Expected a model that reads pictures beside texts, or sound, got {loaded.name} "
            f"({loaded.config.model_type}), which reads {loaded.model.main_input_name}. Leave rows "
            "with pictures or sound out: --without-media."
        )
    if loaded.processor is None or loaded.tokenizer is None:
        raise ModelError(
            f"Expected a processor beside the weights of {loaded.name}, since the rows have "
            f"{what}, got none. Save one: processor.save_pretrained(FOLDER). For a model in "
            "memory, pass headcount.Loaded(model, processor.tokenizer, name, processor=processor)."
        )
    if "cross_attention_mask" in signature(loaded.model.forward).parameters:
        raise ModelError(
            f"Expected a model that puts pictures as tokens beside the text, got {loaded.name} "
            f"({loaded.config.model_type}), some layers of which look at pictures alone "
            "(cross-attention). Give texts; with load(name, inputs=processor(...)) its heads can "
            "be gated and tapped in Python."
        )
    names = (f"{kind}_token_id", f"{kind}_token_index")
    found = (getattr(loaded.config, name, None) for name in names)
    number = next((each for each in found if isinstance(each, int)), None)
    if number is None:
        raise ModelError(
            f"Expected the token that stands for {what} ({' or '.join(names)}) in the config of "
            f"{loaded.name}, got none: its {what} are no tokens beside the text. Its heads can "
            "be gated and tapped in Python."
        )
    asked = number, loaded.name, loaded.max_length, values
    return PictureEncoder(loaded.processor, loaded.tokenizer, *asked)


def picture_processor(model: PreTrainedModel, place: Place) -> Any | None:
    """The processor beside a model of texts and pictures; None for others, and if none is saved."""
    if not reads_pictures(model):
        return None
    try:
        try:
            found = place.read(AutoProcessor, backend="pil")
        except ImportError:  # videos need torchvision
            found = _without_videos(place)
    except Exception as error:  # damaged files raise errors of many kinds
        warn_of_processor(place, "processor", error)
        return None
    return found if isinstance(found, ProcessorMixin) else None


def _without_videos(place: Place) -> Any | None:
    """A processor of texts and pictures alone, from what is saved of it."""
    kind: Any = PROCESSOR_MAPPING.get(type(place.read(AutoConfig)), None)
    if kind is None:
        return None
    settings, _ = kind.get_processor_dict(
        place.name, subfolder=place.subfolder, trust_remote_code=place.trusted
    )
    parts = ("image_processor", "video_processor", "feature_extractor", "processor_class")
    return without_videos(
        kind,
        place.read(AutoImageProcessor, backend="pil"),
        place.read(AutoTokenizer),
        **{key: each for key, each in settings.items() if key not in (*parts, "auto_map")},
    )


def without_videos(kind: Any, image_processor: Any, tokenizer: Any, **settings: Any) -> Any:
    """A processor whose class also reads videos, which this one does not.

    Args:
        kind: its class.
        image_processor: what reads pictures.
        tokenizer: the tokenizer.
        settings: further arguments of the class.
    """

    class WithoutVideos(kind):
        """A processor that is not asked whether it has what reads videos."""

        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            """Check an argument, if it is there."""
            if argument is None:
                return type(None)
            return super().check_argument_for_proper_class(argument_name, argument)

        def apply_chat_template(self, *args: Any, **kwargs: Any) -> Any:
            """Write a chat as all processors do; some ask what reads videos first (SmolVLM)."""
            return ProcessorMixin.apply_chat_template(self, *args, **kwargs)

    WithoutVideos.__name__ = kind.__name__
    if "video_processor" in signature(kind.__init__).parameters:
        settings["video_processor"] = None
    return WithoutVideos(image_processor=image_processor, tokenizer=tokenizer, **settings)
