"""Layout: the cuts that reduce every attention layer of a model to its kept heads.

A layer that loses all its heads keeps the shape of one head without weights. Its queries, keys and
values are zeros, so caches, masks and position biases work as before, and its output projection is
its bias alone.

Cut: the kept rows and columns of one map, and the size and weights of the smaller map.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, final

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headcount.compaction.wiring import NOBODY, Wiring
from headcount.core import Head, InputError, ModelError, amount
from headcount.tap import Anatomy, AttentionLayer, own_tensors

KINDS: Mapping[type[nn.Module], str] = {
    nn.Linear: "linear",
    Conv1D: "conv1d",
    nn.Embedding: "embedding",
}


@final
@dataclass(frozen=True)
class Cut:
    """The kept part of a map: `rows` are outputs, `columns` are inputs; None keeps all."""

    path: str
    rows: Int64[Tensor, " row"] | None = None
    columns: Int64[Tensor, " column"] | None = None
    constant: int | None = None
    """Number of outputs of a map that has no weights left and returns its bias or zeros."""
    removed: bool = False
    """Whether the whole module is removed."""
    source: str | None = None
    """Path of the map to take weights from, if it is another one."""

    def of(
        self, model: nn.Module, held: Callable[[nn.Module], Mapping[str, Tensor]] = own_tensors
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The smaller map's size, in the format of `head_plan`, and its tensors by name.

        Args:
            model: the model with all heads.
            held: gives a map's tensors by name; `weights_of` reads those that are away.
        """
        if self.removed:
            return {"kind": "none"}, {}
        stock = model.get_submodule(self.source or self.path)
        own = held(stock)
        bias = own.get("bias")
        if self.constant is not None:
            # A map that loses its outputs loses its bias too; a map without inputs keeps it.
            bias = bias if self.rows is None else None
            size = {"kind": "constant", "out": self.constant, "bias": bias is not None}
            return size, {} if bias is None else {"bias": bias.detach().clone()}
        kind = next(name for type_, name in KINDS.items() if isinstance(stock, type_))
        weight = own["weight"].detach()
        outputs_first = kind == "linear"
        if self.rows is not None:
            weight = weight.index_select(0 if outputs_first else 1, self.rows.to(weight.device))
        if self.columns is not None:
            weight = weight.index_select(1 if outputs_first else 0, self.columns.to(weight.device))
        tensors = {"weight": weight.clone()}
        if bias is not None:
            rows = slice(None) if self.rows is None else self.rows.to(weight.device)
            tensors["bias"] = bias.detach()[rows].clone()
        inputs, outputs = weight.shape if not outputs_first else weight.shape[::-1]
        return {"kind": kind, "in": inputs, "out": outputs, "bias": bias is not None}, tensors

    def restore(self, model: nn.Module, smaller: nn.Module) -> None:
        """Copy the smaller map's weights back into the model's map; others are not changed."""
        if self.removed:
            return
        stock, cut = (each.get_submodule(self.path) for each in (model, smaller))
        bias: Any = getattr(cut, "bias", None)
        if bias is not None:
            stock.get_parameter("bias")[_all_if_none(self.rows)] = bias
        if self.constant is None:
            weight, kept = (each.get_parameter("weight") for each in (stock, cut))
            if not isinstance(stock, nn.Linear):  # inputs first
                weight, kept = weight.T, kept.T
            part = weight[_all_if_none(self.rows)]
            part[:, _all_if_none(self.columns)] = kept
            weight[_all_if_none(self.rows)] = part


def _all_if_none(indices: Tensor | None) -> Tensor | slice:
    return slice(None) if indices is None else indices


def kept_heads(owners: Int64[Tensor, " row"], kept: tuple[int, ...]) -> Tensor:
    """True for rows of kept heads and for rows of no head."""
    return torch.isin(owners, torch.tensor([-1, *kept]))


def kept_groups(layer: AttentionLayer, kept: Sequence[int]) -> tuple[int, ...]:
    """The kept key/value heads.

    Raises:
        InputError: If groups would keep unequal numbers; the message names the nearest choice.
    """
    counts = _counts(layer, kept)
    if len(set(counts) - {0}) > 1:
        size = layer.num_heads // layer.num_key_value_heads
        nearest = ", ".join(
            str(Head(layer.site, layer.layer, index)) for index in nearest_kept(layer, kept)
        )
        raise InputError(
            f"{layer.site} layer {layer.layer}: {amount(size, 'query head')} share a key/value "
            "head. Expected the same number of heads in each kept group, got "
            f"{', '.join(map(str, counts))}. The nearest choice is to keep {nearest or 'none'}."
        )
    return tuple(group for group, count in enumerate(counts) if count)


def nearest_kept(layer: AttentionLayer, kept: Sequence[int]) -> list[int]:
    """The possible choice with the fewest changes; of equal choices, the one with more heads."""
    size = layer.num_heads // layer.num_key_value_heads
    options = [_evened(layer, kept, number) for number in range(1, size + 1)]
    wanted = set(kept)
    return min(options, key=lambda option: (len(wanted ^ set(option)), -len(option)))


def _evened(layer: AttentionLayer, kept: Sequence[int], number: int) -> list[int]:
    """`number` heads of every group, or none where dropping the group changes less."""
    size = layer.num_heads // layer.num_key_value_heads
    heads: list[int] = []
    for first in range(0, layer.num_heads, size):
        group = range(first, first + size)
        inside = [head for head in group if head in kept]
        others = [head for head in group if head not in kept]
        if abs(number - len(inside)) <= len(inside):
            heads += sorted((inside + others)[:number])
    return heads


def _counts(layer: AttentionLayer, kept: Sequence[int]) -> list[int]:
    size = layer.num_heads // layer.num_key_value_heads
    counts = [0] * layer.num_key_value_heads
    for head in kept:
        counts[head // size] += 1
    return counts


NUM_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
NUM_KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
GROUP_SIZE = ("num_key_value_groups",)
WIDTH = ("all_head_size", "inner_dim", "split_size")
"""Names for the width of all heads together. GPT-2 splits its fused map by it."""


def recounted(module: nn.Module, heads: int, key_value_heads: int, width: int) -> dict[str, int]:
    """New values of the attributes that a module has, for other numbers of heads.

    Args:
        module: Attention module.
        heads: New number of query heads.
        key_value_heads: New number of key/value heads.
        width: New width of all query heads together.
    """
    values = dict.fromkeys(NUM_HEADS, heads) | dict.fromkeys(NUM_KEY_VALUE_HEADS, key_value_heads)
    values |= dict.fromkeys(GROUP_SIZE, heads // key_value_heads) | dict.fromkeys(WIDTH, width)
    return {name: value for name, value in values.items() if name in vars(module)}


@final
@dataclass(frozen=True)
class Resized:
    """One attention layer after the cuts."""

    layer: AttentionLayer
    kept: tuple[int, ...]
    key_value_heads: int
    """Number of kept key/value heads."""
    cuts: tuple[Cut, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    """New values of the attention module's attributes."""


def resized(model: nn.Module, wiring: Wiring, kept: tuple[int, ...]) -> Resized:
    """The cuts of one layer of a model that passed `check_prunable_layers`.

    Raises:
        InputError: If key/value groups would keep unequal numbers of heads.
    """
    layer = wiring.layer
    assert layer.output is not None
    groups = kept_groups(layer, kept)
    module = model.get_submodule(layer.module)
    whole = counts_by_config(module)
    cuts = tuple(_inward(wiring, kept, groups) if kept else _hollow(wiring, whole))
    columns = torch.arange(layer.num_heads * layer.head_dim).view(layer.num_heads, -1)
    if kept:
        output = Cut(layer.output, columns=columns[list(kept)].flatten())
    else:
        size = Cut(layer.output).of(model)[0]["out"]
        output = Cut(layer.output, constant=size)
    heads, key_value_heads = max(1, len(kept)), max(1, len(groups))
    attributes = recounted(module, heads, key_value_heads, heads * layer.head_dim)
    if whole and not kept:
        attributes = {}
    return Resized(layer, kept, len(groups), (*cuts, output), attributes)


def _inward(wiring: Wiring, kept: tuple[int, ...], groups: tuple[int, ...]) -> Iterator[Cut]:
    """Cuts of the query, key and value maps."""
    for path, queries, keys_values in _owners(wiring):
        stay = kept_heads(queries, kept) & kept_heads(keys_values, groups)
        yield Cut(path, rows=stay.nonzero().flatten())


def _hollow(wiring: Wiring, whole: bool) -> Iterator[Cut]:
    """Cuts that leave zeros in the size of one head, or in that of all heads.

    A cache must get keys, since its length is theirs.
    """
    for path, queries, keys_values in _owners(wiring):
        is_left = torch.ones_like(queries) if whole else (queries == 0) | (keys_values == 0)
        rows = is_left.nonzero().flatten()
        yield Cut(path, rows=rows, constant=len(rows))


def counts_by_config(module: nn.Module) -> bool:
    """Whether a module takes its number of heads from the configuration that all layers share.

    Phi-3 cuts its fused map into queries, keys and values by it.
    """
    return not any(name in vars(module) for name in (*NUM_HEADS, *WIDTH)) and any(
        name in vars(module) for name in NUM_KEY_VALUE_HEADS
    )


def _owners(wiring: Wiring) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for path in dict.fromkeys([*wiring.queries, *wiring.keys_values]):
        present = wiring.queries.get(path, wiring.keys_values.get(path))
        assert present is not None
        nobody = torch.full_like(present, NOBODY)
        queries = wiring.queries.get(path, nobody)
        yield path, queries, wiring.keys_values.get(path, nobody)


def check_prunable_layers(anatomy: Anatomy) -> None:
    """Raise an error unless each layer has its own attention module and output projection.

    Raises:
        ModelError: If a module is called several times (ALBERT), or the heads' output does not go
            straight into a linear map.
    """
    shared: Sequence[str] = [path for path, each in anatomy.by_module().items() if len(each) > 1]
    if shared:
        raise ModelError(
            f"The model's layers share the attention module {shared[0]}. Removing a head from one "
            "layer would remove it from all, so the model can be gated but not made smaller."
        )
    by_output = dict[str | None, str]()
    for layer in anatomy.layers:
        if layer.output is not None and layer.output in by_output:
            raise ModelError(
                f"{by_output[layer.output]} and {layer.module} share the output projection "
                f"{layer.output}. Removing a head from one layer would remove it from both, so "
                "the model can be gated but not made smaller."
            )
        by_output[layer.output] = layer.module
        if layer.output is None:
            raise ModelError(
                f"The output of attention in {layer.module} does not go straight into a linear "
                "map. Its use is unknown, so the model can be gated but not made smaller."
            )


TABLE = "relative_attention_bias"
FLAG = "has_relative_attention_bias"


def biased(model: nn.Module, layers: Sequence[Resized]) -> list[Resized]:
    """The layers, each with its own table if its site has one."""
    tables = {}
    for each in layers:
        if vars(model.get_submodule(each.layer.module)).get(FLAG):
            tables.setdefault(each.layer.site, f"{each.layer.module}.{TABLE}")
    return [_with_table(model, each, tables.get(each.layer.site)) for each in layers]


def sharing(model: nn.Module, paths: Sequence[str]) -> list[str]:
    """Paths of the attention modules that are given another layer's position bias.

    In umT5 each layer makes its own.
    """
    modules = {path: model.get_submodule(path) for path in paths}
    return [
        path
        for path, module in modules.items()
        if FLAG in vars(module) and "position_bias" in signature(module.forward).parameters
    ]


def _with_table(model: nn.Module, each: Resized, shared: str | None) -> Resized:
    if shared is None:
        return each
    path = f"{each.layer.module}.{TABLE}"
    own = vars(model.get_submodule(each.layer.module))[FLAG]
    if not each.kept:
        cuts = (Cut(path, removed=True),) if own else ()
        return replace(each, cuts=each.cuts + cuts, attributes=each.attributes | {FLAG: False})
    cut = Cut(path, rows=torch.tensor(each.kept), source=path if own else shared)
    return replace(each, cuts=(*each.cuts, cut), attributes=each.attributes | {FLAG: True})
