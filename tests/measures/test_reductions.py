"""The reductions that measures use, against plain NumPy over full maps."""

from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._pytree import tree_leaves

from headcount.core import ModelError
from headcount.measures import AttentionReducer, Sides
from headcount.measures.reductions import MASSES, NORM_MASSES, OFFSETS, Attention
from headcount.measures.units import Slots
from headcount.tap import AttentionLayer, Block, Reduction, listener
from headcount.tap.kernel_blocks import peaks
from headcount.vocabulary import DIRECTIONS
from tests.measures.cases import (
    HEAD_DIM,
    NUM_HEADS,
    Example,
    attend,
    batches,
    feed,
    random_side,
    reduced,
    tokens,
)
from tests.textbook import patterns, syntactic

SPLITS = [(100, 100, 100), (1, 2, 3), (2, 3, 5), (1, 100, 2), (100, 2, 100)]


def _at(attention: Attention, row: int, example: Example) -> dict[str, np.ndarray]:
    """The gathered values of one sentence, without padding."""
    num_queries, num_keys = example.A.shape[1:]
    return {
        "peak": attention.peak_BHQ[row, :, :num_queries].numpy(),
        "peak_key": attention.peak_key_BHQ[row, :, :num_queries].numpy(),
        "entropy": attention.entropy_BHQ[row, :, :num_queries].numpy(),
        "diagonals": attention.diagonals_BHQO[row, :, :num_queries].numpy(),
        "first": attention.first_BHQ[row, :, :num_queries].numpy(),
        "column": attention.column_BHK[row, :, :num_keys].numpy(),
        "value_norm": attention.value_norm_BHK[row, :, :num_keys].numpy(),
    } | {
        name: masses_BHQM[row, :, :num_queries, index].numpy()
        for names, masses_BHQM in (
            (MASSES, attention.masses_BHQM),
            (NORM_MASSES, attention.norm_masses_BHQM),
        )
        for index, name in enumerate(names)
    }


def _expected(example: Example) -> dict[str, np.ndarray]:
    A, keys = example.A, example.keys
    content = ~np.array(keys.is_special)
    content_only = np.where(content, A, -1)
    norm = np.linalg.norm(np.einsum("hkd,hdm->hkm", example.v, example.W_O), axis=-1)
    sep, punct = np.array(keys.is_sep), np.array(keys.is_punct)
    diagonals = np.zeros((*A.shape[:2], len(OFFSETS)))
    for o, offset in enumerate(OFFSETS):
        for query in range(A.shape[1]):
            if 0 <= query + offset < A.shape[2]:
                diagonals[:, query, o] = A[:, query, query + offset]
    weighted = A * norm[:, None]
    first = np.arange(A.shape[2]) == 0
    return {
        "peak": content_only.max(-1).clip(0),
        "peak_key": content_only.argmax(-1),
        "entropy": -(A * np.log(np.where(A > 0, A, 1))).sum(-1),
        "diagonals": diagonals,
        "first": A[..., 0],
        "column": A.sum(1),
        "value_norm": norm,
        "sep": (A * sep).sum(-1),
        "punct": (A * punct).sum(-1),
        "norm": weighted.sum(-1),
        "norm_first": (weighted * first).sum(-1),
        "norm_sep": (weighted * sep).sum(-1),
        "norm_punct": (weighted * punct).sum(-1),
    }


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ["self", "cross", "long"])
def test_every_reduction_of_every_sentence(name: str, split: tuple[int, int, int]):
    for batch in batches(name):
        attention = attend(batch, split)
        for row, example in enumerate(batch):
            found, has_content = _at(attention, row, example), not all(example.keys.is_special)
            for field, numbers in _expected(example).items():
                if field != "peak_key" or has_content:
                    np.testing.assert_allclose(found[field], numbers, 1e-9, 1e-12, err_msg=field)


@pytest.mark.parametrize("split", SPLITS)
def test_weight_on_the_own_segment(split: tuple[int, int, int]):
    seen = 0
    for batch in batches("self"):
        attention = attend(batch, split)
        own_BHQ, segment_BN = attention.own_segment_BHQ, attention.sides.segment_BN
        keys = [example.keys for example in batch]
        segments = [patterns.segments(side.is_sep, side.is_special) for side in keys]
        assert (own_BHQ is None) == (segment_BN is None) == (max(map(max, segments)) == 0)
        if own_BHQ is None or segment_BN is None:
            continue
        for row, (example, segment_of) in enumerate(zip(batch, segments, strict=True)):
            length = len(segment_of)
            assert segment_BN[row, :length].tolist() == segment_of
            same = np.array(segment_of)[:, None] == np.array(segment_of)
            expected = (example.A * same).sum(-1)
            np.testing.assert_allclose(own_BHQ[row, :, :length], expected, 1e-9, 1e-12)
            seen += 1
    assert seen > 5


@pytest.mark.once
@pytest.mark.parametrize("split", SPLITS)
def test_which_arcs_each_head_predicts(split: tuple[int, int, int]):
    """By the arg-maxima of textbook maps; some words have no piece, many weights are equal."""
    num_hits = 0
    for batch in batches("self"):
        attention = attend(batch, split)
        arcs, hits_AHD = attention.arcs, attention.arc_hits_AHD
        assert arcs is not None and hits_AHD is not None and hits_AHD.shape[2] == len(DIRECTIONS)
        rows = zip(
            arcs.sentence_A.tolist(), arcs.dependent_A.tolist(), arcs.head_A.tolist(), strict=True
        )
        for hits_HD, (row, dependent, governor) in zip(hits_AHD.tolist(), rows, strict=True):
            example = batch[row]
            between = syntactic.word_map(example.A, example.keys.word_of)
            for hits_D, map_WW in zip(hits_HD, between, strict=True):
                expected = [
                    syntactic.most_attended(map_WW[dependent].tolist(), dependent) == governor,
                    syntactic.most_attended(map_WW[governor].tolist(), governor) == dependent,
                    syntactic.most_attended(map_WW[:, dependent].tolist(), dependent) == governor,
                ]
                assert hits_D == expected
                num_hits += sum(hits_D)
    assert num_hits > 100


def test_padding_does_not_count():
    """More padding or a longer sentence in the batch does not change a sentence's numbers."""
    for batch in batches("cross"):
        for example in batch:
            alone, padded = attend([example]), attend([example], padding=5)
            for field, numbers in _at(alone, 0, example).items():
                if field != "peak_key" or not all(example.keys.is_special):
                    np.testing.assert_allclose(
                        _at(padded, 0, example)[field], numbers, err_msg=field
                    )


def test_no_segments_and_no_arcs_where_queries_and_keys_are_two_sequences():
    attention = attend(batches("cross")[0])
    assert attention.own_segment_BHQ is None and attention.sides.segment_BN is None
    assert attention.arc_hits_AHD is None


def test_facts_of_tokens_are_found_in_main_memory_and_copied():
    """What a GPU would be waited for: a tensor on the device "meta" has no numbers to ask for."""
    here, device = attend(batches("self")[-1]).sides, torch.device("meta")
    there = here.to(device)
    assert here.to(torch.device("cpu")) is here and there.host is here and there.is_self
    facts = [there.once(Slots.of), there.segment_BN, there.arcs, there.queries]
    assert there.words is not None and here.words is not None
    facts += [there.words.of_rows(slice(0, 2)), there.counted.special_keys(slice(2), slice(0, 5))]
    found = [each for each in tree_leaves([*map(_parts, facts)]) if isinstance(each, torch.Tensor)]
    assert len(found) > 30 and all(each.device == device for each in found)
    assert there.words.num_words == here.words.num_words
    for name in ("has_padding", "has_content_first"):
        assert getattr(there.counted, name) == getattr(here.counted, name)
    (part,), parts = there.counted.parts(slice(0, 3)), here.counted.parts(slice(0, 3))
    assert part == (slice(0, 3), max(each[1] for each in parts), max(each[2] for each in parts))


def _parts(facts: Any) -> Any:
    return [getattr(facts, each.name) for each in fields(facts)] if is_dataclass(facts) else facts


def test_parts_end_with_their_longest_row(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    queries = tokens([random_side(rng, length) for length in (2, 3, 7, 5, 11)])
    keys = tokens([random_side(rng, length) for length in (13, 1, 2, 3, 5)])
    sides = Sides(queries, keys)
    assert sides.counted.parts(slice(0, 7)) == [(slice(0, 5), 11, 13)]
    monkeypatch.setattr(listener, "MIN_PART", 1)
    parts = [(slice(1, 2), 3, 1), (slice(2, 3), 7, 2), (slice(3, 4), 5, 3)]
    assert sides.counted.parts(slice(1, 4)) == parts
    assert sides.counted.parts(slice(0, 9)) == [
        (slice(0, 2), 3, 13),
        (slice(2, 4), 7, 3),
        (slice(4, 5), 11, 5),
    ]


# ------------------------------------------------------------------ the largest of many weights


@pytest.mark.parametrize("num_keys", [1, 7, 63, 64, 255, 256, 257, 263, 320, 333, 511, 512, 1031])
def test_the_largest_weight_is_the_first_of_equals(num_keys: int):
    generator = torch.Generator().manual_seed(num_keys)
    sharp = torch.rand(3, 5, 11, num_keys, generator=generator)
    tied = torch.randint(-1, 4, (3, 5, 11, num_keys), generator=generator).float()
    flat = torch.zeros(2, 3, 5, num_keys)
    for weights in (sharp, tied, flat, -torch.ones(2, 3, 5, num_keys)):
        peak, key = peaks(weights)
        assert torch.equal(peak, weights.amax(-1))
        assert torch.equal(key, weights.argmax(-1))
        np.testing.assert_array_equal(key, np.argmax(weights.numpy(), -1))


@settings(max_examples=50)
@given(st.integers(256, 400), st.data())
def test_a_single_peak_is_found_anywhere(num_keys: int, data: st.DataObject):
    places = data.draw(st.lists(st.integers(0, num_keys - 1), min_size=1, max_size=4))
    weights = torch.zeros(1, 1, 1, num_keys)
    weights[..., places] = 0.5
    peak, key = peaks(weights)
    assert (float(peak), int(key)) == (0.5, min(places))


# ------------------------------------------------------------------ keys that are left out


@pytest.mark.parametrize("begin", [0, 1, 3])
def test_unseen_keys_that_are_left_out_change_nothing(begin: int) -> None:
    """Where all seen weights are on special keys, the largest is on the first content key."""
    needs = set(Reduction) - {Reduction.ARC_HITS, Reduction.WORD_LOOKS}
    reducer, weights = _reducer(needs=needs)
    partial, _ = _reducer(needs=needs)
    seen = slice(begin, 5)
    weights[..., :begin] = weights[..., 5:] = 0
    is_content_BK = reducer.sides.keys.is_content_BN
    weights[:, 2] *= ~is_content_BK[:, None]  # a head that looks at special tokens only
    whole = reduced(reducer, weights, (2, 7, 7))
    everything = (slice(0, 2), slice(0, 7), slice(0, 7))
    columns = partial.statistics.columns_BHKC
    assert columns is not None
    block = weights[..., seen].clone()
    feed(partial, Block(partial.layer, *everything, block, weights @ columns, begin, 7))
    cut = partial.attention()
    for reduction in needs:
        torch.testing.assert_close(cut.reduced[reduction], whole.reduced[reduction])


def test_the_earliest_key_wins_a_tie_with_the_first_token_too() -> None:
    rng = np.random.default_rng(4)
    side = tokens([random_side(rng, 6) for _ in range(12)])
    layer = AttentionLayer("decoder.self", 0, "m", 0, NUM_HEADS, NUM_HEADS, HEAD_DIM, "o")
    values = torch.zeros(12, NUM_HEADS, 6, HEAD_DIM)
    needs = {Reduction.PEAK, Reduction.PEAK_KEY, Reduction.PEAK_LATER}
    reducer = AttentionReducer(layer, Sides(side, side), None, values, needs)
    attention = reduced(reducer, torch.full((12, NUM_HEADS, 6, 6), 1 / 6), (5, 2, 3))
    is_content_BK = side.is_content_BN.clone()
    assert is_content_BK[:, 0].any() and not is_content_BK[:, 0].all()
    assert (attention.peak_key_BHQ == is_content_BK.long().argmax(1)[:, None, None]).all()
    is_content_BK[:, 0] = False
    assert (attention.peak_later_BHQ == is_content_BK.long().argmax(1)[:, None, None]).all()


# ------------------------------------------------------------------ numbers that are not finite


def _reducer(
    length: int = 7, needs: Collection[Reduction] = tuple(Reduction), broken: float = 0
) -> tuple[AttentionReducer, Tensor]:
    """A reducer and weights; a number may be added to one of the values of head 3."""
    rng = np.random.default_rng(2)
    side = tokens([random_side(rng, length), random_side(rng, length - 2)])
    layer = AttentionLayer("decoder.self", 4, "some.module", 0, NUM_HEADS, NUM_HEADS, HEAD_DIM, "o")
    values = torch.tensor(rng.normal(size=(2, NUM_HEADS, length, HEAD_DIM)))
    weights = torch.tensor(rng.random((2, NUM_HEADS, length, length))).softmax(-1)
    roots = torch.tensor(rng.normal(size=(NUM_HEADS, HEAD_DIM, HEAD_DIM)))
    values[1, 3, 4, 1] += broken
    return AttentionReducer(layer, Sides(side, side), roots, values, set(needs)), weights


@pytest.mark.parametrize("needs", [tuple(Reduction), (Reduction.PEAK,), ()])
def test_names_the_head_whose_weights_are_not_numbers(needs: Collection[Reduction]):
    reducer, weights = _reducer(needs=needs)
    weights[1, 5, 2] = torch.nan
    weights[0, 6, 1] = torch.nan
    with pytest.raises(ModelError) as refusal:
        reduced(reducer, weights, (1, 2, 3))
    message = str(refusal.value)
    assert "NaN or infinity in head dec.4.5 (2 of the layer's 7 heads have some)" in message
    assert "Check the parameters of some.module" in message


@pytest.mark.parametrize("needs", [tuple(Reduction), (Reduction.PEAK,), ()])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_names_the_head_whose_values_are_not_finite(number: float, needs: Collection[Reduction]):
    reducer, weights = _reducer(needs=needs, broken=number)
    with pytest.raises(ModelError, match=r"NaN or infinity in head dec\.4\.3 \(1 of the layer's 7"):
        reduced(reducer, weights, (1, 2, 3))


def test_finite_numbers_pass():
    reducer, weights = _reducer()
    assert reduced(reducer, weights, (1, 2, 3)).peak_BHQ.isfinite().all()
