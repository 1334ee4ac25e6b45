"""The tokenizer of a training: learned from its text or taken from another model, then saved."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from headcount.errors import ModelError
from headcount.models.shipped import place_of
from headcount.training.pieces import learn_pieces
from headcount.training.recipe import Recipe
from headcount.training.rows import Rows


def tokenizer_in(
    out: Path, model: str | None, rows: Rows, recipe: Recipe
) -> PreTrainedTokenizerBase:
    """The tokenizer in a training's folder, created on the first call.

    Args:
        out: the folder.
        model: model whose tokenizer to use; None to learn one.
        rows: text to learn it from.
        recipe: sets the number of pieces and the longest text.

    Raises:
        ModelError: if there is no such model, or the folder's tokenizer can't be read.
    """
    if not (out / "tokenizer_config.json").exists():  # slow tokenizers have no tokenizer.json
        texts = (side for row in rows.rows for side in row)
        tokenizer = (
            learn_pieces(texts, recipe.pieces, recipe.max_length)
            if model is None
            else _loaded(place_of(model))
        )
        tokenizer.model_max_length = recipe.max_length  # not the other model's
        tokenizer.save_pretrained(out)
    return _loaded(out)


def _loaded(folder: str | Path) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"Expected a model with a tokenizer, got {str(folder)!r}, which has none that can be "
            f"loaded ({str(error).strip().splitlines()[0]}). Name another model."
        ) from error
