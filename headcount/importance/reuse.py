"""Reuse: a forward that begins at a later layer, with the clean outputs of the layers before it.

A head's ablation changes nothing before its layer. So the blocks of a model (the entries of its
module lists that hold attention) run once without ablation, and their outputs are stored for one
batch. For an ablation, all blocks before the first changed one return their stored outputs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, final

from torch import nn
from transformers import PreTrainedModel

from headcount.heads import Place
from headcount.importance.rows import giving, repeated
from headcount.models.anatomy import Anatomy


@final
class Blocks:
    """The blocks of a model in the order of their calls, with their outputs on one batch.

    Args:
        model: Model to run.
        anatomy: Attention layers of the model.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        self._starts: dict[Place, int] = {}
        self._order: dict[nn.Module, int] = {}
        by_module = anatomy.by_module()
        for layer in anatomy.layers:
            block = _block_of(model, layer.module)
            # Nothing can be skipped before attention that is outside any block, or that layers
            # share (the tap distinguishes those by counting calls).
            if block is None or len(by_module[layer.module]) > 1:
                self._starts[layer.site, layer.layer] = 0
            else:
                start = self._order.setdefault(block, len(self._order))
                self._starts[layer.site, layer.layer] = start
        self._next = _following(model)
        self._kept: dict[nn.Module, Any] = {}

    def __len__(self) -> int:
        return len(self._order)

    def start(self, place: Place) -> int:
        """Number of blocks before a layer's attention."""
        return self._starts[place]

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the blocks' outputs of one forward are stored; earlier ones are dropped."""
        self._kept = {}

        def keep(block: nn.Module, inputs: object, output: Any) -> None:
            self._kept[block] = output

        handles = [block.register_forward_hook(keep) for block in self._order]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def resuming(self, start: int, num_rows: int, times: int) -> Iterator[None]:
        """Inside, a forward of the stored batch's rows, `times` over, skips the first blocks.

        Args:
            start: Number of blocks that return their stored outputs.
            num_rows: Number of rows in the stored batch.
            times: Number of copies of the rows, one after the other.
        """
        passed = list(self._order)[:start]
        with ExitStack() as stack:
            for block in passed:
                kept = self._kept[block]
                # A skipped block ignores its input, so the block before it need not repeat rows.
                # A block without heads is never skipped.
                if self._next.get(block) not in passed:
                    kept = repeated(kept, num_rows, times)
                stack.enter_context(giving(block, kept))
            yield


def _following(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """The next entry of the module list for every entry."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    return {one: other for each in lists for one, other in pairwise(each)}


def _block_of(model: nn.Module, path: str) -> nn.Module | None:
    """The outermost entry of a module list that contains a module."""
    names = path.split(".")
    for end in range(1, len(names)):
        if isinstance(model.get_submodule(".".join(names[:end])), nn.ModuleList):
            return model.get_submodule(".".join(names[: end + 1]))
    return None
