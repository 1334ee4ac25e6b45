"""Attention calls that the kernel triton is compared on: in the interpreter, and on a GPU."""

import numpy as np
import torch
from torch import Tensor

from headcount.tap import BLOCKS, Counted, Reduction, Statistics
from headcount.tap.kernel_blocks import AttentionCall
from headcount.tap.kernel_triton import Triton
from headcount.tap.seen_keys import MaskFacts
from tests.tap.kernel_cases import CASES, NEEDS, Case, call_of, found_by

TRITONS = CASES | {
    "long": Case("causal", (83, 70), heads=1, size=24),
    "long, without a mask": Case(lengths=(75,), heads=1, num_queries=37, size=96),
    "long, with gaps": Case("gaps", (70, 41), heads=2, shared=2, size=5),
    "head of 256": Case("causal", (21,), heads=1, size=256),
    "soft cap, long, fewer queries": Case("right", (71,), num_queries=35, heads=1, softcap=3.0),
    "grouped": Case("causal left", (11, 7), heads=4, shared=2, size=9),
    "position bias as numbers": Case("causal", position_bias=True, is_additive=True),
}
"""Long ones have several tiles of queries and of keys in the interpreter."""


def call_on(
    case: Case, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[AttentionCall, Counted]:
    """An attention call with values of its own, and the tokens that count."""
    call, counted = call_of(case)
    value = call.key.roll(1, -1)[..., : max(1, case.size - 2)] * 2 if case.size > 7 else call.key
    call.query, call.key, call.value = (
        each.to(device, dtype) for each in (call.query, call.key, value)
    )
    vars(call.module)["num_key_value_groups"] = case.shared
    if call.mask is not None:
        call.mask = call.mask.to(device)
        call.facts = MaskFacts(call.mask)
        call.seen = call.facts.seen
    if case.position_bias:
        call.kwargs["position_bias"] = call.kwargs["position_bias"].to(device, dtype)
    return call, Counted(
        counted.is_attending_BQ.to(device),
        counted.is_measured_BQ.to(device),
        counted.is_key_BK.to(device),
        counted.is_content_BK.to(device),
        counted.offsets,
    )


def swept(
    call: AttentionCall, counted: Counted, columns: int = 6
) -> tuple[Statistics, Tensor, Triton]:
    """Statistics with columns, outputs, and the kernel that found them."""
    kernel, (batch, heads, _, _) = Triton(), call.query.shape
    draw = torch.Generator().manual_seed(columns)
    columns_BHKC = torch.rand(batch, heads, call.key.shape[2], columns, generator=draw)
    columns_BHKC = columns_BHKC.to(call.query.device)
    asked = Statistics.zeros(counted, columns_BHKC[..., :1], NEEDS, columns_BHKC)
    assert kernel.takes(call, asked), kernel.left
    return asked, kernel.begin(call, asked, 0), kernel


def by_definition(call: AttentionCall, counted: Counted) -> Tensor:
    """The weights of queries that count, by NumPy in float64."""
    query, key = (each.double().cpu().numpy() for each in (call.query, call.repeated(call.key)))
    scores = query @ key.swapaxes(-1, -2) * call.scaling
    if (cap := call.kwargs.get("softcap")) is not None:
        scores = cap * np.tanh(scores / cap)
    if (bias := call.kwargs.get("position_bias")) is not None:
        scores = scores + bias.double().cpu().numpy()
    if call.mask is not None:
        is_boolean = call.mask.dtype == torch.bool
        seen = call.mask if is_boolean else call.mask == 0
        scores = np.where(seen.cpu().numpy(), scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = torch.from_numpy(weights / weights.sum(-1, keepdims=True))
    return weights.to(call.query.device) * counted.is_attending_BQ[:, None, :, None]


def check(
    name: str,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    tolerance: float = 1e-5,
) -> None:
    """Check that the kernel finds the numbers of the blocks and of NumPy, and the same keys.

    Raises:
        AssertionError: if it does not.
        ModelError: if weights don't add up to 1.
    """
    call, counted = call_on(TRITONS[name], dtype, device)
    expected, _ = found_by(BLOCKS, call, counted)
    found, output, kernel = swept(call, counted)
    kernel.check()
    is_query, weights = counted.is_attending_BQ[:, None], by_definition(call, counted)

    def assert_near(its: Tensor, those: Tensor) -> None:
        torch.testing.assert_close(its.double(), those.double(), rtol=tolerance, atol=tolerance)

    for reduction, numbers in found.numbers.items():
        those = expected.numbers[reduction]
        if reduction is Reduction.COLUMN:
            assert_near(numbers, those)
        elif numbers.dtype == torch.long:
            content = weights * counted.is_content_BK[:, None, None]
            at, there = (content.gather(-1, each[..., None])[..., 0] for each in (numbers, those))
            differs = (numbers != those) & is_query
            assert (at - there).abs()[differs].le(1e-6).all(), reduction
        else:
            assert_near(numbers, those * is_query)
    logs = weights.where(weights > 0, 1).log()
    measured = weights * counted.is_measured_BQ[:, None, :, None]
    content = weights * counted.is_content_BK[:, None, None]
    for reduction, those in (
        (Reduction.COLUMN, measured.sum(2)),
        (Reduction.ENTROPY, -(weights * logs).sum(-1)),
        (Reduction.FIRST, weights[..., 0]),
        (Reduction.PEAK, content.amax(-1)),
    ):
        assert_near(found.numbers[reduction], those)
    assert found.masses_BHQC is not None and found.columns_BHKC is not None
    assert_near(found.masses_BHQC, weights @ found.columns_BHKC.double())
    value = call.repeated(call.value).double()
    near = max(tolerance, 1e-5 if dtype == torch.float32 else 2e-2)  # outputs are rounded
    its = (output.transpose(1, 2) * is_query[..., None]).double()
    torch.testing.assert_close(its, weights @ value, rtol=near, atol=near)
