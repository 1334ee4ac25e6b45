"""The call: the arguments of one call of attention."""

from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn


@final
@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one call of attention, as transformers passes them."""

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> tuple[nn.Module, Tensor, Tensor, Tensor, Tensor | None]:
        """The arguments that have no name, for functions of transformers."""
        return self.module, self.query, self.key, self.value, self.mask


def implementation_of(module: nn.Module) -> str | None:
    """The attention implementation that a module would use now (`sdpa`, `eager` ...)."""
    return getattr(getattr(module, "config", None), "_attn_implementation", None)
