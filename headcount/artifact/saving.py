"""Save: write a compact model to one folder that loads with or without this package.

Models are loaded in float32 by default, since that is the most exact to measure in. A tensor that
was only cut still fits the 16-bit format that it was read in; one that was trained, folded or
rescaled needs the format that it was computed in. Weights are written in the format of their source
where they fit it.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile
from typing import Any, final

import torch
import transformers
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.core_model_loading import revert_weight_conversion

from headcount.artifact.plain import OURS, plain_fields
from headcount.artifact.staging import destination, staged
from headcount.compaction import warn_of_numbers
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
    SentenceModule,
    as_loaded,
    auto_class,
    auto_classes,
    file_of,
    modelling_text,
    sentence_modules,
    source_format,
    transformer_folder,
)
from headcount.tap import is_spread, weights_of


def in_source_format(
    state: Mapping[str, Tensor], name: str
) -> tuple[dict[str, Tensor], torch.dtype | None]:
    """A model's tensors, each in the format of its source where that holds the same numbers.

    Args:
        state: The tensors; those that share memory share it in the result, too.
        name: Folder or hub name of the source; empty for a model made in memory.

    Returns:
        The tensors, and the source's format if all of them have it now.
    """
    source = source_format(name)
    tensors, num_wider, num_exact = _in_format(state, source)
    return tensors, source if 0 < num_wider == num_exact else None


def _in_format(
    state: Mapping[str, Tensor], source: torch.dtype | None
) -> tuple[dict[str, Tensor], int, int]:
    """Tensors in the format of their source where that is exact.

    Returns:
        The tensors, the number of those that were wider, and how many of them are exact.
    """
    wider = [each for each in state.values() if source and _is_wider(each, source)]
    if source is None or not wider:
        return dict(state), 0, 0
    narrowed = {_memory(each): each.to(source) for each in wider}
    kept = {_memory(each): each for each in wider}
    exact = {
        place: narrow
        for place, narrow in narrowed.items()
        if torch.equal(narrow.to(kept[place].dtype), kept[place])
    }
    tensors = {key: exact.get(_memory(each), each) for key, each in state.items()}
    return tensors, len(narrowed), len(exact)


def _is_wider(tensor: Tensor, source: torch.dtype) -> bool:
    return tensor.is_floating_point() and tensor.element_size() > source.itemsize


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())


def write_weights(folder: Path, model: PreTrainedModel) -> None:
    """Write configuration and weights, in the number format of their source where it holds them."""
    computed = model._keys_to_ignore_on_save or ()  # by the class, as Marian's positions are
    state = {name: each for name, each in model.state_dict().items() if name not in computed}
    name = model.config.name_or_path or ""
    if is_spread(model):
        dtype = _write_shards(folder, model, state, source_format(name))
    else:
        state, dtype = in_source_format(state, name)
        model.save_pretrained(folder, state_dict=state)
    if dtype is not None:
        patch(folder / "config.json", dtype=str(dtype).removeprefix("torch."))


def _write_shards(
    folder: Path,
    model: PreTrainedModel,
    state: Mapping[str, Tensor],
    source: torch.dtype | None,
) -> torch.dtype | None:
    """Write configuration and weights, of which one file at a time is in memory.

    Args:
        folder: Folder to write into.
        model: Model that is spread over devices, memory and disk.
        state: Its tensors by name; numbers may be away.
        source: Format of its source.

    Returns:
        The source's format if all tensors have it now.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # which says what is done here
        model.save_pretrained(folder, state_dict={})
    tied = getattr(model, "all_tied_weights_keys", {})
    once = {name: each for name, each in state.items() if tied.get(name) not in state}
    shards = split_torch_state_dict_into_shards(
        once, filename_pattern="model{suffix}.safetensors", max_shard_size=SHARD
    )
    places, num_wider, num_exact = dict[str, str](), 0, 0
    for file, names in shards.filename_to_tensors.items():
        tensors = dict[str, Tensor]()
        for name in names:  # each in its own format, before the next one is read
            one, wider, exact = _in_format({name: numbers_of(model, name).contiguous()}, source)
            tensors |= one
            num_wider, num_exact = num_wider + wider, num_exact + exact
        tensors = revert_weight_conversion(model, tensors)
        save_file(tensors, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(tensors, file)
    if shards.is_sharded:
        index = {"metadata": shards.metadata, "weight_map": places}
        write_json(folder / "model.safetensors.index.json", index)
    return source if 0 < num_wider == num_exact else None


def numbers_of(model: PreTrainedModel, name: str) -> Tensor:
    """A tensor of a model, from wherever it is kept."""
    path, _, kind = name.rpartition(".")
    return weights_of(model.get_submodule(path))[kind].detach().cpu()


SHARD = "5GB"
"""Largest size of a file of weights of a model that is spread."""


def patch(path: Path, without: Sequence[str] = (), **values: Any) -> None:
    """Set fields of a JSON file, and leave some out."""
    found = json.loads(path.read_text(encoding="utf-8"))
    kept = {name: value for name, value in found.items() if name not in without}
    write_json(path, kept | values)


PREPROCESSING = ("preprocessor_config.json", "processor_config.json")
"""Files beside a model's weights that its tokenizer does not write."""


def copy_side_files(name: str, folder: Path) -> None:
    """Copy the side files that a model has; a warning names those that could not be looked up.

    Args:
        name: Folder or hub name; empty for a model made in memory, which has none.
        folder: Folder to copy into.
    """
    side = _SideFiles(name, folder)
    has_modules = side.copy(MODULES)
    beside = transformer_folder(name) if has_modules else ""
    for file in PREPROCESSING:
        side.copy(file, beside)
    if has_modules:
        _copy_sentence_files(side, beside)
    if side.unknown:
        error = next(iter(side.unknown.values()))
        warnings.warn(
            f"{name}: files beside model and tokenizer could not be looked up ({error}): "
            f"{', '.join(side.unknown)}. Copy those that it has to {destination(folder)}.",
            stacklevel=2,
        )


@final
@dataclass(frozen=True)
class _SideFiles:
    """The side files of a model, each of which is looked up by itself."""

    name: str
    folder: Path
    unknown: dict[str, NotLookedUpError] = field(default_factory=dict)
    """Why each file could not be looked up, by its name."""

    def find(self, file: str) -> Path | None:
        """The path of a file; None if there is none, or that is unknown."""
        try:
            return file_of(self.name, file)
        except NotLookedUpError as error:
            self.unknown[file] = error
            return None

    def copy(self, file: str, beside: str = "") -> bool:
        """Copy a file if it exists in the sub-folder `beside`, and return whether it did."""
        inside(self.folder, file)
        if (found := self.find(f"{beside}/{file}".removeprefix("/"))) is None:
            return False
        (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
        copyfile(found, self.folder / file)
        return True


def _copy_sentence_files(side: _SideFiles, beside: str) -> None:
    """Copy what sentence-transformers reads, whose Transformer is now in the folder itself."""
    side.copy(SENTENCE_CONFIG)
    any(side.copy(file, beside) for file in TRANSFORMER_CONFIGS)  # the first one counts
    for module in sentence_modules(side.name):
        if module.folder != beside:
            _copy_module(side, module)
        if "." in module.kind:
            warnings.warn(
                f"{side.name}: {MODULES} names {module.kind}, whose code was not copied to "
                f"{destination(side.folder)}. Copy its file if sentence-transformers is to load "
                "the folder.",
                stacklevel=3,
            )
    if beside:
        path = side.folder / MODULES
        entries = read_json(path, "a list of modules", "Copy the model again.")
        moved = [each | {"path": ""} if each["path"] == beside else each for each in entries]
        write_json(path, moved)


def _copy_module(side: _SideFiles, module: SentenceModule) -> None:
    folder = module.folder
    side.copy(f"{folder}/config.json")
    if module.may_have_weights and not side.copy(f"{folder}/model.safetensors"):
        if side.find(f"{folder}/pytorch_model.bin") is not None:
            warnings.warn(
                f"{side.name}: the pickled weights of its module {folder} were not copied to "
                f"{destination(side.folder)}. Save them there as {folder}/model.safetensors.",
                stacklevel=4,
            )


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
            `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`; without that
            argument if its layers are even and its class takes their sizes.
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
    fields = None if stock.__name__ in OWN_CLASSES else plain_fields(model)
    if fields is not None:
        patch(folder / "config.json", OURS, **fields)
        (folder / f"{MODELLING}.py").unlink(missing_ok=True)  # transformers copies it along
    else:
        patch(folder / "config.json", auto_map=auto_map(model.config, stock))
        text = modelling_text()
        write_text(folder / f"{MODELLING}.py", modelling_file(text, stock))
    _write_beside(folder, model, tokenizer)
    warn_of_numbers(folder, model.config.head_plan, model.config.model_type)


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
