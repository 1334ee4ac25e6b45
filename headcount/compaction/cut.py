"""Cut: the kept rows and columns of one map, and the size and weights of the smaller map."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

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

    def of(self, model: nn.Module) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The smaller map's size, in the format of `head_plan`, and its tensors by name."""
        if self.removed:
            return {"kind": "none"}, {}
        stock = model.get_submodule(self.source or self.path)
        bias: Any = getattr(stock, "bias", None)
        if self.constant is not None:
            # A map that loses its outputs loses its bias too; a map without inputs keeps it.
            bias = bias if self.rows is None else None
            size = {"kind": "constant", "out": self.constant, "bias": bias is not None}
            return size, {} if bias is None else {"bias": bias.detach().clone()}
        kind = next(name for type_, name in KINDS.items() if isinstance(stock, type_))
        weight: Any = stock.get_parameter("weight").detach()
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
