"""Accuracy and baseline of every relation in every direction are their textbook definition."""

import pandas as pd
import pytest
import torch

from headcount.measures import Syntactic
from headcount.vocabulary import DIRECTIONS
from tests.measures.cases import RELATIONS, Case, batches, cases
from tests.textbook import syntactic

WITH_TREES = ("self", "bert", "gpt2", "llama", "marian")


def _expected(case: Case) -> pd.DataFrame:
    sentences = case.textbook(
        A=lambda e: e.A,
        word_of=lambda e: e.keys.word_of,
        heads=lambda e: e.heads,
        relations=lambda e: e.relations,
    )
    rows = [
        (index, relation, direction, accuracy, row.correct[index], row.cases, row.baseline, offset)
        for (relation, direction), row in syntactic.over_corpus(sentences).items()
        for index, accuracy in enumerate(row.accuracy)
        for offset in [row.baseline_offset]
    ]
    names = "index relation direction accuracy correct cases baseline baseline_offset".split()
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize("name", WITH_TREES)
def test_is_the_textbook(name: str):
    with_trees = [case for case in cases(name) if Syntactic in case.sums]
    assert with_trees
    for case in with_trees:
        sums = case.sums[Syntactic]
        assert isinstance(sums, Syntactic)
        keys = ["relation", "direction", "index"]
        found, expected = sums.table(RELATIONS), _expected(case)
        assert {*found.columns} == {*expected.columns}
        expected = expected.set_index(keys).sort_index()
        pd.testing.assert_frame_equal(
            found.set_index(keys).sort_index(), expected, rtol=1e-9, check_like=True
        )
        assert max(found["correct"]) > 0 and min(found["accuracy"]) < 1


def test_applies_to_self_attention_of_the_source_only():
    places = {len(case.sums): Syntactic in case.sums for case in cases("marian")}
    assert places == {11: True, 9: False}
    assert sum(Syntactic in case.sums for case in cases("marian")) == 2


def test_the_sentences_have_words_of_several_pieces_and_words_of_none():
    sides = [example.keys for batch in batches("self") for example in batch]
    pieces = [
        sum(word == other for other in side.word_of)
        for side in sides
        for word in range(max(side.word_of, default=-1) + 1)
    ]
    assert {0, 1, 2, 3, 4} >= set(pieces) >= {0, 1, 2}


def test_rows_are_in_the_order_of_relations_directions_and_heads():
    table = Syntactic.table(_sums(), ("amod", "never", "obj"))
    assert table["relation"].tolist() == ["amod"] * 6 + ["obj"] * 6 + ["all"] * 6
    assert table["direction"].tolist() == [each for each in DIRECTIONS for _ in range(2)] * 3
    assert table["index"].tolist() == [0, 1] * 9


def test_baseline_points_the_other_way_from_the_head_and_prefers_the_nearest_offset():
    table = Syntactic.table(_sums(), ("amod", "never", "obj")).drop_duplicates(
        ["relation", "direction"]
    )
    # amod: 2 arcs at offset -1, 2 at +1, 3 at +2 of 7; obj: one arc at -2, one at +1
    assert table["baseline_offset"].tolist() == [2, -2, 2, 1, -1, 1, 1, -1, 1]
    assert table["baseline"].tolist() == pytest.approx([3 / 7] * 3 + [1 / 2] * 3 + [3 / 13] * 3)
    assert table["cases"].tolist() == [7] * 3 + [2] * 3 + [9 + 4] * 3


def _sums() -> Syntactic:
    offsets = torch.tensor([[0, 2, 0, 2, 3], [0, 0, 0, 0, 0], [1, 0, 0, 1, 0]])
    return Syntactic(torch.ones(3, 2, 3).double(), offsets, torch.tensor(4), torch.zeros(3).long())
