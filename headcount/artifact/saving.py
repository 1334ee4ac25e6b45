"""Save: write a compact model to one folder that loads with or without this package."""

import warnings
from pathlib import Path
from shutil import copyfile

import transformers
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from headcount.artifact.staging import staged
from headcount.artifact.weight_files import patch, write_weights
from headcount.core import InputError, inside, read_json, write_json, write_text
from headcount.models import (
    MODELLING,
    MODULES,
    OWN_CLASSES,
    OWN_FILE,
    SENTENCE_CONFIG,
    TRANSFORMER_CONFIGS,
    EncoderConfig,
    Loaded,
    NotLookedUpError,
    as_loaded,
    auto_class,
    auto_classes,
    file_of,
    modelling_text,
    sentence_modules,
    transformer_folder,
)

PREPROCESSING = ("preprocessor_config.json", "processor_config.json")
"""Files beside a model's weights that its tokenizer does not write."""


def copy_side_files(name: str, folder: Path) -> None:
    """Copy the side files that a model has.

    Args:
        name: Folder or hub name; empty for a model made in memory, which has none.
        folder: Folder to copy into.
    """
    try:
        beside = transformer_folder(name)
        for file in PREPROCESSING:
            _copy(name, file, folder, beside)
        if _copy(name, MODULES, folder):
            _copy_sentence_files(name, folder, beside)
    except NotLookedUpError as error:
        warnings.warn(
            f"{name}: files beside model and tokenizer, such as {MODULES}, could not be looked up "
            f"({error}). Copy those that it has to {folder}.",
            stacklevel=2,
        )


def _copy_sentence_files(name: str, folder: Path, beside: str) -> None:
    """Copy what sentence-transformers reads, whose Transformer is now in the folder itself."""
    _copy(name, SENTENCE_CONFIG, folder)
    for file in TRANSFORMER_CONFIGS:
        _copy(name, file, folder, beside)
    for module in sentence_modules(name):
        if module.folder != beside:
            _copy_module(name, module.folder, folder)
        if "." in module.kind:
            warnings.warn(
                f"{name}: {MODULES} names {module.kind}, whose code was not copied to {folder}. "
                "Copy its file if sentence-transformers is to load the folder.",
                stacklevel=3,
            )
    if beside:
        entries = read_json(folder / MODULES, "a list of modules", "Copy the model again.")
        moved = [each | {"path": ""} if each["path"] == beside else each for each in entries]
        write_json(folder / MODULES, moved)


def _copy_module(name: str, module: str, folder: Path) -> None:
    _copy(name, f"{module}/config.json", folder)
    has_weights = _copy(name, f"{module}/model.safetensors", folder)
    if not has_weights and file_of(name, f"{module}/pytorch_model.bin") is not None:
        warnings.warn(
            f"{name}: the pickled weights of its module {module} were not copied to {folder}. Save "
            f"them there as {module}/model.safetensors.",
            stacklevel=4,
        )


def _copy(name: str, file: str, folder: Path, beside: str = "") -> bool:
    """Copy a file if it exists in the sub-folder `beside`, and return whether it did."""
    inside(folder, file)
    if (found := file_of(name, f"{beside}/{file}".removeprefix("/"))) is None:
        return False
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    copyfile(found, folder / file)
    return True


def auto_map(config: PreTrainedConfig, stock: type[PreTrainedModel]) -> dict[str, str]:
    """The class to load for every auto class that knows the model's configuration.

    Args:
        config: Configuration of the model.
        stock: Class of the model before pruning.
    """
    if stock.__name__ in OWN_CLASSES:
        own = f"{OWN_FILE}.{EncoderConfig.__name__}"
        return {"AutoConfig": own, str(stock._auto_class): f"{MODELLING}.{stock.__name__}"}
    known = auto_classes(type(config)) or {AutoModel.__name__: stock}
    return {name: f"{MODELLING}.{taken.__name__}" for name, taken in known.items()}


def auto_class_of(model: PreTrainedModel) -> str:
    """The auto class that loads a dense or compact model with its output head."""
    stock = vars(type(model)).get("stock_class", type(model))
    return stock._auto_class or auto_class(stock) or AutoModel.__name__


def modelling_file(text: str, stock: type) -> str:
    """The text of the modelling file; a class of ours is written beside that file."""
    if stock.__name__ not in OWN_CLASSES:
        return text
    none = "OWN: dict[str, type] = {}  # stock classes that transformers lacks\n"
    assert none in text
    name = stock.__name__
    own = f'OWN: dict[str, type] = {{"{name}": _stock}}\n'
    imported = f"from torch import Tensor, nn\n\nfrom .{OWN_FILE} import {name} as _stock\n"
    return text.replace("from torch import Tensor, nn\n", imported).replace(none, own)


def save(
    model: Loaded | PreTrainedModel,
    folder: str | Path,
    tokenizer: PreTrainedTokenizerBase | None = None,
    overwrite: bool = False,
) -> None:
    """Write a compact model, completely or not at all.

    Args:
        model: Model that `compact` returned, or a compact one that `load` returned.
        folder: Folder to write into. It loads with `headcount.load(folder)`, and with
            transformers alone through its auto class, e.g.
            `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`.
        tokenizer: Tokenizer to write with the model; the loaded one if None.
        overwrite: Whether to replace a compact model in the folder.

    Raises:
        InputError: If the model is not a compact one, or the folder is taken.
    """
    loaded = as_loaded(model, tokenizer)
    with staged(Path(folder), overwrite, advice="overwrite=True") as staging:
        write_into(staging, loaded.model, loaded.tokenizer)


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
        raise InputError(_needs_class(model, stock))
    write_weights(folder, model)
    patch(folder / "config.json", auto_map=auto_map(model.config, stock))
    text = modelling_text()
    write_text(folder / f"{MODELLING}.py", modelling_file(text, stock))
    _write_beside(folder, model, tokenizer)


def _needs_class(model: PreTrainedModel, stock: type[PreTrainedModel]) -> str:
    """Why a model of a class of the user's own has no folder that loads without that class."""
    name, body = stock.__name__, model.base_model
    advice = (
        f"With the class at hand, model.save_pretrained(folder) keeps everything, and "
        f"headcount.models.compact_class({name}).from_pretrained(folder) loads it."
    )
    if body is not model and getattr(transformers, type(body).__name__, None) is type(body):
        advice += (
            f" To load without it, compact and save the body, a {type(body).__name__}: "
            "headcount.compact(model.base_model, plan) of the dense model. The rest is then lost."
        )
    return f"Expected a class of transformers, which can load the folder, got {name}. {advice}"


def write_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Write any model into a folder, with its tokenizer and side files."""
    if "stock_class" in vars(type(model)):
        write_into(folder, model, tokenizer)
        return
    write_weights(folder, model)
    _write_beside(folder, model, tokenizer)


def _write_beside(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Write side files and tokenizer."""
    copy_side_files(model.config.name_or_path or "", folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
