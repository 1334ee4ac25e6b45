"""The tokenizer of a training: learned from its text or taken from another model, then kept."""

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
    """The tokenizer in a training's folder, put there the first time.

    Args:
        out: the folder.
        model: whose tokenizer is taken; None for one that is learned.
        rows: what it is learned from.
        recipe: how many pieces there are.

    Raises:
        ModelError: if there is no such model, or what is in the folder can't be read.
    """
    if not (out / "tokenizer_config.json").exists():  # slow tokenizers have no tokenizer.json
        texts = (side for row in rows.rows for side in row)
        tokenizer = (
            learn_pieces(texts, recipe.pieces, recipe.max_length)
            if model is None
            else _loaded(place_of(model))
        )
        tokenizer.model_max_length = recipe.max_length  # of this model, whatever that of another
        tokenizer.save_pretrained(out)
    return _loaded(out)


def _loaded(folder: str | Path) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"a model with a tokenizer was expected; {str(folder)!r} has none that can be loaded: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
