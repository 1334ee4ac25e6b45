"""Every measure obeys the laws of sums."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headcount.corpora import Batch, Sentence
from headcount.measures import (
    Attention,
    Confidence,
    LearnedSink,
    Sums,
    confidence_variant,
    reducer,
    reductions,
    streaming,
)
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import Measuring, Totals
from headcount.tap import BLOCKS, AttentionLayer, Kernel, Reduction, Tap, listener, seen_keys
from headcount.tap.kernel_sweep import Sweep
from headcount.tap.kernel_triton import IS_INTERPRETED, Triton
from headcount.testing import laws
from tests import tiny
from tests.examined import examined, examined_double
from tests.measures.cases import (
    NUM_HEADS,
    Example,
    Side,
    arcs,
    attend,
    batches,
    random_side,
    random_tree,
    tokens,
)

LONGEST = 23


def _parts(measure: type[Sums], groups: list[list[Example]]) -> list[Sums]:
    return laws.of_all(measure, [attend(group) for group in groups])


@pytest.mark.once
@pytest.mark.parametrize("measure", MEASURES)
def test_obeys_the_laws(measure: type[Sums], tmp_path: Path):
    examples = [example for batch in batches("self") for example in batch]
    whole = measure.of(attend(examples))
    for groups in (batches("self"), [[example] for example in examples]):
        laws.assert_adds(whole, _parts(measure, groups))
    laws.assert_neutral(whole, measure.of(attend([_nothing(examples[0])])))
    laws.assert_round_trip(whole, tmp_path)
    laws.assert_columns(whole, NUM_HEADS, nats=float(np.log(LONGEST)))


@pytest.mark.parametrize("measure", MEASURES)
def test_obeys_the_laws_in_cross_attention(measure: type[Sums], tmp_path: Path):
    examples = [example for batch in batches("cross") for example in batch]
    attention = attend(examples)
    if not measure.applies(attention):
        assert attention.arcs is None
        return
    whole = measure.of(attention)
    laws.assert_adds(whole, _parts(measure, [[example] for example in examples]))
    laws.assert_round_trip(whole, tmp_path)
    nats = float(np.log(LONGEST))
    laws.assert_columns(whole, NUM_HEADS, nats, unknown=["pattern_block"])  # without segments


# ------------------------------------------------------------------ what a measure needs

VARIANTS = tuple(
    confidence_variant(keys, queries) for keys in (True, False) for queries in (True, False)
)
EVERY = (*MEASURES, LearnedSink, *VARIANTS[1:])


@pytest.mark.once
@pytest.mark.parametrize("name", ["self", "cross", "long"])
@pytest.mark.parametrize("measure", EVERY)
def test_its_own_needs_give_the_same_bits(measure: type[Sums], name: str) -> None:
    for batch in batches(name):
        for split in ((100, 100, 100), (2, 3, 4)):
            everything, alone = attend(batch, split), attend(batch, split, needs=measure.needs)
            if measure.applies(everything):
                laws.assert_same_sums(measure.of(alone), measure.of(everything), rtol=0)


@pytest.mark.parametrize("measure", EVERY)
def test_a_missing_declaration_is_named(measure: type[Sums]) -> None:
    attention = attend(batches("self")[0])
    assert measure.needs
    for missing in measure.needs:
        its = attention.read_by(measure.__name__, measure.needs - {missing})
        message = f"{measure.__name__} reads .* Add Reduction.{missing.name} to its `needs`"
        with pytest.raises(AssertionError, match=message):
            measure.of(its)


def test_what_nobody_needs_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("not needed")

    monkeypatch.setattr(reducer, "value_norms", refuse)
    monkeypatch.setattr(reductions, "segments", refuse)
    monkeypatch.setattr(reducer.ArcHits, "__init__", refuse)
    monkeypatch.setattr(AttentionLayer, "output_root", refuse)
    attention = attend(batches("self")[0], needs=Confidence.needs)
    assert attention.reduced.keys() == {Reduction.PEAK, Reduction.FIRST}, "finite by FIRST"
    batch = _batch(5, (11, 6, 2))
    alone = _totals(batch, 2**19, [Confidence])
    monkeypatch.undo()
    everything = _totals(batch, 2**19)
    for key, sums in alone.sums.items():
        laws.assert_same_sums(sums, everything.sums[key], rtol=1e-12)


@pytest.mark.parametrize("name", ["self", "cross", "long"])
def test_cutting_padding_off_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in batches(name):
        attention = attend(batch)
        with monkeypatch.context() as patch:
            patch.setattr(listener, "MIN_PART", 1)
            in_parts = attend(batch)
        for measure in MEASURES:
            if measure.applies(attention):
                laws.assert_same_sums(measure.of(in_parts), measure.of(attention), rtol=1e-12)


@pytest.mark.slow
@settings(max_examples=8)
@given(order=st.permutations(range(17)), cuts=st.sets(st.integers(1, 16)), size=st.integers(2, 9))
def test_any_order_and_any_cut(order: list[int], cuts: set[int], size: int):
    examples = [example for batch in batches("self") for example in batch]
    ends = [0, *sorted(cuts), 17]
    groups = [
        [examples[i] for i in order[start:end]] for start, end in zip(ends, ends[1:], strict=False)
    ]
    parts = [attend(group, split=(size, 4, size)) for group in groups]
    whole = attend(examples)
    for measure in MEASURES:
        added = reduce(lambda a, b: a + b, map(measure.of, parts))
        laws.assert_same_sums(added, measure.of(whole), rtol=1e-12)


def _nothing(like: Example) -> Example:
    """A row in which no token counts."""
    none = Side([], [], [], [], [], [], [])
    heads, dims = like.W_O.shape[:2]
    return Example(
        np.zeros((heads, 0, 0)), np.zeros((heads, 0, dims)), like.W_O, none, none, [], []
    )


def _batch(seed: int, lengths: tuple[int, ...]) -> Batch:
    rng = np.random.default_rng(seed)
    inputs = tiny.inputs(examined_double("llama")[0], lengths, seed=seed)
    rows = zip(inputs["input_ids"].tolist(), lengths, strict=True)
    sides = [random_side(rng, length, ids[:length]) for ids, length in rows]
    trees = arcs([random_tree(rng, side) for side in sides])
    return Batch(inputs, tokens(sides), None, trees, tuple(Sentence("") for _ in lengths))


def _totals(
    batch: Batch, block: int, measures: Sequence[type[Sums]] = MEASURES, name: str = "llama"
) -> Totals:
    return _totals_of(batch, block, measures, name).split()


def _totals_of(
    batch: Batch,
    block: int = 2**19,
    measures: Sequence[type[Sums]] = MEASURES,
    name: str = "llama",
    kernel: Kernel | None = None,
) -> Totals:
    """The sums of a batch as they are taken, with the layers of a site together.

    With a kernel the model is in float32.
    """
    model, anatomy = examined_double(name) if kernel is None else examined(name)
    listener = Measuring(model, anatomy, measures)
    listener.start(batch)
    tap = Tap(model, anatomy, listener, block=block, kernel=kernel or BLOCKS)
    with torch.inference_mode(), tap:
        model.base_model(**batch.inputs)
    return listener.part()


@pytest.mark.once
@pytest.mark.parametrize("block", [1, 7, 50, 1000])
def test_blocks_of_any_size_give_the_same_sums(block: int):
    batch = _batch(5, (11, 6, 2))
    whole, cut = _totals(batch, 2**19), _totals(batch, block)
    assert whole.sums.keys() == cut.sums.keys() and len(whole.sums) == 2 * len(MEASURES)
    for key, sums in whole.sums.items():
        laws.assert_same_sums(cut.sums[key], sums, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("with_trees", [True, False])
@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
@pytest.mark.parametrize("block", [50, 2**19])
def test_leaving_unseen_keys_out_gives_the_same_sums(
    name: str, with_trees: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in windows, which begin later, and without arcs, which need whole maps."""
    for lengths in ((11, 6, 2), (23,)):
        batch, measures = _batch(5, lengths), EVERY
        batch = batch if with_trees else replace(batch, arcs=None)
        whole = _totals(batch, block, measures, name)
        with monkeypatch.context() as patch:
            patch.setattr(seen_keys, "LEAST", 1)
            seen = _totals(batch, block, measures, name)
        assert whole.sums.keys() == seen.sums.keys()
        for key, sums in whole.sums.items():
            laws.assert_same_sums(seen.sums[key], sums, rtol=1e-12)


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_layers_measured_at_once_give_the_same_sums(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lengths in ((11, 6, 2), (23,)):
        together = _totals(_batch(5, lengths), 2**19, EVERY, name)
        with monkeypatch.context() as patch:
            patch.setattr(streaming, "HELD", 0)
            alone = _totals(_batch(5, lengths), 2**19, EVERY, name)
        assert together.sums.keys() == alone.sums.keys()
        for key, sums in alone.sums.items():
            laws.assert_same_sums(together.sums[key], sums, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "bert"])
def test_every_measure_with_the_sweep(name: str) -> None:
    """The sums are those of the blocks, in blocks of any size, and of parts of a batch."""
    sweep = Sweep()
    for lengths in ((11, 6, 2), (23,)):
        batch = _batch(5, lengths)
        expected = _totals_of(batch, 2**19, EVERY, name, BLOCKS).split()
        for block in (50, 2**19):
            found = _totals_of(batch, block, EVERY, name, sweep).split()
            assert found.sums.keys() == expected.sums.keys()
            for key, sums in expected.sums.items():
                laws.assert_same_sums(found.sums[key], sums, rtol=2e-5)
    whole, other = (_totals_of(_batch(seed, (7, 5)), kernel=sweep).split() for seed in (5, 6))
    for key, sums in (whole + other).sums.items():
        laws.assert_same_sums(other.sums[key] + whole.sums[key], sums, rtol=1e-12)


@pytest.mark.skipif(not IS_INTERPRETED, reason="needs triton and TRITON_INTERPRET=1: make kernels")
@pytest.mark.parametrize("name", ["llama", "gemma2", "bert"])
def test_every_measure_with_triton(name: str) -> None:
    """The sums are those of the blocks; batches with trees are the blocks'."""
    kernel, with_trees = Triton(), _batch(5, (11, 6, 2))
    for batch in (replace(with_trees, arcs=None), with_trees):
        assert not kernel.left
        expected = _totals_of(batch, 2**19, EVERY, name, BLOCKS).split()
        found = _totals_of(batch, 2**19, EVERY, name, kernel).split()
        assert found.sums.keys() == expected.sums.keys()
        for key, sums in expected.sums.items():
            laws.assert_same_sums(found.sums[key], sums, rtol=2e-5)
    kernel.check()
    assert kernel.left == {"maps of words or patches are read"}


@pytest.mark.parametrize("measure", MEASURES)
def test_sums_of_joined_heads_split_and_join(measure: type[Sums]) -> None:
    for batch in batches("self"):
        attention = attend(batch)
        whole, sizes = measure.of(attention), (2, 1, NUM_HEADS - 3)
        parts = whole.split(sizes)
        assert {each.shape for each in parts[1].value().values()} <= {(1,)}
        assert _columns(parts[1]) * NUM_HEADS == _columns(whole)
        laws.assert_same_sums(measure.join(parts), whole, rtol=0)


@dataclass(frozen=True)
class _Unnamed(Sums):
    """A measure whose field does not say where heads are."""

    columns = ()
    weight: Tensor

    @classmethod
    def of(cls, attention: Attention) -> "_Unnamed":
        return cls(attention.first_BHQ.sum((0, 2)))

    def value(self) -> dict[str, Tensor]:
        return {}


def test_a_field_without_named_axes_is_refused() -> None:
    unnamed = _Unnamed(torch.ones(3))
    message = "type of _Unnamed.weight names no axes. Name them"
    with pytest.raises(AssertionError, match=message):
        unnamed.split((1, 2))
    with pytest.raises(AssertionError, match=message):
        _Unnamed.join([unnamed, unnamed])


def _columns(sums: Sums) -> int:
    """Number of columns of all moments."""
    return sum(each.shape[-1] for name, each in sums.state().items() if name.endswith(".squares"))


def test_totals_of_a_state_go_on_as_those_that_were_not_saved() -> None:
    batches_of = [_totals_of(_batch(seed, (7, 5))) for seed in (5, 6, 7)]
    straight = batches_of[0] + batches_of[1] + batches_of[2]
    resumed = (batches_of[0] + batches_of[1]).split() + batches_of[2]
    assert resumed.joined.keys() == straight.joined.keys() and not resumed.sums
    for key, sums in straight.split().sums.items():
        laws.assert_same_sums(resumed.split().sums[key], sums, rtol=0)


def test_totals_add_what_only_one_of_them_has():
    one, other = _totals(_batch(5, (7, 3)), 2**19), _totals(_batch(6, (5,)), 2**19)
    key, *rest = one.sums
    part = Totals({key: one.sums[key]}, 1, 2)
    both = part + other
    assert (both.num_batches, both.num_sentences) == (2, 3)
    assert both.sums.keys() == other.sums.keys()
    laws.assert_same_sums(both.sums[key], one.sums[key] + other.sums[key], rtol=0)
    assert all(both.sums[each] is other.sums[each] for each in rest)
    assert (Totals() + one).sums == dict(one.sums)


def test_sums_of_two_measures_do_not_add():
    attention = attend(batches("cross")[0])
    confidence, entropy = (measure.of(attention) for measure in MEASURES[:2])
    with pytest.raises(AssertionError):
        _ = confidence + entropy
