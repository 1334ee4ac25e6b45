"""Position bias: T5's table of biases by distance and head, which the first layer shares with all.

Layers that keep different heads can't share one bias. Each layer gets the table's columns of its
own heads and computes its own bias.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from headcount.compaction.cut import Cut
from headcount.compaction.layout import Resized

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
    """Paths of the attention modules that can have a position bias."""
    return [path for path in paths if FLAG in vars(model.get_submodule(path))]


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
