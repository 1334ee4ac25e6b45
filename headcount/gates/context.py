"""Gating: a `with` block that multiplies the heads' outputs of a model by learnable gates."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import Gates, LayerId, ModelError
from headcount.gates.head_gates import HeadGates
from headcount.models import GATES
from headcount.tap import Anatomy, AnyModel, Tap, examined, input_device, intercepted


@contextmanager
def gating(model: AnyModel, gates: HeadGates, anatomy: Anatomy | None = None) -> Iterator[None]:
    """Multiply heads' outputs by gates. In training mode, every forward pass draws new gates.

    In the block the gates are a submodule of the model: their parameters belong to the model
    (an optimizer made there learns them), they share its mode, and its checkpoints hold them.
    After the block nothing of ours remains on the model.

    Gradient checkpointing runs layers again in the backward pass with the most recent draw.
    Therefore run the backward pass of each forward pass before the next forward pass.

    Args:
        model: any model that `examine` accepts, or what `load` returns.
        gates: Hard Concrete, subset or fixed gates.
        anatomy: the result of `examine(model)`; if None, the model is examined now.

    Raises:
        ModelError: if the gates do not fit this model, or it has gates already.
    """
    model, anatomy = examined(model, anatomy)
    if GATES in model._modules:
        raise ModelError(
            f"Expected a model without gates, got a {type(model).__name__} that is in a gating "
            "block already. Leave that block first."
        )
    gates.to(input_device(model)).train(model.training)
    drawn = _Drawn(gates)
    _check_fits(model, anatomy, gates)
    model.add_module(GATES, gates)
    try:
        with Tap(model, anatomy) as tap, drawn.by_forward(model):
            tap.gates = drawn
            yield
    finally:
        del model._modules[GATES]


@final
class _Drawn(Mapping[LayerId, Tensor]):
    """The gates of the current forward pass.

    Gates are drawn again for every forward pass of the model (or of its body, encoder or decoder
    when called alone), and when the mode changes during one. The draw is made before the first
    layer runs, because gradient checkpointing would repeat a draw made inside a layer.
    """

    def __init__(self, gates: HeadGates) -> None:
        self._gates, self._depth = gates, 0
        self._drawn: Gates | None = None
        self._in_training = gates.training

    @contextmanager
    def by_forward(self, model: PreTrainedModel) -> Iterator[None]:
        wholes = {model, model.base_model}
        if model.config.is_encoder_decoder:
            wholes |= {model.get_encoder(), model.get_decoder()}
        with intercepted(wholes, self._before, self._after, after_errors=True):
            yield

    def _before(self, *_: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._drawn = None
            self._now()

    def _after(self, *_: Any) -> None:
        self._depth -= 1

    def _now(self) -> Gates:
        if self._drawn is None or self._in_training != self._gates.training:
            self._drawn, self._in_training = self._gates(), self._gates.training
        assert self._drawn is not None
        return self._drawn

    def __getitem__(self, place: LayerId) -> Tensor:
        return self._now()[place]

    def __iter__(self) -> Iterator[LayerId]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def _check_fits(model: PreTrainedModel, anatomy: Anatomy, gates: HeadGates) -> None:
    counts = anatomy.heads.counts
    was_training = gates.training
    given = gates.eval()()  # evaluation mode makes no draw
    gates.train(was_training)
    for (site, layer), gate_H in given.items():
        if layer >= len(counts.get(site, ())) or len(gate_H) != counts[site][layer]:
            raise ModelError(
                f"Expected gates for the heads of {type(model).__name__} ({anatomy.heads}), got "
                f"{len(gate_H)} for layer {layer} of {site}. Make them from the model's own "
                "`heads`."
            )
