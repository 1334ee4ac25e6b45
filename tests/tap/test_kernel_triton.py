"""The kernel triton, in Triton's interpreter: it finds what the blocks and NumPy find."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from headcount.core import InputError, ModelError
from headcount.tap import BLOCKS, Reduction, Statistics, chosen, examine
from headcount.tap import kernel_triton as kernel_triton_module
from headcount.tap.attention_weights import AttentionCall
from headcount.tap.kernel_triton import IS_INTERPRETED, LogSums, Triton
from tests import tiny
from tests.tap.test_kernels import CASES, NEEDS, Case, call_of, found_by

interpreted = pytest.mark.skipif(
    not IS_INTERPRETED, reason="needs triton and TRITON_INTERPRET=1: make kernels"
)

KEYS = (Reduction.PEAK_KEY, Reduction.PEAK_LATER)

TRITONS = CASES | {
    "long": Case("causal", (83, 70), heads=1, size=24),
    "long, without a mask": Case(lengths=(75,), heads=1, num_queries=37, size=96),
    "long, with gaps": Case("gaps", (70, 41), heads=2, shared=2, size=5),
    "head of 256": Case("causal", (21,), heads=1, size=256),
    "soft cap, long, fewer queries": Case("right", (71,), num_queries=35, heads=1, softcap=3.0),
    "position bias as numbers": Case("causal", position_bias=True, is_additive=True),
}
"""Long ones have several tiles of queries and of keys."""


def _swept(
    call: AttentionCall, columns: int = 6, kernel: Triton | None = None
) -> tuple[Statistics, Tensor, Triton]:
    """Statistics with columns, outputs, and the kernel."""
    kernel, counted = kernel or Triton(), call.module.counted
    batch, heads, _, _ = call.query.shape
    draw = torch.Generator().manual_seed(columns)
    columns_BHKC = torch.rand(batch, heads, call.key.shape[2], columns, generator=draw)
    value = torch.zeros(batch, heads, call.key.shape[2], 1)
    asked = Statistics.zeros(counted, value, NEEDS, columns_BHKC)
    assert kernel.takes(call, asked), kernel.left
    return asked, kernel.begin(call, asked, 0), kernel


def _call(case: Case, dtype: torch.dtype = torch.float32) -> AttentionCall:
    """An attention call with values of its own, whose module knows which tokens count."""
    call, counted = call_of(case)
    value = call.key.roll(1, -1)[..., : max(1, case.size - 2)] * 2 if case.size > 7 else call.key
    call.query, call.key, call.value = (x.to(dtype) for x in (call.query, call.key, value))
    vars(call.module).update(num_key_value_groups=case.shared, counted=counted)
    return call


def _numpy(call: AttentionCall) -> np.ndarray:
    """The weights by the definition, in float64."""
    query, key = (each.double().numpy() for each in (call.query, call.repeated(call.key)))
    scores = query @ key.swapaxes(-1, -2) * call.scaling
    if (cap := call.kwargs.get("softcap")) is not None:
        scores = cap * np.tanh(scores / cap)
    if (bias := call.kwargs.get("position_bias")) is not None:
        scores = scores + bias.double().numpy()
    if call.mask is not None:
        is_boolean = call.mask.dtype == torch.bool
        seen = call.mask if is_boolean else call.mask == 0
        scores = np.where(seen.numpy(), scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@interpreted
@pytest.mark.parametrize("name", TRITONS)
def test_triton_finds_what_the_blocks_and_numpy_find(name: str) -> None:
    """Numbers to 1e-5, and the same keys."""
    call = _call(TRITONS[name])
    counted = call.module.counted
    expected, _ = found_by(BLOCKS, call, counted)
    found, output, kernel = _swept(call)
    kernel.check()
    is_query = counted.is_attending_BQ[:, None]
    weights = torch.from_numpy(_numpy(call)) * is_query[..., None]

    def assert_near(its: Tensor, those: Tensor) -> None:
        torch.testing.assert_close(its.double(), those.double(), rtol=1e-5, atol=1e-5)

    for reduction, numbers in found.numbers.items():
        those = expected.numbers[reduction]
        if reduction is Reduction.COLUMN:
            assert_near(numbers, those)
        elif reduction in KEYS:
            assert torch.equal(numbers * is_query, those * is_query), reduction
        else:
            assert_near(numbers, those * is_query)
    measured = counted.is_measured_BQ[:, None, :, None]
    assert_near(found.numbers[Reduction.COLUMN], (weights * measured).sum(2))
    logs = weights.where(weights > 0, 1).log()
    assert_near(found.numbers[Reduction.ENTROPY], -(weights * logs).sum(-1))
    assert_near(found.numbers[Reduction.FIRST], weights[..., 0])
    content = weights * counted.is_content_BK[:, None, None]
    assert_near(found.numbers[Reduction.PEAK], content.amax(-1))
    assert found.masses_BHQC is not None and found.columns_BHKC is not None
    assert_near(found.masses_BHQC, weights @ found.columns_BHKC.double())
    its_output = output.transpose(1, 2) * is_query[..., None]
    assert_near(its_output, weights @ call.repeated(call.value).double())


@interpreted
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_16_bits_are_added_up_in_float32(dtype: torch.dtype) -> None:
    """To 1e-4: on a CPU, fused attention of such numbers takes coarse exponentials."""
    call = _call(replace(CASES["causal, padded on the left"], shared=3), dtype)
    counted = call.module.counted
    found, output, kernel = _swept(call)
    kernel.check()
    weights = torch.from_numpy(_numpy(call)) * counted.is_attending_BQ[:, None, :, None]
    for its, those in (
        (found.numbers[Reduction.FIRST], weights[..., 0]),
        (
            found.numbers[Reduction.COLUMN],
            (weights * counted.is_measured_BQ[:, None, :, None]).sum(2),
        ),
        (found.numbers[Reduction.PEAK], (weights * counted.is_content_BK[:, None, None]).amax(-1)),
    ):
        torch.testing.assert_close(its.double(), those, rtol=1e-4, atol=1e-4)
    assert output.dtype == dtype


@interpreted
def test_column_sums_are_whole_numbers_of_their_unit() -> None:
    from headcount.tap import device_sweep

    (one, *_), (two, *_) = (_swept(_call(CASES["gaps"])) for _ in range(2))
    column = one.numbers[Reduction.COLUMN]
    assert torch.equal(column, two.numbers[Reduction.COLUMN])
    units = column.double() / device_sweep.UNIT
    assert torch.equal(units, units.round())


@interpreted
def test_many_columns_take_several_sweeps() -> None:
    call = _call(CASES["cross attention"])
    found, _, _ = _swept(call, columns=kernel_triton_module.MOST_COLUMNS + 3)
    assert found.masses_BHQC is not None and found.columns_BHKC is not None
    expected = torch.from_numpy(_numpy(call)) @ found.columns_BHKC.double()
    torch.testing.assert_close(found.masses_BHQC.double(), expected, rtol=1e-5, atol=1e-5)


@interpreted
def test_weights_that_do_not_add_up_are_refused() -> None:
    """The scores of fused attention are others than those of the sweep: it scales them."""
    call = _call(CASES["padding on the right"])
    call.scaling *= 1.01
    asked, _, kernel = _swept(call)
    with pytest.raises(ModelError, match=r"those of 1\d\d queries don't.* --kernel blocks"):
        kernel.check()
    kernel.check()  # each once


@interpreted
def test_numbers_that_are_not_finite_are_found_by_their_own_check() -> None:
    call = _call(CASES["a window"])
    call.query[0, 2, 20, 0] = torch.nan
    asked, _, kernel = _swept(call)
    assert asked.numbers[Reduction.FIRST][0, 2, 20].isnan()
    assert asked.numbers[Reduction.FIRST][0, 1].isfinite().all()
    kernel.check()


# ------------------------------------------------------------------ without a compiler


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shared", [1, 3])
def test_the_operation_that_torch_chooses_returns_its_log_sums(
    dtype: torch.dtype, shared: int
) -> None:
    query, key = torch.randn(2, 6, 5, 24).to(dtype), torch.randn(2, 6 // shared, 7, 24).to(dtype)
    mask = torch.rand(2, 1, 5, 7) < 0.8
    mask[..., 0] = True
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, LogSums() as sums:
            torch.nn.functional.scaled_dot_product_attention(
                query, key, key, mask, enable_gqa=shared > 1
            )
        scores = query.double() @ key.double().repeat_interleave(shared, 1).mT / 24**0.5
        expected = scores.masked_fill(~mask, -torch.inf).logsumexp(-1)
        assert sums.found is not None
        torch.testing.assert_close(sums.found.double(), expected, rtol=1e-5, atol=1e-5)


def test_calls_that_triton_leaves_to_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_triton_module, "IS_INTERPRETED", True)
    call = _call(CASES["causal"])
    value = torch.zeros(*call.key.shape[:3], 1)
    asked, kernel = Statistics.zeros(call.module.counted, value, NEEDS), Triton()
    assert kernel.takes(call, asked) and not kernel.left
    assert not kernel.takes(call, asked.with_map())
    call.query.requires_grad_(True)
    assert not kernel.takes(call, asked)
    with torch.no_grad():
        assert kernel.takes(call, asked)
        call.is_eager = True
        assert not kernel.takes(call, asked)
        call.is_eager, call.empty = False, torch.zeros(1, 1, 1, 1).bool()
        assert not kernel.takes(call, asked)
        call.empty, call.kwargs["s_aux"] = None, torch.zeros(3)
        assert not kernel.takes(call, asked)
        del call.kwargs["s_aux"]
        call.query = call.query.double()
        assert not kernel.takes(call, asked)
        call.query = torch.zeros(*call.query.shape[:3], 257)
        assert not kernel.takes(call, asked)
        monkeypatch.setattr(kernel_triton_module, "IS_INTERPRETED", False)
        call.query = torch.zeros(*call.query.shape[:3], 7)
        assert not kernel.takes(call, asked)
    assert kernel.left == {
        "maps of words or patches are read",
        "there are gradients",
        "the model's own eager function computes weights",
        "scores are blocked",
        "heads have learned sinks",
        "numbers are torch.float64",
        "heads have more than 256 dimensions",
        "the model is on cpu",
    }


def test_triton_is_chosen_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.MODELS["bert"]().eval()
    anatomy = examine(model)
    monkeypatch.setattr("headcount.tap.kernels.find_spec", lambda name: name)
    for is_interpreted in (True, False):
        monkeypatch.setattr("headcount.tap.kernels.IS_INTERPRETED", is_interpreted)
        found = chosen("triton", model, anatomy, 1)
        assert found.kernel.name == ("triton" if is_interpreted else "blocks")
    assert found.why == "the model is on cpu, and the kernel triton runs on a GPU"
    assert chosen("auto", model, anatomy, 9999).kernel.name == "sweep"
    monkeypatch.setattr("headcount.tap.kernels.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Expected triton for the kernel triton.* for CUDA"):
        chosen("triton", model, anatomy, 1)
