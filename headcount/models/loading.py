"""Load: a model and its tokenizer by hub name or folder, with its heads found and checked."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import InputError, ModelError, check_is_no_pipe, processes, reason
from headcount.corpora import Languages, set_languages
from headcount.models.compact_checkpoint import (
    check_plan_file,
    compact_class,
    is_compact,
    load_compact,
    others,
)
from headcount.models.encoder_lm import EncoderConfig, EncoderForCausalLM, EncoderForMaskedLM
from headcount.models.gguf_file import gguf_of, read_gguf, unpacked
from headcount.models.image_encoding import processor_of
from headcount.models.loaded import Loaded
from headcount.models.model_files import (
    NotLookedUpError,
    Place,
    check_files,
    check_is_name,
    check_is_no_adapter,
    code_of_others,
    missing_code,
    place_of,
)
from headcount.models.picture_encoding import picture_processor
from headcount.models.sentence_transformer import follow_settings, transformer_folder
from headcount.models.sound_tower import sound_processor
from headcount.models.spread import (
    AUTO,
    DISK,
    DeviceMap,
    is_split,
    read_split,
    read_spread,
    whole_map,
)
from headcount.models.stated import (
    attention_options,
    check_plausible,
    first_mismatch,
    unknown_value,
    warn_of_dense_numbers,
)
from headcount.models.verdicts import Source
from headcount.results import LAPSED, Certificate

OWN_CLASSES = {own.__name__: own for own in (EncoderForMaskedLM, EncoderForCausalLM)}
"""Classes of models that `headcount train` makes and transformers lacks."""
_TRUST = "trust_remote_code=True"  # in errors of transformers about code that comes with a model


def load(
    name: str | Path,
    device: str = "cpu",
    dtype: str = "float32",
    languages: Languages | None = None,
    inputs: Mapping[str, Tensor] | None = None,
    trust_remote_code: bool = False,
    device_map: DeviceMap | None = None,
    check: bool = False,
) -> Loaded:
    """Load a model as it was saved, with the head its architecture names, ready for measuring.

    Args:
        name: a Hugging Face name, a folder, a GGUF file (or a folder with one, which needs
            `headcount[gguf]`), or `headcount:en-de`, the model shipped with headcount.
        device: where to put it, e.g. `cuda`; `auto` spreads it over all GPUs, then over the CPU's
            memory and disk; `tp` splits layers by head over all processes, `tp:N` over every N.
        dtype: `float32`, `bfloat16`, `float16`, or `auto` for the dtype it was saved in.
        languages: source and target of a multilingual translator, by its tokenizer's names.
        inputs: inputs to find the attention layers with, such as a processor returns for an image
            beside a text; for models whose inputs can't be made up.
        trust_remote_code: whether to run Python files that come with the model. A model that needs
            one is refused otherwise. Compact models that headcount wrote load without.
        device_map: where to put each part, in place of `device`: `auto`, or a device, `cpu` or
            `disk` by the name of a module. Layers run on the GPUs if there are any.
        check: whether to check its attention even if an earlier run did; the verdict about a model
            from files is kept in the user's cache folder (or `HEADCOUNT_CACHE`).

    Raises:
        ModelError: if there is no such model, its files can't be read, it needs code that is not
            trusted, or the device map does not fit it.
        InputError: if there is no such device, or the tokenizer knows no such languages.
    """
    check_is_name(name)
    places = AUTO if device == AUTO and device_map is None else device_map
    where = None if places is not None or is_split(device) else _device(device)
    place = _place(name, trust_remote_code)
    AutoConfig.register(EncoderConfig.model_type, EncoderConfig, exist_ok=True)
    try:
        if place.gguf is None:
            place = replace(place, subfolder=_checked(place.name))
        model = _model(place, device, places, dtype)
    except InputError as error:
        raise ModelError(f"{str(name)!r} can't be loaded: {error}") from error
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # damaged files may raise anything in the libraries that read them
        raise ModelError(_why_not(str(name), place, error)) from error
    tokenizer = _tokenizer(place)
    if languages is not None and tokenizer is not None:
        set_languages(tokenizer, languages)
    image_processor = processor_of(model, place)
    processor = picture_processor(model, place) or sound_processor(model, place)
    model = model.eval() if where is None else model.eval().to(where)  # type: ignore[arg-type]
    source = None if where is None else _source(model, place)
    return Loaded(
        model, tokenizer, str(name), inputs, image_processor, processor, source=source, check=check
    )


def _model(place: Place, device: str, places: DeviceMap | None, dtype: str) -> Any:
    """The model at a place, spread or split if that is asked for."""
    config = place.read(AutoConfig)
    attention = attention_options(config, place.trusted)
    read = partial(_read, place, config, dtype)
    if places is not None:
        return read_spread(read, _checked_map(config, places, place), attention)
    if is_split(device):
        return read_split(read, config, place, attention, device)
    return read(attention)


def _source(model: Any, place: Place) -> Source:
    """The files of a model that is whole on one device."""
    folders = [place.folder, place.folder / place.subfolder] if place.folder.is_dir() else []
    return Source(model, [*dict.fromkeys(folders)], str(place.name))


def _place(name: str | Path, trusted: bool) -> Place:
    """The folder of a model, or its name on the hub, and the name of a GGUF file.

    Raises:
        ModelError: if it is another file, or several GGUF files.
    """
    place = place_of(name)
    try:
        check_is_no_pipe(Path(place))
        gguf = gguf_of(Path(place))
    except InputError as error:
        raise ModelError(f"{str(name)!r} can't be loaded: {error}") from error
    if gguf is not None:
        return Place(gguf.parent, trusted=trusted, gguf=gguf.name)
    if Path(place).is_file():
        raise ModelError(
            "Expected a Hugging Face model name, a folder with config.json and weights or a GGUF "
            f"file, got the file {str(name)!r}. Name a folder."
        )
    return Place(place, trusted=trusted)


def _checked_map(config: PreTrainedConfig, places: DeviceMap, place: Place) -> str | dict[str, Any]:
    """A device map with a place for every part of the model that a configuration makes."""
    if place.gguf is not None:
        raise InputError(
            "Expected safetensors files for --device auto or device_map, got a GGUF file, whose "
            "weights are unpacked in memory. Convert it, or load it on one device"
        )
    if not isinstance(places, str):
        for each in {*places.values()} - {DISK}:
            _device(f"cuda:{each}" if isinstance(each, int) else str(each))
    kind = _model_class(config, place.trusted)
    if is_compact(config) and kind is not AutoModel:
        kind = compact_class(kind)
    with torch.device("meta"):
        make = getattr(kind, "_from_config", None) or kind.from_config
        return whole_map(make(copy.deepcopy(config)), places)


def _checked(place: str | Path) -> str:
    """The folder, inside the model's, of weights and tokenizer, after a check of the files."""
    if not Path(place).is_dir():
        return _weights_folder(place)
    check_is_no_adapter(Path(place))
    check_files(Path(place))
    inside = _weights_folder(place)
    check_files(weights := Path(place, inside))
    check_plausible(weights)
    return inside


def _why_not(name: str, place: Place, error: Exception) -> str:
    """Why a model can't be loaded."""
    config = place.file("config.json")
    if _TRUST in str(error):
        return f"{name!r} can't be loaded: {_needs_trust(place.name, config)}"
    if isinstance(error, OSError) and (missing := missing_code(place.name, config)):
        return f"{name!r} can't be loaded: {missing}"
    why = reason(error).rstrip(".")
    if "ignore_mismatched_sizes" in why:  # transformers logs which
        why = _mismatch(place) or why
    why = unknown_value(place.folder, error) or why
    if not place.folder.exists() and isinstance(error, OSError):
        return (
            f"Expected a folder or a Hugging Face model name, but there is no folder {name!r} "
            f"here, and no model of that name could be fetched from the hub: {why}. Check the path "
            "or the name."
        )
    if place.gguf is not None:
        return f"Expected a whole GGUF file, but {name!r} can't be read: {why}. Download it again."
    is_folder = place.folder.is_dir()
    advice = "Copy or save it again." if is_folder else "Check the name or the path."
    return (
        "Expected a Hugging Face model name or a folder with config.json and weights, but "
        f"{name!r} can't be loaded: {why}. {advice}"
    )


def _needs_trust(place: str | Path, file: str) -> str:
    """Why a model whose code must be trusted is refused, and whose code it is."""
    others = sorted({repo for repo, _ in code_of_others(place, file)})
    source = f"of {', '.join(others)}" if others else "that come with it"
    return (
        f"it needs Python files {source} (auto_map in its config), and none runs unless you trust "
        "them. Read them, then give --trust-remote-code, or load(..., trust_remote_code=True)."
    )


def _mismatch(place: Place) -> str | None:
    """The first tensor of a folder that does not fit its configuration; None if it is not found."""
    with suppress(Exception):  # the error that is being explained comes first
        config = place.read(AutoConfig)
        kind = _model_class(config, place.trusted)
        return first_mismatch(place.folder / place.subfolder, kind, config)
    return None


def _device(name: str) -> torch.device:
    """A device by name; `cuda` is this process's GPU, among those of this machine."""
    if name == "cuda":
        name = f"cuda:{processes().local_process_index}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device, dtype=torch.float64)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise InputError(
            f"Expected a device that torch has here and that has float64, such as cpu, or cuda "
            f"with a GPU, got "
            f"{name!r} ({reason(error)})."
        ) from error
    return device


def _weights_folder(place: str | Path) -> str:
    """The folder, inside the model's, of weights and tokenizer; empty where it is the model's."""
    try:
        return transformer_folder(str(place))
    except NotLookedUpError:
        return ""


def _read(place: Place, config: PreTrainedConfig, dtype: str, attention: Mapping[str, Any]) -> Any:
    if place.gguf is not None:
        return read_gguf(place, config, dtype)
    stock, folder = _model_class(config, place.trusted), place.folder
    if is_compact(config):
        if stock is AutoModel:
            name = next(iter(config.architectures or []), "none")
            raise ModelError(
                f"expected a class of transformers, got {name}. With that class, "
                f"headcount.models.compact_class({name}).from_pretrained({str(folder)!r}) loads it."
            )
        model = load_compact(place.name, stock, config, dtype, attention)
        check_plan_file(folder, config.head_plan)
        _warn_of_lapsed(folder)
        warn_of_dense_numbers(model, folder)
        return model
    with torch.random.fork_rng(devices=[]):
        # Weights that are drawn because they are missing are the same in every run.
        torch.default_generator.manual_seed(0)
        more = {**attention, **unpacked(config)}
        model, info = place.read(stock, dtype=dtype, output_loading_info=True, **more)
    _warn_of_missing(place.name, type(model), sorted(info["missing_keys"]))
    names = config.architectures or []
    if stock is AutoModel and names and _auto_class_of_code(config, names) is not None:
        if not place.trusted:
            warnings.warn(
                f"{place.name}: its config names {names[0]}, which comes with it as Python files. "
                f"Without --trust-remote-code it is read as transformers' {type(model).__name__}",
                stacklevel=3,
            )
    return model


def _warn_of_lapsed(folder: Path) -> None:
    """Warn about a compact model with other weights than those that its certificate compared."""
    if not (folder / Certificate.FILE).exists():
        return
    try:
        lapsed = None if Certificate.read(folder).holds_for(folder) else LAPSED
    except InputError as error:  # the model itself is usable
        lapsed = str(error)
    if lapsed:
        warnings.warn(f"{folder}: {lapsed}", stacklevel=4)


def _warn_of_missing(place: str | Path, kind: type, names: list[str]) -> None:
    """Warn about weights that the checkpoint lacks."""
    if names:
        warnings.warn(
            f"{place}: its files lack {names[0]}{others(names)}, which a {kind.__name__} has: "
            "they are initialised as in a new model, the same in every run, and what depends on "
            "them was never trained",
            stacklevel=4,
        )


def _model_class(config: PreTrainedConfig, trusted: bool) -> Any:
    """The class that a configuration names: ours, one that comes with the model, or a stock one."""
    names = config.architectures or []
    if own := [OWN_CLASSES[name] for name in names if name in OWN_CLASSES]:
        return own[0]
    if trusted and not is_compact(config) and (auto := _auto_class_of_code(config, names)):
        return auto
    stock = (getattr(transformers, name, None) for name in names)
    return next((found for found in stock if found is not None), AutoModel)


def _auto_class_of_code(config: PreTrainedConfig, names: Sequence[str]) -> Any:
    """The auto class that loads the named class from the model's files, else that of its body."""
    given = getattr(config, "auto_map", None) or {}
    classes = {
        auto: str(place).rpartition(".")[2]
        for auto, place in given.items()
        if auto.startswith("AutoModel") and hasattr(transformers, auto)
    }
    named = (auto for auto, of in classes.items() if of in names)
    auto = next(named, "AutoModel" if "AutoModel" in classes else None)
    return None if auto is None else getattr(transformers, auto)


def _tokenizer(place: Place) -> Tokenizer | None:
    """The tokenizer of a text model; None for models of pixels or sound, which have none.

    It follows the settings of a sentence-transformers folder.

    For a folder without tokenizer files, transformers still makes a tokenizer, which knows only
    special tokens and turns every text into unknown ones.
    """
    try:
        tokenizer = place.read(AutoTokenizer)
    except Exception as error:  # Marian needs its files; tokenizers raises nothing more specific
        _warn_of_tokenizer(place, error)
        return None
    if not isinstance(limit := tokenizer.model_max_length, int | float) or limit < 1:
        raise ModelError(
            f"Expected a number of tokens as model_max_length in the tokenizer_config.json of "
            f"{place.name}, got {limit!r}."
        )
    usual = {*tokenizer.get_vocab()} - {*tokenizer.get_added_vocab()}
    if len(usual - {*tokenizer.all_special_tokens}) <= 1:
        return None
    with suppress(NotLookedUpError):
        follow_settings(tokenizer, str(place.name))
    return tokenizer


def _warn_of_tokenizer(place: Place, error: Exception) -> None:
    """Warn that an existing tokenizer can't be read, and why."""
    name, file = str(place.name), place.file("tokenizer_config.json")
    if place.has("tokenizer_config.json"):
        why = _needs_trust(name, file) if _TRUST in str(error) else reason(error)
        why = (missing_code(name, file) or why) if isinstance(error, OSError) else why
        warnings.warn(f"{name}: its tokenizer can't be read and is ignored: {why}", stacklevel=4)
