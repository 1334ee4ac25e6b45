"""Every kernel finds what the blocks find, and is chosen where it can compute the model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcount.core import InputError
from headcount.tap import (
    BLOCKS,
    LONG,
    AttentionLayer,
    Block,
    Counted,
    Kernel,
    Reduction,
    Statistics,
    chosen,
    examine,
)
from headcount.tap import kernel_sweep as kernel_sweep_module
from headcount.tap.attention_weights import AttentionCall, blocks
from headcount.tap.kernel_sweep import Sweep
from headcount.tap.seen_keys import MaskFacts
from tests import tiny

NEEDS = [
    Reduction.PEAK,
    Reduction.PEAK_KEY,
    Reduction.PEAK_LATER,
    Reduction.PEAK_SPECIAL,
    Reduction.ENTROPY,
    Reduction.DIAGONALS,
    Reduction.FIRST,
    Reduction.NONE,
    Reduction.COLUMN,
]


@dataclass(frozen=True)
class Case:
    """An attention call; lengths are those of the batch's rows."""

    mask: str = "none"
    lengths: tuple[int, ...] = (29, 17, 5)
    num_queries: int | None = None
    """None for as many as keys, which are the same tokens."""
    heads: int = 3
    shared: int = 1
    """Number of query heads that share keys."""
    size: int = 7
    softcap: float | None = None
    is_additive: bool = False
    position_bias: bool = False
    scale: float = 2.0


CASES = {
    "no mask": Case(lengths=(29, 29, 29)),
    "padding on the right": Case("right"),
    "padding on the left": Case("left"),
    "padding of a whole row": Case("right", (29, 0, 11)),
    "causal": Case("causal", size=11, shared=3),
    "causal, padded on the left": Case("causal left"),
    "causal, as numbers": Case("causal", is_additive=True),
    "a window": Case("window"),
    "a window both ways": Case("both ways"),
    "gaps": Case("gaps"),
    "gaps, as numbers": Case("gaps", is_additive=True),
    "fewer queries than keys": Case("right", num_queries=13),
    "cross attention": Case("right", (23, 41), num_queries=37),
    "soft cap": Case("causal", softcap=3.0),
    "position bias": Case("right", position_bias=True),
    "one token": Case("causal", (1, 1)),
    "sharp": Case("causal", scale=20.0),
    "long": Case("causal", (301, 257), heads=2, size=24),
}


def _visible(case: Case) -> Tensor | None:
    """Booleans [batch, 1, query, key]."""
    num_keys = max(case.lengths)
    num_queries = case.num_queries or num_keys
    query, key = torch.arange(num_queries)[:, None], torch.arange(num_keys)
    shown = {
        "causal": key <= query,
        "window": (key <= query) & (key > query - 5),
        "both": (key - query).abs() < 4,
        "gaps": (key + query) % 3 > 0,
    }.get(case.mask.split()[0], torch.ones(num_queries, num_keys).bool())
    if case.mask == "none":
        return None
    return shown[None, None] & _is_key(case)[:, None, None]


def _is_key(case: Case) -> Tensor:
    key, length_B1 = torch.arange(max(case.lengths)), torch.tensor(case.lengths)[:, None]
    is_left = case.mask.endswith("left")
    return key >= max(case.lengths) - length_B1 if is_left else key < length_B1


def call_of(case: Case) -> tuple[AttentionCall, Counted]:
    draw = torch.Generator().manual_seed(len(case.mask) + case.size)
    batch, num_keys = len(case.lengths), max(case.lengths)
    num_queries, kwargs = case.num_queries or num_keys, dict[str, Any]()

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    query = normal(batch, case.heads, num_queries, case.size) * case.scale
    key = normal(batch, case.heads // case.shared, num_keys, case.size)
    if case.softcap is not None:
        kwargs["softcap"] = case.softcap
    if case.position_bias:
        kwargs["position_bias"] = normal(1, case.heads, num_queries, num_keys)
    mask = _visible(case)
    if mask is not None and case.is_additive:
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    facts = None if mask is None else MaskFacts(mask)
    call = AttentionCall(nn.Identity(), query, key, key, mask, kwargs, facts)
    is_key_BK = _is_key(case)
    is_self = case.num_queries is None
    is_query_BQ = is_key_BK if is_self else torch.ones(batch, num_queries).bool()
    is_content_BK = is_key_BK & (torch.rand(is_key_BK.shape, generator=draw) < 0.8)
    is_measured_BQ = is_query_BQ & (torch.rand(is_query_BQ.shape, generator=draw) < 0.9)
    return call, Counted(is_query_BQ, is_measured_BQ, is_key_BK, is_content_BK, (-2, -1, 0, 1, 2))


def found_by(
    kernel: Kernel, call: AttentionCall, counted: Counted, size: int = 2**20, has_map: bool = True
) -> tuple[Statistics, Tensor]:
    """The statistics and the whole map."""
    batch, heads, num_queries, _ = call.query.shape
    num_keys = call.key.shape[2]
    layer = AttentionLayer("encoder.self", 0, "", 0, heads, heads, 1, None)
    value = torch.zeros(batch, heads, num_keys, 1)
    statistics = Statistics.zeros(counted, value, NEEDS, needs_map=has_map)
    maps = torch.zeros(batch, heads, num_queries, num_keys)
    assert kernel.takes(call, statistics)
    attending = kernel.begin(call, statistics, size)
    for place in blocks(call, attending.size, whole_heads=False):
        weights, keys = attending.weights(*place)
        block = Block(layer, *place, weights, weights[..., :0], keys.start, num_keys)
        attending.fill(block)
        maps[place] = block.weights_BHQK
    attending.end()
    return statistics, maps


@pytest.fixture(scope="module")
def sweep() -> Iterator[Sweep]:
    pytest.importorskip("numba")
    yield Sweep()


@pytest.mark.parametrize("size", [50, 2**20])
@pytest.mark.parametrize("name", CASES)
def test_the_sweep_finds_what_the_blocks_find(
    name: str, size: int, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers to 1e-5 of their size; other keys only where the two weights are nearly equal."""
    monkeypatch.setattr("headcount.tap.seen_keys.LEAST", 2000)  # `long` leaves keys out
    call, counted = call_of(CASES[name])
    expected, maps = found_by(BLOCKS, call, counted, size)
    found, its_maps = found_by(sweep, call, counted, size)
    is_query_BQ = counted.is_attending_BQ[:, None]
    torch.testing.assert_close(
        its_maps * is_query_BQ[..., None], maps * is_query_BQ[..., None], rtol=1e-5, atol=1e-6
    )
    for reduction, numbers in found.numbers.items():
        those = expected.numbers[reduction]
        if reduction is Reduction.COLUMN:
            torch.testing.assert_close(numbers, those, rtol=1e-5, atol=1e-6)
        elif reduction in (Reduction.PEAK_KEY, Reduction.PEAK_LATER):
            differs = (numbers != those) & is_query_BQ
            at, there = (maps.gather(-1, each[..., None])[..., 0] for each in (numbers, those))
            assert (at - there).abs()[differs].le(1e-6).all(), reduction
            assert differs.float().mean() <= 1e-4, reduction
        else:
            torch.testing.assert_close(
                numbers * is_query_BQ, those * is_query_BQ, rtol=1e-5, atol=2e-6
            )


def test_the_sweep_gives_the_same_bits_with_any_number_of_threads(sweep: Sweep) -> None:
    for name in ("long", "padding on the right", "one token"):
        call, counted = call_of(CASES[name])
        alone = found_by(sweep, call, counted)
        for threads in (2, 3):
            torch.set_num_threads(threads)
            try:
                statistics, maps = found_by(sweep, call, counted)
            finally:
                torch.set_num_threads(1)
            assert torch.equal(maps, alone[1])
            for reduction, numbers in statistics.numbers.items():
                assert torch.equal(numbers, alone[0].numbers[reduction]), reduction


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_not_finite_reach_the_weights(number: float, sweep: Sweep) -> None:
    call, counted = call_of(CASES["no mask"])
    call.query[1, 2, 3, 0] = number
    statistics, maps = found_by(sweep, call, counted)
    assert maps[1, 2, 3].isnan().any() and maps[1, 2, :3].isfinite().all()
    assert statistics.numbers[Reduction.FIRST][1, 2, 3].isnan()


def test_scores_of_minus_infinity_have_no_weight(sweep: Sweep) -> None:
    call, counted = call_of(replace(CASES["gaps"], is_additive=True))
    assert call.mask is not None
    call.mask.masked_fill_(call.mask < 0, -torch.inf)
    expected, found = (found_by(kernel, call, counted)[0].numbers for kernel in (BLOCKS, sweep))
    is_query_BQ = counted.is_attending_BQ[:, None]
    for reduction in (Reduction.ENTROPY, Reduction.PEAK):
        torch.testing.assert_close(
            found[reduction] * is_query_BQ, expected[reduction] * is_query_BQ, rtol=1e-5, atol=1e-6
        )


def test_blocks_leave_the_map_only_where_it_is_read() -> None:
    call, counted = call_of(CASES["causal"])
    _, maps = found_by(BLOCKS, call, counted)
    torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:3]))
    _, overwritten = found_by(BLOCKS, call, counted, has_map=False)
    assert (overwritten < 0).any()


def test_long_texts_are_swept_in_strips(sweep: Sweep) -> None:
    query = torch.zeros(1, 2, 4096, 3)
    call = AttentionCall(nn.Identity(), query, query, query, None, {}, None)
    is_token = torch.ones(1, 4096).bool()
    counted = Counted(is_token, is_token, is_token, is_token, ())
    asked = Statistics.zeros(counted, torch.zeros(1, 2, 4096, 1), NEEDS)
    size = sweep.begin(call, asked, 2**21).size
    assert size == kernel_sweep_module.STRIP
    assert all(
        len(range(4096)[queries]) * 4096 <= size for _, _, queries in blocks(call, size, False)
    )
    assert sweep.begin(call, asked, 7).size == 7


# ------------------------------------------------------------------ which kernel


def test_calls_that_the_sweep_can_t_take(sweep: Sweep) -> None:
    call, counted = call_of(CASES["causal"])
    statistics = Statistics.zeros(counted, torch.zeros(3, 3, 29, 1), NEEDS)
    assert sweep.takes(call, statistics)
    assert not sweep.takes(call, Statistics()), "nothing is asked for"
    call.query.requires_grad_(True)
    assert not sweep.takes(call, statistics)
    with torch.no_grad():
        assert sweep.takes(call, statistics)
        call.empty = torch.zeros(1, 1, 1, 1).bool()
        assert not sweep.takes(call, statistics), "scores are blocked"
        call.empty, call.dtype = None, torch.float64
        assert not sweep.takes(call, statistics)


def test_the_kernel_is_chosen_by_the_model_and_the_length_of_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    model = tiny.MODELS["bert"]().eval()
    anatomy = examine(model)
    names = {n: chosen("auto", model, anatomy, n).kernel.name for n in (LONG - 1, LONG)}
    assert names == {LONG - 1: "blocks", LONG: "sweep"}
    assert chosen("blocks", model, anatomy, LONG).kernel is BLOCKS
    assert chosen("sweep", model, anatomy, 1).kernel.name == "sweep"
    eager = chosen("sweep", model, replace(anatomy, eager=True), LONG)
    assert eager.kernel is BLOCKS and eager.why is not None and "eager" in eager.why
    double = chosen("sweep", model.double(), anatomy, LONG)
    assert double.kernel is BLOCKS
    assert double.why == "the model is in float64, and the kernel sweep computes in float32"
    assert chosen("auto", model, anatomy, LONG).why is None
    monkeypatch.setattr("headcount.tap.kernels.find_spec", lambda name: None)
    assert chosen("auto", model, anatomy, LONG).kernel is BLOCKS
    with pytest.raises(InputError, match=r"Install headcount\[fast\], or pass --kernel blocks"):
        chosen("sweep", model, anatomy, LONG)
