"""Reuse: a forward that begins at a later layer, with the clean outputs of the layers before it.

A head's ablation changes nothing before its layer. So the blocks of a model (the entries of its
module lists that hold attention) are run once as they are, their outputs kept for one batch, and
for an ablation all blocks before the first changed one give back what was kept.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.heads import Place
from headcount.models.anatomy import Anatomy

_Call = tuple[nn.Module, int]
"""A block, and which of its calls in one forward is meant (ALBERT calls one many times)."""


@final
class Blocks:
    """The blocks of a model in the order of their calls, and what they gave on one batch.

    Args:
        model: the model that is run.
        anatomy: its attention layers.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        self._starts: dict[Place, int] = {}
        self._order: dict[_Call, int] = {}
        for layer in anatomy.layers:
            block = _block_of(model, layer.module)
            # Attention outside any block: nothing before it can be passed over.
            start = 0 if block is None else self._order.setdefault((block, layer.call), len(self))
            self._starts[layer.site, layer.layer] = start
        self._modules = list(dict.fromkeys(block for block, _ in self._order))
        self._kept: dict[_Call, Any] = {}

    def __len__(self) -> int:
        return len(self._order)

    def start(self, place: Place) -> int:
        """Number of blocks that come before a layer's attention."""
        return self._starts[place]

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the blocks' outputs of one forward are kept; earlier ones are forgotten."""
        self._kept = {}
        calls: Counter[nn.Module] = Counter()

        def keep(block: nn.Module, inputs: object, output: Any) -> None:
            self._kept[block, calls[block]] = output
            calls[block] += 1

        handles = [block.register_forward_hook(keep) for block in self._modules]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def resuming(self, start: int, times: int) -> Iterator[None]:
        """Inside, one forward of the kept batch, `times` over, passes over the first blocks."""
        calls: Counter[nn.Module] = Counter()
        with ExitStack() as stack:
            for block in self._modules:
                stack.enter_context(_forward(block, self._replay(block, start, times, calls)))
            yield

    def _replay(
        self, block: nn.Module, start: int, times: int, calls: Counter[nn.Module]
    ) -> Callable[..., Any]:
        """The block's forward, or what it gave before, if the call comes before the start."""
        stock = block.forward

        def replay(*args: Any, **kwargs: Any) -> Any:
            call = (block, calls[block])
            calls[block] += 1
            if self._order.get(call, start) < start:
                return _tiled(self._kept[call], times)
            return stock(*args, **kwargs)

        return replay


@contextmanager
def _forward(module: nn.Module, function: Callable[..., Any]) -> Iterator[None]:
    """Another forward for one module, for the time of a block."""
    module.forward = function
    try:
        yield
    finally:
        del module.forward


def _block_of(model: nn.Module, path: str) -> nn.Module | None:
    """The outermost entry of a module list on the way to a module."""
    names = path.split(".")
    for end in range(1, len(names)):
        if isinstance(model.get_submodule(".".join(names[:end])), nn.ModuleList):
            return model.get_submodule(".".join(names[: end + 1]))
    return None


def _tiled(output: Any, times: int) -> Any:
    """Every tensor of a block's output, with its rows `times` over."""
    if isinstance(output, Tensor):
        return output.repeat(times, *[1] * (output.ndim - 1))
    if isinstance(output, tuple | list):
        return type(output)(_tiled(part, times) for part in output)
    return output
