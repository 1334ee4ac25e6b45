"""Attention calls that kernels are compared on, and what a kernel with blocks finds in them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headcount.tap import AttentionLayer, Block, Call, Counted, Kernel, Reduction, Statistics
from headcount.tap.kernel_blocks import AttentionCall, Cut, blocks
from headcount.tap.seen_keys import MaskFacts

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
    call = AttentionCall(Call(nn.Identity(), query, key, key, mask, kwargs), facts)
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
    num_keys, device = call.key.shape[2], call.query.device
    layer = AttentionLayer("encoder.self", 0, "", 0, heads, heads, 1, None)
    value = torch.zeros(batch, heads, num_keys, 1, device=device)
    statistics = Statistics.zeros(counted, value, NEEDS, needs_map=has_map)
    maps = torch.zeros(batch, heads, num_queries, num_keys, device=device)
    assert kernel.takes(call, statistics)
    attending = kernel.begin(call, statistics, size)
    assert not isinstance(attending, Tensor)

    def attend(place: Cut) -> None:
        weights, keys = attending.weights(*place)
        block = Block(layer, *place, weights, weights[..., :0], keys.start, num_keys)
        attending.fill(block)
        maps[place] = block.weights_BHQK

    attending.over(blocks(call, attending.size, whole_heads=False), attend)
    attending.end()
    return statistics, maps
