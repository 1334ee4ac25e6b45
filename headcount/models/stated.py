"""Stated: what a configuration says of a model's heads and texts, before any weight is read.

Only configurations are followed that number their layers and heads in the usual way. The model may
have fewer heads (layers without attention), never more. So an impossible request is refused at
once, and one that seems possible may still be refused when the model is there.

Plausible: a configuration's sizes against the weight files beside it, before anything is built.

A number of layers, a width or a vocabulary of a million million would be built, layer by layer or
number by number, until the process is killed. Every size needs at least as many bytes of weights,
and every layer a tensor, except in models whose layers share theirs. Afterwards, the first tensor
that does not fit, or the field whose value is unknown, is the reason why a model can't be loaded.

Some fields list heads by number, as [layer, head], both from 0. Compaction renumbers them with the
heads, and notes so in the head plan. A compact model that an earlier version wrote has no such
note: its fields name heads of the dense model.
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from headcount.core import Head, Heads, InputError, ModelError, Plan, amount, read_json
from headcount.models.compact_checkpoint import is_compact
from headcount.models.model_files import Place, place_of, tensors_in
from headcount.models.sentence_transformer import transformer_folder
from headcount.tap import positions_of

LAYERS = 200
"""Largest number of layers in any case, since layers may share tensors (ALBERT)."""
SIZE = 1_000_000
"""Largest width, vocabulary or number of heads in any case."""
POSITIONS = 20_000_000
"""Largest number of positions in any case, since rotary positions need no weights."""
_COMPUTED_POSITIONS = 65_536
"""Largest number of positions of models that compute a table of sines, often number by number."""

_LAYERS = re.compile(r"(layers?|blocks?|depths?|repeats?)$")
_POSITIONS = re.compile(r"(position|context|length|window)")
_SIZES = re.compile(r"(heads?|groups?|experts|size|dims?|embd|inner|labels|states?|^d_\w+|_rank)$")
_FIT = "to fit the weight files beside it, which hold"
_POSITIVE = re.compile(r"(^|_)(heads|layers|hidden_size|vocab_size|intermediate_size|d_model)$")
_WITH_SINES = frozenset(
    "autoformer codegen distilbert flaubert fsmt gptj informer kosmos-2 m2m_100 marian "
    "musicgen_decoder musicgen_melody_decoder nllb-moe pegasus pegasus_x roformer seamless_m4t "
    "seamless_m4t_v2 speech_to_text speecht5 time_series_transformer trocr whisper xglm xlm".split()
)
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack", "*.gguf")


def check_plausible(folder: Path) -> None:
    """Check that a folder's weight files can hold the layers and sizes that its config.json names.

    Raises:
        ModelError: If they are far too small; names the field.
        InputError: If config.json can't be read, or `auto_map` in it is no object.
    """
    if not (path := folder / "config.json").is_file():
        return
    what, advice = "the configuration of a model", "Copy the model again."
    config = read_json(path, what, advice)
    if not isinstance(config, dict):
        raise InputError(f"Expected {what} in {path}, got {_kind(config)}. {advice}")
    if not isinstance(auto_map := config.get("auto_map", {}), dict):
        raise InputError(
            f"Expected the names of classes as auto_map in {path}, got {_kind(auto_map)}. Delete "
            "it, or copy the model again."
        )
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    if not files:
        return  # transformers says which are missing
    num_bytes = sum(file.stat().st_size for file in files)
    num_tensors = sum(len(_shapes(file)) for file in files if file.suffix == ".safetensors")
    held = f"{amount(num_bytes, 'byte')} of weights"
    sines = sorted(_WITH_SINES.intersection(_model_types(config)))
    for name, value in _sizes_of(config):
        if value < 0 and _POSITIVE.search(name):
            raise ModelError(
                f"Expected {name} in {path} to be positive, got {value:,}. Copy config.json again."
            )
        if _LAYERS.search(name):
            holds = amount(num_tensors, "tensor") if num_tensors else held
            most, must = max(LAYERS, num_tensors or num_bytes), f"{_FIT} {holds}"
        elif "position" in name and sines:
            most = _COMPUTED_POSITIONS
            must = f"to be at most {most:,}, since a {sines[0]} computes a row of sines for each"
        elif _POSITIONS.search(name):
            most, must = max(POSITIONS, num_bytes), f"{_FIT} {held}"
        elif _SIZES.search(name):
            most, must = max(SIZE, num_bytes), f"{_FIT} {held}"
        else:
            continue
        if value > most:
            raise ModelError(
                f"Expected {name} in {path} {must}, got {value:,}. Copy config.json again, or the "
                "weights."
            )


_STOCK_ATTENTION = (None, "eager", "sdpa")
"""Implementations of attention for which transformers never fetches code."""


def attention_options(config: PreTrainedConfig, trusted: bool) -> dict[str, None]:
    """Options for transformers that keep it from fetching kernels that config.json names.

    Args:
        config: Configuration of the model.
        trusted: Whether code that comes with the model may run.

    Raises:
        ModelError: If it names a kernel of the hub and is not trusted.
    """
    parts = [config, *(getattr(config, name, None) for name in config.sub_configs)]
    named = [getattr(part, "_attn_implementation", None) for part in parts]
    if trusted or all(each in _STOCK_ATTENTION for each in named):
        return {}
    if fetched := [each for each in named if "/" in str(each)]:
        raise ModelError(
            f"its config.json names {fetched[0]!r:.80} as the implementation of attention, code "
            "that would be fetched from the hub and run. Delete the name, or give "
            "--trust-remote-code, or load(..., trust_remote_code=True)."
        )
    return {"attn_implementation": None}


def unknown_value(folder: Path, error: BaseException) -> str | None:
    """The field of a folder's config.json that an error is about; None if it is not found.

    Args:
        folder: Folder of the model.
        error: A failed look-up of a name, or a division by zero.
    """
    value = error.args[0] if isinstance(error, KeyError) and error.args else None
    value = error.name if isinstance(error, AttributeError) else value
    with suppress(Exception):  # the error that is being explained comes first
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if isinstance(error, ZeroDivisionError):
            zero = [name for name, each in _sizes_of(config) if each == 0 and _SIZES.search(name)]
            return f"config.json says {zero[0]}: 0" if zero else None
        fields = [name for name, each in config.items() if isinstance(value, str) and each == value]
        if fields:
            return f"config.json says {fields[0]}: {value!r}, which transformers does not know"
    return None


def first_mismatch(folder: Path, kind: Any, config: PreTrainedConfig) -> str | None:
    """The first tensor in a folder's files whose shape is not that of the model; None if none is.

    Args:
        folder: Folder with weights in safetensors files.
        kind: Class of the model.
        config: Configuration of the model.
    """
    with torch.device("meta"):
        model = kind._from_config(config)
    expected = {name: tuple(each.shape) for name, each in model.state_dict().items()}
    body = f"{model.base_model_prefix}."
    for file in sorted(folder.glob("*.safetensors")):
        for name, found in _shapes(file).items():
            shape = expected.get(name, expected.get(body + name))
            shape = expected.get(name.removeprefix(body)) if shape is None else shape
            if shape not in (None, found):
                return (
                    f"{name} in {file.name} has the shape {found}, and its config.json makes it "
                    f"{shape}"
                )
    return None


def _sizes_of(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """All integers in a configuration, with the names of their fields."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _sizes_of(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _sizes_of(each, name)
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        yield name, int(value)


def _model_types(value: Any) -> Iterator[str]:
    """The types of a model and of the models that it consists of."""
    if isinstance(value, dict):
        if isinstance(found := value.get("model_type"), str):
            yield found
        for each in value.values():
            yield from _model_types(each)


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a file's tensors, from its header."""
    return {name: tuple(each["shape"]) for name, each in tensors_in(file).items()}


def _kind(value: Any) -> str:
    """What a value of JSON is, in words."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number")


_MORE = (
    *("decoder_layers", "num_decoder_layers", "encoder_layers", "inner_group_num", "block_sizes"),
    "local_transformer_stride",
)
"""Fields of configurations of one stack whose model may have more layers than it numbers."""


@final
@dataclass(frozen=True)
class Stated:
    """The most heads, and the longest text, that a model can have by its configuration."""

    name: str
    """Name of the model."""
    grids: tuple[Heads, ...] = ()
    """What its heads can be: those of one stack are an encoder's or a decoder's. Empty if that is
    unknown."""
    positions: int | None = None
    """Number of positions; None if unknown."""

    @classmethod
    def of(cls, name: str, trust_remote_code: bool = False) -> "Stated":
        """What is stated of a model by name or folder: nothing if its configuration can't be read.

        What is wrong with the configuration is reported when the model is loaded.
        """
        with suppress(Exception):
            place = place_of(name)
            inside = transformer_folder(str(place)) if Path(place).is_dir() else ""
            config = Place(place, inside, trust_remote_code).read(AutoConfig)
            text = config.get_text_config()
            return cls(name, grids_of(config), positions_of(text))
        return cls(name)

    def check_plan(self, plan: Plan) -> None:
        """Check that the model can have the heads that a plan names.

        Raises:
            InputError: If it can't have one.
        """
        named = (
            Head(site, layer, index)
            for site, layers in plan.kept.items()
            for layer, indices in layers.items()
            for index in indices
        )
        self.check_heads(named, "the plan")

    def check_heads(self, heads: Iterable[Head], where: str) -> None:
        """Check that the model can have some heads.

        Args:
            heads: The heads.
            where: What names them.

        Raises:
            InputError: If it can't have one.
        """
        heads = list(heads)
        unknown = [[head for head in heads if head not in grid] for grid in self.grids]
        if unknown and all(unknown):
            raise InputError(
                f"Expected heads of {self.name} in {where}, which has {self} by its "
                f"configuration, got {unknown[0][0]}. Name heads of this model."
            )

    def check_keep(self, number: int, site: str | None = None) -> None:
        """Check that the model can have as many heads, in all or at one site.

        Raises:
            InputError: If it has fewer.
        """
        most = max((_total(grid, site) for grid in self.grids), default=number)
        if number > most:
            raise InputError(
                f"Expected at most {amount(most, 'head')} to keep"
                f"{'' if site is None else f' at {site}'}, since {self.name} has {self} by its "
                f"configuration, got {number}. Keep fewer."
            )

    def check_length(self, number: int) -> None:
        """Check that the model can read so many tokens.

        Raises:
            InputError: If it can't.
        """
        if self.positions is not None and number > self.positions:
            raise InputError(
                f"Expected pieces of at most {amount(self.positions, 'token')}, since {self.name} "
                f"has so many positions by its configuration, got {number}. Make them shorter."
            )

    def __str__(self) -> str:
        return " or ".join(map(str, self.grids))


def grids_of(config: PreTrainedConfig) -> tuple[Heads, ...]:
    """The grids that the heads of a model can have; none if a configuration leaves that open."""
    if config.get_text_config() is not config or config.sub_configs or is_compact(config):
        return ()
    if config.is_encoder_decoder:
        names = ("encoder_layers", "encoder_attention_heads", "decoder_layers")
        found = _numbers(config, *names, "decoder_attention_heads")
        if not all(found):
            found = _numbers(config, "num_layers", "num_heads", "num_decoder_layers", "num_heads")
        if not all(found):
            return ()
        layers, heads, more_layers, more_heads = found
        decoder = (more_heads,) * more_layers
        sides = {"encoder.self": (heads,) * layers, "decoder.self": decoder}
        return (Heads({**sides, "decoder.cross": decoder}),)
    layers, heads = _numbers(config, "num_hidden_layers", "num_attention_heads")
    numbers = [name for name in vars(config) if name.endswith("num_attention_heads")]
    if not (layers and heads) or len(numbers) > 1 or any(_numbers(config, *_MORE)):
        return ()
    return tuple(Heads({site: (heads,) * layers}) for site in ("encoder.self", "decoder.self"))


def _total(grid: Heads, site: str | None) -> int:
    return len(grid) if site is None else sum(grid.counts.get(site, ()))


def _numbers(config: PreTrainedConfig, *names: str) -> list[int]:
    """Fields of a configuration; 0 for those that it lacks or that are no numbers above 0."""
    values: list[Any] = [getattr(config, name, 0) for name in names]
    return [value if isinstance(value, int) and value > 0 else 0 for value in values]


@final
@dataclass(frozen=True)
class HeadList:
    """A field that lists heads."""

    name: str
    """Name of the field, in the generation's configuration or in the model's."""
    site: str
    """Site of the heads."""
    serves: str
    """What the listed heads are for, in the plural."""


HEAD_LISTS: dict[str, tuple[HeadList, ...]] = {
    "whisper": (HeadList("alignment_heads", "decoder.cross", "time stamps of words"),),
}
"""The fields by model type."""

RENUMBERED = "renumbered"
"""Field of a head plan: names of the head lists whose numbers are those of the compact model."""


def lists_of(model: PreTrainedModel) -> Iterator[tuple[Any, HeadList, list[list[int]]]]:
    """The head lists that a model has, with what holds each and the pairs in it."""
    holders = [getattr(model, "generation_config", None), model.config]
    for each in HEAD_LISTS.get(model.config.model_type, ()):
        for holder in holders:
            if listed := getattr(holder, each.name, None):
                yield holder, each, listed


def warn_of_dense_numbers(model: PreTrainedModel, folder: Path) -> None:
    """Warn of head lists of a compact model that an earlier version did not renumber.

    Args:
        model: the compact model.
        folder: its folder.
    """
    plan: Mapping[str, Any] = model.config.head_plan
    for _, each, _ in lists_of(model):
        layers = plan["heads"].get(each.site, ())
        kept = plan["kept"].get(each.site, {}).values()
        if each.name not in plan.get(RENUMBERED, ()) and sum(map(len, kept)) < sum(layers):
            warnings.warn(
                f"{folder}: {each.name} names heads of the dense model, since an earlier version "
                f"of headcount copied it unchanged, so {each.serves} are wrong. Prune the dense "
                f"model again. Or leave out pruned heads, replace [layer, head] by [layer, place "
                f'of head in kept["{each.site}"] of config.json\'s head_plan], and add '
                f'"{RENUMBERED}": ["{each.name}"] to that head_plan',
                stacklevel=4,
            )
