"""The encoder of a model that reads images, and the choice between it and the one for texts.

Patches: which tokens of a Vision Transformer are which patches of an image.

No configuration says it, so it is tried out: pixels are changed in one patch, and the values of the
first attention layer show which token changed. Tokens before the first patch are special.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any, final

import torch
from torch import Tensor
from transformers import AutoImageProcessor, PreTrainedModel

from headcount.core import Grid, InputError, ModelError, amount
from headcount.corpora import AnyEncoder, Corpus, ImageEncoder, SoundEncoder
from headcount.models.loaded import Loaded
from headcount.models.model_files import Place, warn_of_processor
from headcount.models.picture_encoding import picture_encoder
from headcount.models.sound_tower import TowerSpeech
from headcount.models.speech import SpeechEncoder
from headcount.tap import Anatomy, AttentionLayer, Block, Tap, evaluating, input_device
from headcount.vocabulary import IMAGES, SOUND, TEXTS, Inputs


def grid_of(model: PreTrainedModel, anatomy: Anatomy, height: int, width: int) -> Grid:
    """The patches of images of some size.

    Raises:
        ModelError: if tokens are not patches in rows, in all layers.
    """
    size = _patch_size(model)
    rows, columns = height // size[0], width // size[1]
    if not rows or not columns:
        raise ModelError(
            f"Expected images of at least one patch of {size[0]} x {size[1]} pixels, got "
            f"{height} x {width}. Check size and patch_size in the model's folder."
        )
    places = ((0, 0), (0, columns - 1), (rows - 1, columns - 1))
    changed = _changed_tokens(model, anatomy, (height, width), size, places)
    first = changed[0][0] if changed[0] else 0
    expected = [[first + row * columns + column] for row, column in places]
    lengths = sorted(_heard(model, anatomy, _noise(model, (height, width), 1)).lengths)
    if changed != expected or lengths != [first + rows * columns]:
        tokens = " and ".join(amount(each, "token") for each in lengths)
        raise ModelError(
            f"Expected a model whose tokens are the {rows} x {columns} patches of an image, row by "
            f"row after special tokens, in every layer, got {type(model).__name__} with "
            f"{tokens}. In Python, `gated` and `tapped` work with any model."
        )
    return Grid(rows, columns, first)


def body_of(model: PreTrainedModel) -> torch.nn.Module:
    """The part that reads a model's main input: its body, or the model itself (DINOv3)."""
    body = model.base_model
    takes = signature(body.forward).parameters
    return (
        model if model.main_input_name == "pixel_values" and "pixel_values" not in takes else body
    )


def num_channels(model: PreTrainedModel) -> int:
    """Number of colours of a pixel."""
    return int(_field(model.config, ("num_channels", "in_channels", "in_chans")) or 3)


def _field(config: Any, names: tuple[str, ...]) -> Any:
    inside = (getattr(config, name, None) for name in getattr(config, "sub_configs", {}))
    found = [getattr(each, name, None) for each in (config, *inside) for name in names]
    return next((each for each in found if each is not None), None)


def _patch_size(model: PreTrainedModel) -> tuple[int, int]:
    found = _field(model.config, ("patch_size",))
    pair = [*found] if isinstance(found, Sequence) else [found, found]
    if len(pair) != 2 or not all(isinstance(each, int) and each > 0 for each in pair):
        raise ModelError(
            f"Expected a patch_size in the config of {type(model).__name__}, which says how images "
            f"become tokens, got {found!r}. In Python, `gated` and `tapped` work with any model."
        )
    return pair[0], pair[1]


@final
class _Values:
    """A listener that keeps the values of the first layer and the length of all."""

    def __init__(self) -> None:
        self.values_BKD: Tensor | None = None
        self.lengths: set[int] = set()

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        if self.values_BKD is None:
            self.values_BKD = value_BHKD.transpose(1, 2).flatten(2).clone()
        self.lengths |= {num_queries, value_BHKD.shape[2]}

    def block(self, block: Block) -> None:
        """Nothing: the weights don't matter."""

    def end(self, layer: AttentionLayer) -> None:
        """Nothing: the weights don't matter."""


def _heard(model: PreTrainedModel, anatomy: Anatomy, pixels: Tensor) -> _Values:
    listener = _Values()
    with evaluating(model), torch.no_grad(), Tap(model, anatomy, listener):
        try:
            body_of(model)(pixel_values=pixels)
        except (ValueError, RuntimeError, TypeError, InputError) as error:
            why = str(error).rstrip(".")
            raise ModelError(
                f"Expected a model that runs on images of {pixels.shape[2]} x {pixels.shape[3]} "
                f"pixels, as its image processor makes them, got an error: {why}. Check size in "
                "its preprocessor_config.json."
            ) from error
    return listener


def _noise(model: PreTrainedModel, size: tuple[int, int], rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(1, num_channels(model), *size, generator=generator)
    return pixels.repeat(rows, 1, 1, 1).to(input_device(model), model.dtype)


def _changed_tokens(
    model: PreTrainedModel,
    anatomy: Anatomy,
    size: tuple[int, int],
    patch: tuple[int, int],
    places: Sequence[tuple[int, int]],
) -> list[list[int]]:
    """The tokens whose values change with the pixels of each of some patches."""
    pixels = _noise(model, size, len(places) + 1)
    for n, (row, column) in enumerate(places, start=1):
        at = [
            slice(i * length, (i + 1) * length)
            for i, length in zip((row, column), patch, strict=True)
        ]
        pixels[n, :, at[0], at[1]] = -pixels[n, :, at[0], at[1]]
    values_BKD = _heard(model, anatomy, pixels).values_BKD
    if values_BKD is None or len(values_BKD) != len(pixels):  # a layer may cut images into windows
        return [[]] * len(places)
    difference_BK = (values_BKD - values_BKD[:1]).abs().amax(-1)
    scale = values_BKD.abs().amax().clamp_min(1e-12)
    return [row.nonzero().flatten().tolist() for row in difference_BK[1:] > 1e-5 * scale]


def encoder_of(
    loaded: Loaded,
    corpus: Corpus,
    strict: bool = False,
    windows: bool = False,
    window: int | None = None,
    language: str | None = None,
) -> AnyEncoder:
    """The encoder for a corpus of sentences, of images or of recordings.

    Raises:
        ModelError: if the model does not read what the corpus holds.
    """
    if "vision.self" in loaded.heads.counts:
        raise ModelError(
            f"Expected a model whose heads were found with text alone, got {loaded.name} with "
            f"{loaded.heads}, whose vision heads see nothing of a corpus. Load it without inputs, "
            "and give texts. A model that takes no text alone (CLIP) can be gated and made smaller."
        )
    if corpus.has_pictures:
        return picture_encoder(loaded)
    if corpus.inputs is IMAGES:
        return image_encoder(loaded)
    if corpus.inputs is SOUND:
        is_tower = "is_sound" in signature(loaded.model.forward).parameters
        return SoundEncoder(TowerSpeech(loaded) if is_tower else SpeechEncoder(loaded, language))
    return loaded.encoder(strict, windows, window)


def inputs_of(model: PreTrainedModel) -> Inputs:
    """The kind of input that a model reads; texts, where nothing is known of what it reads."""
    if model.main_input_name == "pixel_values":
        return IMAGES
    taken = signature(model.forward).parameters  # a tower may not say what it reads (Idefics3)
    return IMAGES if "pixel_values" in taken and "input_ids" not in taken else TEXTS


def own_encoder(loaded: Loaded) -> AnyEncoder:
    """The encoder of what the model reads.

    Raises:
        ModelError: if there is none.
    """
    return image_encoder(loaded) if inputs_of(loaded.model) is IMAGES else loaded.encoder()


def image_encoder(loaded: Loaded) -> ImageEncoder:
    """The encoder that turns images into the model's inputs.

    Raises:
        ModelError: if the model reads no images, has no image processor, or its tokens are not
            patches.
    """
    model = loaded.model
    if inputs_of(model) is not IMAGES:
        raise ModelError(
            f"Expected a model that reads images, got {loaded.name} ({model.config.model_type}), "
            f"which reads {model.main_input_name}. Give texts."
        )
    if loaded.image_processor is None:
        raise ModelError(
            f"Expected an image processor beside the weights of {loaded.name}, got none. Save one: "
            "ViTImageProcessor(...).save_pretrained(FOLDER) writes preprocessor_config.json."
        )
    channels = num_channels(model)
    probe = ImageEncoder(loaded.image_processor, Grid(1, 1, 0), channels, model.dtype)
    height, width = probe.pixel_size
    grid = grid_of(model, loaded.anatomy, height, width)
    return ImageEncoder(loaded.image_processor, grid, channels, model.dtype)


def processor_of(model: PreTrainedModel, place: Place) -> Any | None:
    """The image processor beside a model of pixels; None for other models, and where none is saved.

    The one that works with Pillow is taken: another one, made for torchvision, resizes a little
    differently, and numbers should not depend on what is installed.
    """
    if inputs_of(model) is not IMAGES:
        return None
    try:
        return place.read(AutoImageProcessor, backend="pil")
    except Exception as error:  # damaged files raise errors of many kinds
        warn_of_processor(place, "image processor", error)
        return None
