"""Gating: a model whose heads' outputs pass gates that can be learned, inside a `with` block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

from torch import Tensor
from transformers import PreTrainedModel

from headcount.errors import ModelError
from headcount.gates.head_gates import HeadGates
from headcount.heads import Place
from headcount.models.anatomy import Anatomy
from headcount.models.selfcheck import examine
from headcount.signature import GATES
from headcount.tap import Gates, Tap


@contextmanager
def gating(
    model: PreTrainedModel, gates: HeadGates, anatomy: Anatomy | None = None
) -> Iterator[None]:
    """Multiply heads' outputs by gates, drawn anew in every forward of a model in training mode.

    In the block the gates are a submodule of the model: their parameters are among the model's
    (an optimizer made there learns them), its mode is theirs, and its checkpoints hold them.
    Afterwards nothing of ours remains on the model.

    Under gradient checkpointing, which runs layers again in the backward pass, every forward must
    have had its backward pass before the next one: they share the draw of the last.

    Args:
        model: any model that `examine` takes.
        gates: Hard Concrete, subset or fixed ones.
        anatomy: what `examine(model)` found; examined now if None.

    Raises:
        ModelError: if the gates are not for this model, or it has gates already.
    """
    anatomy = anatomy or examine(model)
    if GATES in model._modules:
        raise ModelError(
            f"a model without gates was expected; this {type(model).__name__} is in a gating block "
            "already: leave that one first"
        )
    gates.to(model.device).train(model.training)
    drawn = _Drawn(gates)
    _refuse_misfit(model, anatomy, gates)
    model.add_module(GATES, gates)
    try:
        with Tap(model, anatomy) as tap, drawn.by_forward(model):
            tap.gates = drawn
            yield
    finally:
        del model._modules[GATES]


@final
class _Drawn(Mapping[Place, Tensor]):
    """The gates of the forward that runs.

    A new draw comes with every forward of the model or, called by itself, its body or a side of
    it; and when the mode has changed in one. It is made before the first layer runs, since gradient
    checkpointing would run it a second time there.
    """

    def __init__(self, gates: HeadGates) -> None:
        self._gates, self._depth = gates, 0
        self._drawn: Gates | None = None
        self._in_training = gates.training

    @contextmanager
    def by_forward(self, model: PreTrainedModel) -> Iterator[None]:
        handles = []
        sides = {model.get_encoder(), model.get_decoder()} if _has_sides(model) else set()
        for whole in {model, model.base_model} | sides:
            handles.append(whole.register_forward_pre_hook(self._before))
            handles.append(whole.register_forward_hook(self._after, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

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

    def __getitem__(self, place: Place) -> Tensor:
        return self._now()[place]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def _has_sides(model: PreTrainedModel) -> bool:
    return bool(model.config.is_encoder_decoder)


def _refuse_misfit(model: PreTrainedModel, anatomy: Anatomy, gates: HeadGates) -> None:
    counts = anatomy.heads.counts
    was_training = gates.training
    given = gates.eval()()  # evaluation draws nothing
    gates.train(was_training)
    for (site, layer), gate_H in given.items():
        if layer >= len(counts.get(site, ())) or len(gate_H) != counts[site][layer]:
            raise ModelError(
                f"gates for {type(model).__name__}'s heads were expected ({anatomy.heads}); came "
                f"{len(gate_H)} for layer {layer} of {site}: make them from its own `heads`"
            )
