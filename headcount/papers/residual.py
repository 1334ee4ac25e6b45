r"""Residual: what an attention module's output is added to, and the norm that the sum goes into.

Two orders are known. Post-norm blocks (BERT) compute LayerNorm(x + attention(x)). Pre-norm blocks
(GPT-2, Llama, M2M100) compute r + attention(Norm(r)), whose sum goes into the next part of the
block unchanged. Which one a layer has is read off one forward pass: norms are modules that say so,
and the sum must be what the next norm receives.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import LayerId
from headcount.tap import Anatomy, AttentionLayer, heard, intercepted

TOLERANCE = 1e-4
"""Largest difference of a sum from a norm's input, relative to the input's largest number."""


@final
@dataclass(frozen=True)
class Residual:
    """What is added to the output of one layer's attention."""

    is_post_norm: bool
    """Whether the residual is what attention reads, and a norm follows the sum."""
    norm: nn.LayerNorm | None
    """The norm of the sum; None in a pre-norm block, or for a norm of another kind."""


@final
class Residuals:
    """Hears the residual of every layer while the model runs.

    Args:
        model: the model.
        anatomy: its attention layers.
        known: order of every layer; a layer that is not named has no known residual.
    """

    def __init__(
        self, model: PreTrainedModel, anatomy: Anatomy, known: Mapping[LayerId, Residual]
    ) -> None:
        self.model, self.anatomy, self.known = model, anatomy, known
        self.inputs: dict[LayerId, Tensor] = {}
        """The residuals of the forward pass that runs, by layer."""
        self._last: Tensor | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Inside, forward passes leave their residuals in `inputs`."""
        norms = _norms(self.model)
        with (
            intercepted(norms, self._before_norm),
            heard(self.model, self.anatomy, attention_inputs=self._before_attention),
        ):
            yield

    def _before_norm(self, module: nn.Module, given: Any) -> None:
        self._last = given

    def _before_attention(self, layer: AttentionLayer, given: Tensor) -> None:
        residual = self.known.get(layer.layer_id)
        if residual is not None:
            found = given if residual.is_post_norm else self._last
            assert found is not None
            self.inputs[layer.layer_id] = found


@torch.inference_mode()
def find_residuals(
    model: PreTrainedModel, anatomy: Anatomy, inputs: Mapping[str, Tensor | bool]
) -> dict[LayerId, Residual]:
    """The residual of every layer that has one of the two known orders.

    Args:
        model: the model, in evaluation mode.
        anatomy: its attention layers.
        inputs: inputs of one forward pass.
    """
    search = _Search(anatomy)
    projections = {model.get_submodule(each.output) for each in anatomy.layers if each.output}
    with ExitStack() as stack:
        stack.enter_context(intercepted(_norms(model), search.before_norm))
        stack.enter_context(heard(model, anatomy, attention_inputs=search.before_attention))
        stack.enter_context(intercepted(projections, after=search.after_projection))
        model.base_model(**inputs)
    return search.found


@final
class _Search:
    """Compares what norms receive with sums of attention's output and what was before it."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.found: dict[LayerId, Residual] = {}
        self._layer: AttentionLayer | None = None
        self._read: Tensor | None = None
        self._normed: Tensor | None = None
        self._before: Tensor | None = None
        self._output: Tensor | None = None

    def before_attention(self, layer: AttentionLayer, given: Tensor) -> None:
        """Keep what attention reads, and what the norm before it received."""
        self._layer, self._read, self._before = layer, given, self._normed

    def after_projection(self, module: nn.Module, output: Any) -> None:
        """Keep what attention gives."""
        self._output = output

    def before_norm(self, module: nn.Module, given: Any) -> None:
        """Compare what a norm receives with both sums, once after each attention module."""
        output, self._output = self._output, None
        self._normed = given
        if output is None or self._layer is None:
            return
        if self._read is not None and _is_sum(given, output, self._read):
            norm = module if isinstance(module, nn.LayerNorm) else None
            self.found[self._layer.layer_id] = Residual(True, norm)
        elif self._before is not None and _is_sum(given, output, self._before):
            self.found[self._layer.layer_id] = Residual(False, None)


def _is_sum(total: Tensor, a: Tensor, b: Tensor) -> bool:
    if not total.shape == a.shape == b.shape:
        return False
    return bool((total - a - b).abs().max() <= TOLERANCE * total.abs().max())


def _norms(model: nn.Module) -> list[nn.Module]:
    """Modules that normalise, by their class."""
    return [each for each in model.modules() if "norm" in type(each).__name__.lower()]
