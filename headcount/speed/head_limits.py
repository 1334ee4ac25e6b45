r"""Limits: what pruning heads can gain at most, before any head is chosen.

$$\mathrm{size} = 1 - r \frac{P_h}{P}, \qquad \mathrm{speedup} = \frac{F}{F - r F_h}$$

r is the share of the heads that is pruned. P are the weights of the model and P_h those of its
attention modules and their output projections (norms inside them included); F are the FLOPs of a
forward of `LENGTH` tokens, and F_h those of attention. Heads of layers of different size cost
differently, and heads that share keys and values free these only together, so the numbers of a
share between 0 and 1 are rough.
"""

from dataclasses import dataclass
from math import isnan, nan
from typing import final

from headcount.core import Heads, Plan, amount
from headcount.models import Loaded
from headcount.numbers import percent
from headcount.speed.flop_ceiling import model_flops
from headcount.tap import ERRORS

LENGTH = 128
"""Number of tokens whose FLOPs are counted."""


@final
@dataclass(frozen=True)
class Limits:
    """The share of the heads in a model's weights and FLOPs."""

    heads: Heads
    weights_of_heads: int
    weights: int
    flops: float
    """Share of the FLOPs; NaN for a model that reads no text or can't be counted."""

    @property
    def share(self) -> float:
        """Share of the weights, and so of the file."""
        return self.weights_of_heads / self.weights

    def speedup(self, pruned: float = 1.0) -> float:
        """Largest speedup without a share of the heads; NaN if it is not known."""
        return 1 / (1 - pruned * self.flops)

    def sentence(self, num_pruned: int | None = None) -> str:
        """What heads are, and what can be gained without all of them, and without some."""
        total = len(self.heads)
        said = (
            f"heads are {percent(self.share)} of the model's file "
            f"({self.weights_of_heads / 1e6:,.1f} of {self.weights / 1e6:,.1f} M weights)"
        )
        if not isnan(self.flops):
            said += f" and {percent(self.flops)} of the FLOPs of {LENGTH} tokens"
        said += f", so without all {amount(total, 'head')} it is {self._gain(1.0)}"
        if num_pruned is not None and 0 < num_pruned < total:
            said += f"; without {num_pruned:,}, about {self._gain(num_pruned / total)}"
        return said

    def _gain(self, pruned: float) -> str:
        smaller = f"{percent(pruned * self.share)} smaller"
        if isnan(self.flops):
            return smaller
        return f"{smaller} and at most {self.speedup(pruned):.2f} times as fast"


def limits(loaded: Loaded) -> Limits:
    """The share of the heads in a model's weights and FLOPs; runs the model once."""
    model = loaded.model
    paths = {path for layer in loaded.anatomy.layers for path in (layer.module, layer.output)}
    parts = [model.get_submodule(path) for path in paths if path is not None]
    found = {id(each): each.numel() for part in parts for each in part.parameters()}
    try:
        flops = model_flops(model, loaded.anatomy, min(LENGTH, loaded.max_length or LENGTH))
        share = 1 - flops.of(Plan.keeping(loaded.heads, [])) / flops.total
    except ERRORS:  # models of images, split models, and some with attention of their own
        share = nan
    num = sum(each.numel() for each in model.parameters())
    return Limits(loaded.heads, sum(found.values()), num, share)
