"""The self-check: before a model is tapped, it verifies that the tap changes nothing.

On a tiny padded batch the tapped model's output must equal the stock model's (float32: to 1e-5 of
the largest output), and gates of 0 must change it. A model that fails is refused with the reason.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import Head, LayerId, ModelError
from headcount.tap.anatomy import Anatomy, AttentionLayer, discover
from headcount.tap.sample_inputs import run_tiny, tiny_inputs
from headcount.tap.tap import Block, FunctionListener, Listener, Replacement, Tap


def check_finite(model: PreTrainedModel, anatomy: Anatomy, inputs: dict[str, Tensor]) -> None:
    """Report which head and which parameter cause an output that is not finite.

    Raises:
        ModelError: always.
    """
    listener = _FirstBroken()
    with Tap(model, anatomy, listener):
        run_tiny(model, inputs)
    causes = []
    if listener.head is not None:
        causes.append(
            f"head {listener.head} is the first with such attention weights or values "
            f"({listener.num_broken} of the layer's {listener.num_heads} heads have some)"
        )
    broken = (name for name, each in model.named_parameters() if not each.isfinite().all())
    if (name := next(broken, None)) is not None:
        causes.append(f"{name} is the first parameter")
    cause = " and ".join(causes) or "no head and no parameter has any"
    raise ModelError(
        f"Expected finite numbers, got NaN or infinity from {type(model).__name__} on a short "
        f"random batch: {cause}. Repair the checkpoint, or, if the parameters are finite, load "
        "the model in float32."
    )


@final
class _FirstBroken:
    """Remembers the first layer with a head whose weights or values are not finite."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.num_broken = self.num_heads = 0
        self._is_broken_H = torch.zeros(0, dtype=torch.bool)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Check the values."""
        self._is_broken_H = ~value_BHKD.isfinite().all(-1).all(-1).all(0)

    def block(self, block: Block) -> None:
        """Check the weights."""
        finite_BH = block.weights_BHQK.isfinite().all(-1).all(-1)
        self._is_broken_H[block.heads] |= ~finite_BH.all(0)

    def end(self, layer: AttentionLayer) -> None:
        """Keep the first head found."""
        if self.head is None and self._is_broken_H.any():
            self.head = Head(layer.site, layer.layer, int(self._is_broken_H.nonzero()[0]))
            self.num_broken, self.num_heads = int(self._is_broken_H.sum()), layer.num_heads


TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}
"""Largest allowed difference, as a share of the largest output (or of 1 if that is larger)."""

_STOCK_FORWARD = "_original_forward"
"""Attribute where accelerate keeps the forward that it replaced."""


def examine(model: PreTrainedModel) -> Anatomy:
    """Find the model's attention layers and check the tap on them.

    Returns:
        The anatomy, with the arithmetic that reproduces the stock model and the differences seen.

    Raises:
        ModelError: if attention does not go through the interface, if the tap would change the
            model, if outputs are not finite (names the head), or if attention weights were drawn
            at random.
    """
    check_no_random_weights(model)
    with evaluating(model), torch.inference_mode():
        anatomy = discover(model)
        inputs = tiny_inputs(model)
        stock = outputs(run_tiny(model, inputs))
        if not all(tensor.isfinite().all() for tensor in stock):
            check_finite(model, anatomy, inputs)
        anatomy = _with_arithmetic(model, anatomy, inputs, stock)
        _check_gates(model, anatomy, inputs, stock)
    return anatomy


@contextmanager
def tapped(
    model: PreTrainedModel,
    listener: Listener | Callable[[Block], None] | None = None,
    gates: Mapping[str, int | float] | None = None,
    anatomy: Anatomy | None = None,
    replacement: Replacement | None = None,
) -> Iterator[Tap]:
    """A tap on any model, with the self-check first.

    Args:
        model: a transformers model.
        listener: a `Listener`, or a function that is called with every `Block` of attention.
        gates: factors by head name, e.g. `{"enc.3.7": 0.0}`; heads not named keep 1.
        anatomy: the result of an earlier `examine(model)`; examined now if None.
        replacement: makes the replacement of a head whose gate is closed; None for zero.
    """
    anatomy = anatomy or examine(model)
    heard = FunctionListener(listener) if callable(listener) else listener
    with Tap(model, anatomy, heard, _gates(model, anatomy, gates or {}), replacement) as tap:
        yield tap


@contextmanager
def gated(model: PreTrainedModel, gates: Mapping[str, int | float]) -> Iterator[None]:
    """Multiply heads' outputs by factors, e.g. `{"enc.3.7": 0}`: the head mask that v5 removed.

    Raises:
        InputError: for a name that is not a head of the model.
    """
    with tapped(model, gates=gates):
        yield


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode inside a block; afterwards every module gets its own mode back.

    A mixed-precision Trainer (bf16, fp16) leaves a casting forward on the model, even after it has
    finished. Inside the block the model computes in the number format of its weights.
    """
    training = [module for module in model.modules() if module.training]
    casting = vars(model).get("forward") if _STOCK_FORWARD in vars(model) else None
    model.eval()
    if casting is not None:
        model.forward = vars(model)[_STOCK_FORWARD]
    try:
        yield
    finally:
        if casting is not None:
            model.forward = casting
        for module in training:
            module.training = True


def _gates(
    model: PreTrainedModel, anatomy: Anatomy, gates: Mapping[str, int | float]
) -> dict[LayerId, Tensor]:
    tensors: dict[LayerId, Tensor] = {}
    for name, gate in gates.items():
        head = Head.parse(name)
        if head not in anatomy.heads:
            raise ModelError(f"Expected a head of this model ({anatomy.heads}), got {name}.")
        if not math.isfinite(gate):
            raise ModelError(f"Expected a finite number as the gate of {name}, got {gate}.")
        count = anatomy.heads.counts[head.site][head.layer]
        ones = torch.ones(count, device=model.device, dtype=model.dtype)
        tensor = tensors.setdefault(head.layer_id, ones)
        tensor[head.index] = gate
    return tensors


def outputs(output: Mapping[str, object]) -> list[Tensor]:
    """Every floating-point tensor of a model output that has the batch as its first axis."""
    return [
        value
        for value in output.values()
        if isinstance(value, Tensor) and value.is_floating_point()
    ]


def difference(ours: list[Tensor], stock: list[Tensor]) -> float:
    """Largest difference, as a share of the largest output (or of 1 if that is larger)."""
    largest = max([1.0] + [tensor.abs().nan_to_num().max().item() for tensor in stock])
    apart = [
        (a - b).abs().nan_to_num(nan=torch.inf).max().item()
        for a, b in zip(ours, stock, strict=True)
    ]
    return max(apart) / largest


def _with_arithmetic(
    model: PreTrainedModel, anatomy: Anatomy, inputs: dict[str, Tensor], stock: list[Tensor]
) -> Anatomy:
    """The anatomy with the first arithmetic under which the tapped model equals the stock model."""
    tolerance = TOLERANCE[model.dtype]
    met = []
    for eager in (False, True):
        candidate = replace(anatomy, eager=eager)
        differences = {}
        for name, listener in (("fused", None), ("weights", FunctionListener(lambda block: None))):
            with Tap(model, candidate, listener):
                differences[name] = difference(outputs(run_tiny(model, inputs)), stock)
        if max(differences.values()) <= tolerance:
            return replace(candidate, differences=differences)
        met.append(max(differences.values()))
    raise ModelError(
        f"Expected the tapped {type(model).__name__} to equal the stock model to {tolerance:g} on "
        f"a padded batch, but it differs by {met[0]:.2g} (and by {met[1]:.2g} with the model's "
        f"own eager attention). Its attention does something that the attention function is not "
        "informed of, so the model is refused."
    )


def _check_gates(
    model: PreTrainedModel, anatomy: Anatomy, inputs: dict[str, Tensor], stock: list[Tensor]
) -> None:
    device = model.device
    for site in dict.fromkeys(layer.site for layer in anatomy.layers):
        layers = [layer for layer in anatomy.layers if layer.site == site]
        gates = {layer.layer_id: torch.zeros(layer.num_heads, device=device) for layer in layers}
        with Tap(model, anatomy, gates=gates):
            gated_outputs = outputs(run_tiny(model, inputs))
        if difference(gated_outputs, stock) == 0:
            raise ModelError(
                f"Expected gates of 0 on every head of {site} to change {type(model).__name__}'s "
                "output, but they did not. What its attention function returns is not used, so "
                "the model is refused."
            )


def check_no_random_weights(model: PreTrainedModel) -> None:
    """Check that a compact model was not loaded into a class that has all heads.

    Raises:
        ModelError: if `ignore_mismatched_sizes` allowed it, so that its attention was drawn.
    """
    plan = getattr(model.config, "head_plan", None)
    if plan is None or hasattr(type(model), "stock_class"):
        return
    found = [_has_map(model.base_model, *one) for one in plan.get("maps", {}).items()]
    if not found or not all(found):  # otherwise it is a compact model's body
        raise ModelError(
            f"a compact model's folder was loaded as {type(model).__name__} with all its heads, "
            "whose attention weights are then random (ignore_mismatched_sizes). Load it with "
            "headcount.load, or with trust_remote_code=True."
        )


def _has_map(body: Any, path: str, size: Mapping[str, Any]) -> bool:
    """Whether a map exists and is as small as the plan says."""
    try:
        weight = getattr(body.get_submodule(path), "weight", None)
    except AttributeError:
        return False
    if size["kind"] in ("none", "constant"):
        return weight is None
    return weight is not None and sorted(weight.shape) == sorted((size["in"], size["out"]))
