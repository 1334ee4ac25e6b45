"""Save: write a compact model to one folder that loads with or without this package."""

import json
from pathlib import Path
from typing import Any

import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.artifact.auto_map import auto_map, modelling_file
from headcount.artifact.side_files import copy_side_files
from headcount.artifact.staging import staged
from headcount.errors import InputError
from headcount.files import write_json, write_text
from headcount.models import modeling_headcount
from headcount.models.compacted import MODELLING
from headcount.models.load import OWN_CLASSES


def save(
    model: PreTrainedModel,
    folder: str | Path,
    tokenizer: PreTrainedTokenizerBase | None = None,
    overwrite: bool = False,
) -> None:
    """Write a compact model, completely or not at all.

    Args:
        model: Model that `compact` returned.
        folder: Folder to write into. It loads with `headcount.load(folder)`, and with
            transformers alone through its auto class, e.g.
            `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`.
        tokenizer: Tokenizer to write with the model.
        overwrite: Whether to replace a compact model in the folder.

    Raises:
        InputError: If the model is not a compact one, or the folder is taken.
    """
    with staged(Path(folder), overwrite, advice="overwrite=True") as staging:
        write_into(staging, model, tokenizer)


def write_into(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Write configuration, weights, modelling file, tokenizer and side files into a folder.

    Raises:
        InputError: If the model is not a compact one, or no loader would find its class.
    """
    stock = vars(type(model)).get("stock_class")
    if stock is None:
        raise InputError(
            f"Expected a compact model, as headcount.compact(model, plan) returns, but this "
            f"{type(model).__name__} has all its heads. Save it with model.save_pretrained."
        )
    if (
        stock.__name__ not in OWN_CLASSES
        and getattr(transformers, stock.__name__, None) is not stock
    ):
        raise InputError(
            f"Expected a class of transformers, which can load the folder, got {stock.__name__}. "
            "Compact a model of transformers' own class."
        )
    model.save_pretrained(folder)
    _patch(folder / "config.json", auto_map=auto_map(model.config, stock))
    text = Path(str(modeling_headcount.__file__)).read_text(encoding="utf-8")
    write_text(folder / f"{MODELLING}.py", modelling_file(text, stock))
    _write_beside(folder, model, tokenizer)


def write_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Write any model into a folder, with its tokenizer and side files."""
    if "stock_class" in vars(type(model)):
        write_into(folder, model, tokenizer)
        return
    model.save_pretrained(folder)
    _write_beside(folder, model, tokenizer)


def _write_beside(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Write side files and tokenizer."""
    copy_side_files(model.config.name_or_path or "", folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def _patch(path: Path, **values: Any) -> None:
    write_json(path, json.loads(path.read_text(encoding="utf-8")) | values)
