"""The encoder of a model that reads images, and the choice between it and the one for texts."""

from headcount.core import Grid, ModelError
from headcount.corpora import AnyEncoder, Corpus, ImageEncoder
from headcount.models.loaded import Loaded
from headcount.models.patches import grid_of, num_channels


def encoder_of(
    loaded: Loaded,
    corpus: Corpus,
    strict: bool = False,
    windows: bool = False,
    window: int | None = None,
) -> AnyEncoder:
    """The encoder for a corpus of sentences or of images.

    Raises:
        ModelError: if the model does not read what the corpus holds.
    """
    if "vision.self" in loaded.heads.counts:
        raise ModelError(
            f"Expected a model whose heads were found with text alone, got {loaded.name} with "
            f"{loaded.heads}, whose vision heads see nothing of a corpus. Load it without inputs, "
            "and give texts. A model that takes no text alone (CLIP) can be gated and made smaller."
        )
    if corpus.is_images:
        return image_encoder(loaded)
    return loaded.encoder(strict, windows, window)


def image_encoder(loaded: Loaded) -> ImageEncoder:
    """The encoder that turns images into the model's inputs.

    Raises:
        ModelError: if the model reads no images, has no image processor, or its tokens are not
            patches.
    """
    model = loaded.model
    if model.main_input_name != "pixel_values":
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
