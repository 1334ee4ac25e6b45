"""The self-check: before a model is tapped, it verifies that the tap changes nothing.

On random batches with padding on either side, without padding, without a mask and with a cache, the
stock attention function, the tap's own arithmetic and a plain softmax in float64 must agree at each
call, head by head (`attention_check`). The tapped model's outputs must then equal the stock model's
with room for rounding, so that every call was seen and used. A mask of ones and a cache should
change no outputs, so there the stock model runs only if the tapped one returns something else than
it does without (and always in half precision, or with a function of the user's). Where calls can't
be compared, outputs alone are. Gates of 0 must change the output, and must be zeros in what enters
the output projections. A model that fails is refused with the reason. Scores that are blocked must
get no weight, whether somebody listens or not; where that fails, only blocking is refused.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import Head, LayerId, ModelError, amount
from headcount.tap.anatomy import Anatomy, AttentionLayer, Parts
from headcount.tap.arithmetic import with_arithmetic
from headcount.tap.changes import evaluating, exact_products
from headcount.tap.check import Check, checks_of
from headcount.tap.discovery import discover
from headcount.tap.given_model import AnyModel, Holder, check_is_model, model_of
from headcount.tap.listener import Block
from headcount.tap.placement import input_device, named_weights
from headcount.tap.rounding import difference
from headcount.tap.sample_run import sample_runs
from headcount.tap.states import heard
from headcount.tap.tap import Tap

_IMAGES = ("saw no image", "pictures", "an image")
_SOUND = ("heard no sound", "recordings", "sound")
"""What towers did not get when heads were looked for, in the words of the warning."""


def not_finite(model: PreTrainedModel, anatomy: Anatomy, check: Check) -> ModelError:
    """The error for an output that is not finite, with the head and the parameter that cause it."""
    listener = _FirstBroken()
    with Tap(model, anatomy, listener):
        check.run()
    causes = []
    if listener.head is not None:
        causes.append(
            f"head {listener.head} is the first with such attention weights or values "
            f"({listener.num_broken} of the layer's {amount(listener.num_heads, 'head')} have some)"
        )
    broken = (name for name, each in named_weights(model) if not each.isfinite().all())
    if (name := next(broken, None)) is not None:
        causes.append(f"{name} is the first parameter")
    cause = " and ".join(causes) or "no head and no parameter has any"
    return ModelError(
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


def examined(model: AnyModel, anatomy: Anatomy | None = None) -> tuple[PreTrainedModel, Anatomy]:
    """A model, whoever holds it, with its anatomy, which is found now if it is not known."""
    return model_of(model), anatomy or examine(model)


def examine(model: AnyModel, inputs: Mapping[str, Tensor] | None = None) -> Anatomy:
    """Find the model's attention layers and check the tap on them.

    Args:
        model: Any transformers model, or what `load` returns, which keeps the anatomy.
        inputs: Inputs of the model, such as those of its processor, for models that headcount can't
            make inputs for, or whose attention depends on what they are given (images beside text).
            The check is then made on these alone.

    Returns:
        The anatomy, with the arithmetic that reproduces the stock model and the differences seen.

    Raises:
        InputError: if it is not a transformers model, or the inputs are not tensors by names that
            it takes.
        ModelError: if its attention can't be seen or attributed, if the tap would change the
            model, if outputs are not finite (names the head), or if attention weights were drawn
            at random.
    """
    if isinstance(model, Holder) and inputs is None:
        return model.anatomy
    model = model_of(model)
    check_is_model(model)
    check_no_random_weights(model)
    check_no_block_sparse(model)
    # No inference mode: BEiT keeps a tensor of the first pass, which a training must be able to use
    with evaluating(model), exact_products(), _keeping_modules(model), torch.no_grad():
        anatomy = discover(model, inputs)
        checks = checks_of(model, sample_runs(model, inputs))
        whole = next(iter(checks.values()))
        if whole.runs and not whole.is_finite:
            raise not_finite(model, anatomy, whole)
        try:
            anatomy, bare, outputs = with_arithmetic(model, anatomy, checks)
        finally:
            for check in checks.values():  # the stock model may have run on others since
                if not check.is_finite:
                    raise not_finite(model, anatomy, check)
        _check_gates(model, anatomy, bare, outputs)
    if anatomy.unseen:
        warnings.warn(
            f"{type(model).__name__}: the attention of {', '.join(anatomy.unseen)} can't be seen, "
            "so its heads are neither measured nor gated",
            stacklevel=2,
        )
    if anatomy.not_run:
        hears = {*anatomy.not_run} <= {*Parts(model).hearing}
        got, beside, needed = _SOUND if hears else _IMAGES
        warnings.warn(
            f"{type(model).__name__}: {', '.join(anatomy.not_run)} {got}, since only text was "
            "passed when heads were looked for. Its heads are neither measured nor gated; those of "
            f"the language model are, beside {beside}, too. Pass inputs with {needed} to `examine` "
            "or `load` to see the others",
            stacklevel=2,
        )
    return anatomy


def check_no_block_sparse(model: PreTrainedModel) -> None:
    """Check that a model does not choose its attention by the length of a text, as BigBird does.

    BigBird attends in blocks on long texts. On a short one it replaces its modules by those of full
    attention, for good: measured on short texts first, it would not be the model that was given.

    Raises:
        ModelError: if it does; says how to choose full attention.
    """
    if any(getattr(each, "attention_type", None) == "block_sparse" for each in model.modules()):
        raise ModelError(
            f"Expected attention that is the same on texts of every length, got that of "
            f"{type(model).__name__}, which is block-sparse on long texts and full on short ones. "
            'Set `"attention_type": "original_full"` in config.json, or call '
            "model.base_model.set_attention_type('original_full'), to work with full attention."
        )


@contextmanager
def _keeping_modules(model: PreTrainedModel) -> Iterator[None]:
    """Check that a model has the modules that it had before it ran on short texts.

    Raises:
        ModelError: if it replaced some.
    """
    before = {name: type(module) for name, module in model.named_modules()}
    yield
    after = {name: type(module) for name, module in model.named_modules()}
    if changed := [name for name in {**before, **after} if before.get(name) != after.get(name)]:
        raise ModelError(
            f"Expected a model that stays as it is while it runs, but {type(model).__name__} "
            f"replaced {changed[0]} on a short text, so it is no longer the model that was given. "
            "Load it again, with attention that does not depend on the length of texts."
        )


def _check_gates(
    model: PreTrainedModel, anatomy: Anatomy, check: Check, tapped: list[Tensor]
) -> None:
    """Check that gates of 0 change outputs, and are zeros in what the projections receive.

    Args:
        model: The model.
        anatomy: Its attention layers.
        check: A run.
        tapped: The outputs of this run under fused attention, with open gates.
    """
    wrong = list[str]()
    for site in dict.fromkeys(layer.site for layer in anatomy.layers):
        layers = [layer for layer in anatomy.layers if layer.site == site]
        for step in (2, 1):  # some models need none of every second head
            gates = {each.layer_id: _zeros(model, each, step) for each in layers}
            if difference(_gated(model, anatomy, check, gates, wrong), tapped) > 0:
                break
        else:
            raise ModelError(
                f"Expected gates of 0 on every head of {site} to change {type(model).__name__}'s "
                "output, but they did not. What its attention function returns is not used, so "
                "the model is refused."
            )
    if wrong:
        raise ModelError(
            f"Expected gates of 0 in {type(model).__name__} to equal zeros in what the output "
            f"projections receive of those heads, but the one after {wrong[0]} receives something "
            "else. What was taken for a head is none, so the model is refused."
        )


def _gated(
    model: PreTrainedModel,
    anatomy: Anatomy,
    check: Check,
    gates: Mapping[LayerId, Tensor],
    wrong: list[str],
) -> list[Tensor]:
    """Outputs with gates; adds modules after which a gate of 0 is no zero for the projection."""
    returned = dict[LayerId, Tensor]()

    def leave(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        returned[layer.layer_id] = output_BQHD

    def arrive(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        left_BQHD = returned.pop(layer.layer_id, None)
        gate = gates.get(layer.layer_id)
        if gate is None or left_BQHD is None:
            return
        closed = (gate == 0).nonzero().flatten().to(output_BQHD.device)
        is_same = torch.equal(left_BQHD.reshape(output_BQHD.shape), output_BQHD)
        if not is_same or output_BQHD[:, :, closed].any():
            wrong.append(layer.module)

    tap = Tap(model, anatomy, gates=gates)
    with tap, tap.returning(leave), heard(model, anatomy, head_outputs=arrive):
        return check.run()


def _zeros(model: PreTrainedModel, layer: AttentionLayer, step: int) -> Tensor:
    """Gates of a layer: 0 for every head, or for every second one."""
    gates = torch.ones(layer.num_heads, device=input_device(model))
    gates[::step] = 0
    return gates


def check_no_random_weights(model: PreTrainedModel) -> None:
    """Check that a compact model was not loaded into a class that has all heads.

    Raises:
        ModelError: if `ignore_mismatched_sizes` allowed it, so that its attention was drawn.
    """
    plan = getattr(model.config, "head_plan", None)
    if plan is None or hasattr(type(model), "stock_class"):
        return
    if not any(_is_part(model.base_model, plan.get("maps", {}), at) for at in _places(plan)):
        raise ModelError(
            f"a compact model's folder was loaded as {type(model).__name__} with all its heads, "
            "whose attention weights are then random (ignore_mismatched_sizes). Load it with "
            "headcount.load, or with trust_remote_code=True."
        )


def _places(plan: Mapping[str, Any]) -> list[str]:
    """Paths of the modules that hold maps of the plan, such as the encoder; "" is the body."""
    parts = [path.split(".") for path in plan.get("maps", {})]
    return [""] + sorted(
        {".".join(each[:end]) + "." for each in parts for end in range(1, len(each))}
    )


def _is_part(module: Any, maps: Mapping[str, Mapping[str, Any]], place: str) -> bool:
    """Whether a module is that part of a compact model: its maps are as small as the plan says."""
    inside = {
        path.removeprefix(place): size for path, size in maps.items() if path.startswith(place)
    }
    has_maps = any(size["kind"] != "none" for size in inside.values())
    return has_maps and all(_has_map(module, *one) for one in inside.items())


def _has_map(body: Any, path: str, size: Mapping[str, Any]) -> bool:
    """Whether a map exists and is as small as the plan says."""
    try:
        weight = getattr(body.get_submodule(path), "weight", None)
    except AttributeError:
        return size["kind"] == "none"
    if size["kind"] in ("none", "constant"):
        return weight is None
    return weight is not None and sorted(weight.shape) == sorted((size["in"], size["out"]))
