"""Taps and gates on any model, by the names of its heads."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import InputError, LayerId, ModelError
from headcount.tap.anatomy import Anatomy
from headcount.tap.given_model import AnyModel
from headcount.tap.listener import Block, FunctionListener, Listener
from headcount.tap.placement import input_device
from headcount.tap.selfcheck import examined
from headcount.tap.tap import Replacement, Tap


@contextmanager
def tapped(
    model: AnyModel,
    listener: Listener | Callable[[Block], None] | None = None,
    gates: Mapping[str, int | float] | None = None,
    anatomy: Anatomy | None = None,
    replacement: Replacement | None = None,
) -> Iterator[Tap]:
    """Pass every block of a model's attention to a function, after the self-check.

    >>> with torch.no_grad(), tapped(  # doctest: +SKIP
    ...     model, lambda block: print(block.weights_BHQK.shape)
    ... ):
    ...     model(**inputs)

    Args:
        model: a transformers model, or what `load` returns.
        listener: a `Listener`, or a function that is called with every `Block` of attention.
        gates: factors by head name, e.g. `{"enc.3.7": 0.0}`; heads not named keep 1.
        anatomy: the result of an earlier `examine(model)`; examined now if None, which takes a
            dozen forward passes on short inputs.
        replacement: makes the replacement of a head whose gate is closed; None for zero.
    """
    check_gates(gates or {})
    model, anatomy = examined(model, anatomy)
    heard = FunctionListener(listener) if callable(listener) else listener
    with Tap(model, anatomy, heard, _gates(model, anatomy, gates or {}), replacement) as tap:
        yield tap


@contextmanager
def gated(
    model: AnyModel, gates: Mapping[str, int | float], anatomy: Anatomy | None = None
) -> Iterator[None]:
    """Multiply heads' outputs by factors, e.g. `{"enc.3.7": 0}`: the head mask that v5 removed.

    >>> with gated(model, {"enc.3.7": 0, "enc.3.8": 0.5}):  # doctest: +SKIP
    ...     output = model(**inputs)

    Args:
        model: a transformers model, or what `load` returns.
        gates: factors by head name; heads not named keep 1.
        anatomy: the result of an earlier `examine(model)`; examined now if None, which takes a
            dozen forward passes on short inputs.

    Raises:
        InputError: for a name that is not a head of the model.
    """
    with tapped(model, gates=gates, anatomy=anatomy):
        yield


def check_gates(gates: object) -> None:
    """Check that gates are numbers by the names of heads.

    Raises:
        InputError: if they are anything else.
    """
    if not isinstance(gates, Mapping):
        raise InputError(
            f"Expected gates by head, such as {{'enc.0.0': 0.0}}, got a {type(gates).__name__}."
        )
    for name, gate in gates.items():
        if not isinstance(gate, int | float):
            raise InputError(
                f"Expected a number as the gate of {name}, got {gate!r}. Use 0 to leave it out."
            )


def _gates(
    model: PreTrainedModel, anatomy: Anatomy, gates: Mapping[str, int | float]
) -> dict[LayerId, Tensor]:
    tensors: dict[LayerId, Tensor] = {}
    for name, gate in gates.items():
        head = anatomy.heads.named(name)
        if head not in anatomy.heads:
            anatomy.check_saw_images(head.site)
            raise ModelError(f"Expected a head of this model ({anatomy.heads}), got {name}.")
        if not math.isfinite(gate):
            raise ModelError(f"Expected a finite number as the gate of {name}, got {gate}.")
        count = anatomy.heads.counts[head.site][head.layer]
        ones = torch.ones(count, device=input_device(model), dtype=model.dtype)
        tensor = tensors.setdefault(head.layer_id, ones)
        tensor[head.index] = gate
    return tensors
