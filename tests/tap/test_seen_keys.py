"""Keys that no query of a block may see are not computed, and nothing else changes."""

import gc
import weakref
from itertools import product

import pytest
import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import LayerId
from headcount.tap import Anatomy, Block, FunctionListener, Tap, examine, seen_keys
from headcount.tap.seen_keys import MaskFacts, Masks, SeenKeys
from tests import tiny
from tests.examined import examined_double

NUM_QUERIES, NUM_KEYS = 13, 17
NAMES = ("gpt2", "llama", "gemma2", "gemma3_text", "modernbert", "bert")


def _is_seen(query: int, key: int, kind: str) -> bool:
    match kind:
        case "causal":
            return key <= query
        case "window":
            return query - 3 < key <= query
        case "both ways":
            return abs(query - key) < 3
        case "padding on the left":
            return 4 <= key <= query
        case "packed":
            return key <= query and (key < 6) == (query < 6)
        case "gaps":
            return key <= query and key % 3 > 0
        case _:
            return query > 2 and key < 11


KINDS = ("causal", "window", "both ways", "padding on the left", "packed", "gaps", "padding")


def _mask(kinds: tuple[str, ...]) -> Tensor:
    rows = [
        [[_is_seen(query, key, kind) for key in range(NUM_KEYS)] for query in range(NUM_QUERIES)]
        for kind in kinds
    ]
    return torch.tensor(rows)[:, None]


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS, ("causal", "window")])
def test_no_seen_key_is_left_out_and_edges_hold_all_that_is_hidden(kinds: tuple[str, ...]) -> None:
    mask = _mask(kinds)
    seen = SeenKeys.of(mask)
    for start, size, row in product(range(NUM_QUERIES), (1, 2, 5), range(len(kinds))):
        rows, queries = slice(row, row + 2), slice(start, start + size)
        keys, edges = seen.of_block(rows, queries)
        is_edge = {key for edge in edges for key in range(edge.start, edge.stop)}
        assert is_edge <= set(range(keys.start, keys.stop))
        needed = set()
        for kind, query in product(kinds[rows], range(NUM_QUERIES)[queries]):
            its = {key for key in range(NUM_KEYS) if _is_seen(query, key, kind)}
            needed |= its or set(range(NUM_KEYS))  # a query that sees nothing
            assert set(range(keys.start, keys.stop)) - its <= is_edge
        assert keys == slice(min(needed), max(needed) + 1)


def test_one_mask_of_all_rows_is_that_of_each() -> None:
    seen = SeenKeys.of(_mask(("causal",)))
    assert seen.of_block(slice(2, 3), slice(4, 6)) == (slice(0, 6), [slice(5, 6)])


def test_what_is_seen_is_found_once_for_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "LEAST", NUM_QUERIES * NUM_KEYS)
    masks, mask = Masks(), _mask(("causal",))
    assert masks.facts(mask) is masks.facts(mask) is not masks.facts(mask.clone())
    assert masks.facts(None) is None
    assert MaskFacts(mask[..., 1:]).seen is None, "small"
    assert MaskFacts(mask.double()).seen is None, "numbers that change weights"
    numbers = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    found, like = MaskFacts(numbers).seen, MaskFacts(mask).seen
    assert found is not None and like is not None
    assert torch.equal(found.stop_BQ, like.stop_BQ) and torch.equal(found.first_BQ, like.first_BQ)
    assert MaskFacts(mask.expand(-1, 2, -1, -1)).seen is None, "heads see different keys"


def test_a_mask_is_made_numbers_once_and_lives_no_longer_than_the_model_needs_it() -> None:
    masks, mask = Masks(), _mask(KINDS)
    facts = masks.facts(mask)
    assert facts is not None and facts.sees_BQ is not None
    assert facts.sees_BQ.tolist() == mask.any(-1)[:, 0].tolist()
    bias = facts.bias(mask, torch.float64)
    assert facts.bias(mask, torch.float64) is bias
    assert facts.bias(mask, torch.float32).dtype == torch.float32
    assert torch.equal(bias == 0, mask) and bias.min() == torch.finfo(torch.float64).min
    assert MaskFacts(bias).bias(bias, torch.float64) is bias
    for each in (mask, bias):
        of_mask, watched = masks.facts(each), weakref.ref(each)
        assert of_mask is not None and of_mask.bias(each, torch.float64) is not None
    del mask, bias, each, facts
    gc.collect()
    assert watched() is None and of_mask is not None


# ------------------------------------------------------------------ in a model


def _heard(
    model: PreTrainedModel, anatomy: Anatomy, batch: dict[str, Tensor], size: int
) -> tuple[Tensor, dict[LayerId, Tensor], int]:
    """Logits, all maps, and the number of weights that were computed."""
    maps: dict[LayerId, Tensor] = {}
    num_computed = 0

    def hear(block: Block) -> None:
        nonlocal num_computed
        num_computed += block.seen_BHQK.numel()
        its = block.weights_BHQK
        batch_size, num_queries = len(batch["input_ids"]), batch["input_ids"].shape[1]
        shape = (batch_size, block.layer.num_heads, num_queries, its.shape[-1])
        whole = maps.setdefault(block.layer.layer_id, torch.full(shape, torch.nan).double())
        whole[block.rows, block.heads, block.queries] = its

    with torch.no_grad(), Tap(model, anatomy, FunctionListener(hear), block=size):
        return model(**batch).logits, maps, num_computed


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_weights_and_outputs_are_the_same(
    name: str, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, anatomy = examined_double(name)
    batch = tiny.inputs(model, side=side)
    for size in (60, 2**19):
        monkeypatch.setattr(seen_keys, "LEAST", 2**18)
        logits, maps, everything = _heard(model, anatomy, batch, size)
        monkeypatch.setattr(seen_keys, "LEAST", 1)
        others, its, computed = _heard(model, anatomy, batch, size)
        torch.testing.assert_close(others, logits, atol=1e-12, rtol=0)
        assert its.keys() == maps.keys()
        for place, each in its.items():
            torch.testing.assert_close(each, maps[place], atol=1e-13, rtol=0)
        if side == "right" and size == 60:
            assert computed < everything, "nothing was left out"


@pytest.mark.parametrize(("name", "share"), [("llama", 0.57), ("mistral", 0.4)])
def test_little_more_than_what_is_seen_is_computed(
    name: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A causal map of 64 tokens, and windows of 17 of them, in strips of 8 queries."""
    monkeypatch.setattr(seen_keys, "LEAST", 1)
    if name == "llama":
        model, anatomy = examined_double(name)
    else:
        config = hf.MistralConfig(**tiny.GROUPED, sliding_window=17)
        model = hf.MistralForCausalLM(config).double().eval()
        anatomy = examine(model)
    batch = tiny.inputs(model, (64,))
    _, maps, computed = _heard(model, anatomy, batch, 2**19)
    assert computed <= share * sum(each.numel() for each in maps.values())


def test_gradients_of_gates_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, anatomy = examined_double("llama")
    batch, found = tiny.inputs(model), []
    for least in (2**18, 1):
        monkeypatch.setattr(seen_keys, "LEAST", least)
        gate = torch.ones(anatomy.layers[0].num_heads).double().requires_grad_()
        gates = {anatomy.layers[0].layer_id: gate}
        with Tap(model, anatomy, FunctionListener(lambda block: None), gates):
            model(**batch).logits.square().sum().backward()
        assert gate.grad is not None
        found.append(gate.grad)
    torch.testing.assert_close(*found, rtol=1e-10, atol=0)
