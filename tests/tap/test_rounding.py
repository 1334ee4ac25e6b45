"""Rounding never refuses a model, and a head that is off by more than rounding always does.

Weights look trained: a few dimensions are much larger than the others, and output projections are
rescaled and folded, head by head, as compensation for pruned heads leaves them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headcount.core import ModelError
from headcount.tap import examine, sample_runs, tap
from headcount.tap.attention_check import AttentionCheck
from headcount.tap.discovery import discover
from headcount.tap.kernel_blocks import AttentionCall
from tests import self_checks, tiny
from tests.tiny_weights import trained_looking

HALF = (torch.bfloat16, torch.float16)
FEW = (
    ("bert", 1, torch.float32),
    ("distilbert", 3, torch.bfloat16),
    ("gemma2", 0, torch.float32),
    ("falcon", 0, torch.float32),
    ("m2m_100", 4, torch.float16),
)
"""Encoders, of which one was refused when outputs were compared to 5 %; soft capping with groups;
a softmax of its own; and one near the end of its format, where its eager attention overflows."""

pytestmark = pytest.mark.usefixtures("examining")


@pytest.fixture
def examining() -> Iterator[None]:
    """Every model is examined, although an equal one was."""
    with self_checks.always():
        yield


def rough(name: str, seed: int, dtype: torch.dtype, implementation: str = "sdpa") -> Any:
    makers = tiny.TAPPED | {"gpt_oss": tiny.gpt_oss}
    model: Any = trained_looking(makers[name](), seed)
    if name in tiny.MODELS and name != "gemma2":  # which soft-caps, as sdpa can't
        model.set_attn_implementation(implementation)
    return model.to(dtype)


def mostly_padding(model: PreTrainedModel) -> dict[str, Tensor] | None:
    """Two rows of 30 tokens, of which one has 3; None for models of images or sound."""
    if model.main_input_name != "input_ids":
        return None
    return tiny.inputs(model, (30, 3) if not model.config.is_encoder_decoder else (20, 2))


@pytest.mark.parametrize(("name", "seed", "dtype"), FEW)
def test_rounding_refuses_no_model(name: str, seed: int, dtype: torch.dtype) -> None:
    model = rough(name, seed, dtype)
    for inputs in (None, mostly_padding(model)):
        found = examine(model, inputs)
        assert not found.eager and found.can_block


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", [*tiny.TAPPED, "gpt_oss"])
def test_rounding_refuses_no_model_of_any_type(name: str, seed: int, dtype: torch.dtype) -> None:
    for implementation in ("sdpa", "eager"):
        model = rough(name, seed, dtype, implementation)
        if not is_finite(model):  # large dimensions overflow in float16
            with pytest.raises(ModelError, match="Expected finite .* load the model in float32"):
                examine(model)
            continue
        for inputs in (None, mostly_padding(model)):
            found = examine(model, inputs)
            assert found.eager == (name == "gpt_oss") and found.can_block, (implementation, inputs)


def is_finite(model: PreTrainedModel) -> bool:
    """Whether what the stock model computes is finite on every sample run."""
    with torch.no_grad():
        return all(
            each.isfinite().all()
            for run in sample_runs(model).values()
            for each in run.outputs(model)
        )


# --------------------------------------------------------------------------------- planted errors


def planted(function: Callable[..., Any], share: float) -> Any:
    """An attention function whose second head is off by a share of its output."""

    def off(module: nn.Module, query: Tensor, *rest: Any, **kwargs: Any) -> Any:
        output, weights = function(module, query, *rest, **kwargs)
        factor_HD = torch.ones(output.shape[2], 1, dtype=output.dtype)
        factor_HD[1] += share
        return output * factor_HD, weights

    return off


def an_error(dtype: torch.dtype) -> float:
    """What is too much for a number format, in whatever format it is computed."""
    return 1e-4 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps


def off_in_stock(patch: pytest.MonkeyPatch, share: float) -> None:
    stock = AttentionInterface._global_mapping["sdpa"]
    patch.setitem(AttentionInterface._global_mapping, "sdpa", planted(stock, share))


def off_in_fused(patch: pytest.MonkeyPatch, share: float) -> None:
    patch.setattr(tap, "sdpa_attention_forward", planted(sdpa_attention_forward, share))


def off_in_weights(patch: pytest.MonkeyPatch, share: float) -> None:
    stock = AttentionCall.weights

    def off(call: AttentionCall, *cut: slice) -> tuple[Tensor, slice]:
        weights, keys = stock(call, *cut)
        if not call.is_eager:
            weights[:, 1] *= 1 + share
        return weights, keys

    patch.setattr(AttentionCall, "weights", off)


PLACES = {"stock": off_in_stock, "fused": off_in_fused, "weights": off_in_weights}


def assert_found(name: str, seed: int, dtype: torch.dtype, place: str) -> None:
    """A head that is off in the stock model is refused; in the tap, other arithmetic is used."""
    model = rough(name, seed, dtype)
    anatomy = replace(discover(model), eager=False)
    check = AttentionCheck(model, anatomy)
    inputs = {
        name: each.to(dtype) if each.is_floating_point() else each
        for name, each in tiny.inputs(model).items()
    }
    with pytest.MonkeyPatch.context() as patch, torch.no_grad(), check.checking():
        PLACES[place](patch, an_error(dtype))
        model(**inputs)
    assert check.fault is not None and check.fault.head.index == 1
    # Soft capping is never fused
    assert check.fault.way == ("fused" if name == "gemma2" else place)
    assert check.fault.share > an_error(dtype) / 2


@pytest.mark.once
@pytest.mark.parametrize("place", PLACES)
def test_a_head_that_is_off_is_found(place: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert_found("llama", 0, dtype, place)


def test_a_stock_model_with_a_head_that_is_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = rough("bert", 0, torch.float32)
    off_in_stock(monkeypatch, 1e-4)
    expected = r"but the stock attention function differs from .* of the norm of head enc\.0\.1 in"
    with pytest.raises(ModelError, match=expected):
        examine(model)


@pytest.mark.slow
def test_a_tap_with_a_head_that_is_off_uses_other_arithmetic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    off_in_weights(monkeypatch, 1e-4)
    assert examine(rough("bert", 0, torch.float32)).eager


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", tiny.MODELS)
def test_a_head_that_is_off_is_found_in_any_type(
    name: str, seed: int, dtype: torch.dtype, place: str
) -> None:
    if name == "gemma2" and place != "weights":
        return  # neither fused attention nor sdpa soft-caps
    assert_found(name, seed, dtype, place)
