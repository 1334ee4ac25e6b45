"""The slow versions against numbers worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest

from tests.textbook import (
    confidence,
    entropy,
    norms,
    patterns,
    positional,
    rare,
    surface,
    syntactic,
)

# One head; tokens: [CLS] a b [SEP].
MAP = np.array([[[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.0, 0.5], [1.0, 0, 0, 0]]])
IS_SPECIAL = [True, False, False, True]
# A second, shorter sentence: [CLS] a [SEP].
SHORT = np.array([[[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]])
SHORT_IS_SPECIAL = [True, False, True]
TWO = [
    {"A": MAP, "query_is_special": IS_SPECIAL, "key_is_special": IS_SPECIAL},
    {"A": SHORT, "query_is_special": SHORT_IS_SPECIAL, "key_is_special": SHORT_IS_SPECIAL},
]


def test_confidence():
    assert confidence.of_sentence(**TWO[0]) == ([0.3 + 0.5], 2)
    assert confidence.over_corpus(TWO) == [pytest.approx((0.3 + 0.5 + 0.5) / 3)]


def test_confidence_with_other_keys_than_queries():
    A = np.array([[[0.6, 0.3, 0.1]], [[0.1, 0.4, 0.5]]])
    sums, tokens = confidence.of_sentence(A, [False], [True, False, False])
    assert (sums, tokens) == ([0.3, 0.5], 1)


def test_entropy():
    A = np.array([[[0.5, 0.5, 0], [1, 0, 0]]])
    assert entropy.of_sentence(A) == ([pytest.approx(math.log(2))], 2)
    uniform = {"A": np.full((1, 1, 4), 0.25)}
    assert entropy.over_corpus([{"A": A}, uniform]) == [pytest.approx(math.log(2))]


def test_positional():
    assert positional.of_sentence(**TWO[0]) == [{1: 1, -1: 1}]
    (profile,) = positional.over_corpus(TWO)
    assert profile == {-1: 1 / 3, 0: 1 / 3, 1: 1 / 3}
    assert positional.best(profile) == (0, 1 / 3)


def test_positional_ties():
    A = np.array([[[0.4, 0.4, 0.2]] * 3])
    assert positional.of_sentence(A, [False] * 3, [False] * 3) == [{0: 1, -1: 1, -2: 1}]
    assert positional.best({2: 0.25, -1: 0.25, 1: 0.25, 3: 0.25}) == (-1, 0.25)
    assert positional.best({-2: 0.5, 1: 0.5}) == (1, 0.5)
    assert positional.best({-5: 0.6, 0: 0.4}) == (-5, 0.6)


def test_surface():
    sums, tokens = surface.of_sentence(MAP, [False, False, False, True], [False, True, True, False])
    assert tokens == 4
    assert sums["self"] == [pytest.approx(0.7 + 0.2 + 0.0 + 0.0)]
    assert sums["prev"] == [pytest.approx(0.1 + 0.5 + 0.0)]
    assert sums["next"] == [pytest.approx(0.1 + 0.3 + 0.5)]
    assert sums["first"] == [pytest.approx(0.7 + 0.1 + 0.0 + 1.0)]
    assert sums["sep"] == [pytest.approx(0.1 + 0.4 + 0.5 + 0.0)]
    assert sums["punct"] == [pytest.approx(0.2 + 0.5 + 0.5 + 0.0)]


def test_surface_over_a_corpus_with_more_queries_than_keys():
    A = np.array([[[0.6, 0.4], [0.5, 0.5], [0.2, 0.8]]])
    sentence = {"A": A, "key_is_sep": [False, True], "key_is_punct": [False, False]}
    values = surface.over_corpus([sentence])
    assert values["self"] == [pytest.approx((0.6 + 0.5) / 3)]
    assert values["prev"] == [pytest.approx((0.5 + 0.8) / 3)]
    assert values["next"] == [pytest.approx(0.4 / 3)]
    assert values["sep"] == [pytest.approx(1.7 / 3)]
    assert values["punct"] == [0]


def test_rarest():
    counts = {7: 9, 8: 3, 9: 3, 4: 1}
    assert [rare.rank(token, counts) for token in (7, 8, 9, 4, 99)] == [0, 1, 2, 3, 4]
    free = [False] * 4
    assert rare.rarest([9, 7, 8, 9], free, counts, top=2) == [0, 2]
    assert rare.rarest([7, 8, 9, 7], free, counts, top=2) == []
    assert rare.rarest([4, 7, 8, 4], [True, False, False, True], counts, top=1) == [2, 1]
    assert rare.rarest([4, 9], [True, False], counts, top=1) == [1]
    assert rare.rarest([4], [True], counts, top=1) == []


def test_rare():
    A = np.array(
        [
            [
                [0.1, 0.6, 0.2, 0.1],
                [0.0, 0.3, 0.3, 0.4],
                [0.0, 0.1, 0.2, 0.7],
                [0.1, 0.2, 0.3, 0.4],
            ],
            [
                [0.9, 0.1, 0.0, 0.0],
                [0.9, 0.0, 0.1, 0.0],
                [0.9, 0.0, 0.0, 0.1],
                [1.0, 0.0, 0.0, 0.0],
            ],
        ]
    )
    special = [True, False, False, False]
    sentence = {"A": A, "query_is_special": special, "key_is_special": special, "top": 2}
    counts = {1: 50, 10: 9, 11: 5, 12: 2}
    # rarest at 3, then at 1; the arg-maxima are 3, 3, 3 and 2, 3, 1 (equal weights: the earlier)
    rare_one = sentence | {"key_ids": [1, 11, 10, 12], "counts": counts}
    assert rare.of_sentence(**rare_one) == ([3, 1], [3, 2], 3)
    common = sentence | {"key_ids": [1, 10, 10, 10], "counts": counts}
    assert rare.of_sentence(**common) == ([0, 0], [0, 0], 0)
    assert rare.over_corpus([common, rare_one]) == ([1, 1 / 3], [1, 2 / 3], 3)
    at_rarest, _, cases = rare.over_corpus([common])
    assert cases == 0 and all(math.isnan(share) for share in at_rarest)


def test_words_from_pieces():
    A = np.array([[[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.2, 0.2, 0.5, 0.1], [0, 0, 0, 1]]])
    between = syntactic.word_map(A, [-1, 0, 0, 1])
    assert between[0] == pytest.approx(np.array([[0.6, 0.1], [0.0, 1.0]]))


def _arcs(A: np.ndarray) -> dict[str, Any]:
    """`the dog barks`: the <- dog (det), dog <- barks (nsubj)."""
    return {
        "A": A,
        "word_of": [0, 1, 2],
        "heads": [1, 2, -1],
        "relations": ["det", "nsubj", "root"],
    }


def test_syntactic():
    A = np.array([[[0.0, 0.4, 0.6], [0.5, 0.3, 0.2], [0.1, 0.5, 0.4]]])
    counts = {name: part.correct for name, part in syntactic.of_sentence(**_arcs(A)).items()}
    assert counts == {
        ("det", "dependent->head"): [0],  # the -> barks
        ("det", "head->dependent"): [1],  # dog -> the, its own weight apart
        ("det", "head<-dependent"): [1],  # the is seen most by dog
        ("nsubj", "dependent->head"): [0],  # dog -> the
        ("nsubj", "head->dependent"): [1],  # barks -> dog
        ("nsubj", "head<-dependent"): [1],  # dog is seen most by barks
        ("all", "dependent->head"): [0],
        ("all", "head->dependent"): [2],
        ("all", "head<-dependent"): [2],
    }


def test_no_weight_predicts_nothing():
    causal = np.array([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.5, 0.3]]])
    counts = {name: part.correct for name, part in syntactic.of_sentence(**_arcs(causal)).items()}
    assert counts[("det", "dependent->head")] == [0]
    assert counts[("det", "head->dependent")] == [1]
    assert counts[("nsubj", "head<-dependent")] == [1]


def test_syntactic_over_a_corpus():
    A = np.array([[[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.5, 0.5, 0.0]]])
    other = _arcs(A) | {"heads": [2, 2, -1], "relations": ["det", "det", "root"]}
    rows = syntactic.over_corpus([_arcs(A), other])
    forward = rows[("det", "dependent->head")]
    # offsets 1, then 2 and 1; right for dog-less "the" in the first and for word 1 in the second
    assert (forward.cases, forward.correct) == (3, [2])
    assert forward.accuracy == [pytest.approx(2 / 3)]
    assert (forward.baseline_offset, forward.baseline) == (1, pytest.approx(2 / 3))
    backward = rows[("det", "head->dependent")]
    assert (backward.baseline_offset, backward.baseline) == (-1, pytest.approx(2 / 3))
    assert rows[("det", "head<-dependent")].baseline_offset == 1


def test_norms():
    v = np.array([[[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]])
    W_O = np.array([[[2.0, 0.0, 0.0], [0.0, 0.0, 2.0]]])  # lengths doubled: 10, 2, 0
    A = np.array([[[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]])
    sentence = {"A": A, "v": v, "W_O": W_O}
    facts = {"key_is_sep": [False, False, True], "key_is_punct": [False, True, False]}
    values = norms.over_corpus([sentence | facts])
    assert values["value_norm"] == [pytest.approx(12 / 3)]
    assert values["first"] == [pytest.approx((5 + 1) / (5 + 1 + 1 + 0.4))]
    assert values["punct"] == [pytest.approx(1.4 / 7.4)]
    assert values["sep"] == [0]


def test_vertical():
    M = np.array([[0.5, 0.3, 0.2, 0.0], [0.5, 0.1, 0.4, 0.0]])  # column means .5 .2 .3 0
    assert patterns.vertical(M) == pytest.approx((0.8 - 0.5) / 0.5)
    assert patterns.vertical(np.full((3, 5), 0.2)) == pytest.approx(0)
    assert patterns.vertical(np.array([[0.9, 0.1]])) == 0


def test_diagonal():
    previous = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert patterns.diagonal(previous) == pytest.approx(1)
    assert patterns.diagonal(np.full((3, 3), 1 / 3)) == pytest.approx(0)
    assert patterns.diagonal(np.array([[1.0]])) == 0
    two_ahead = np.array([[0, 0, 0.7, 0.3], [0.1, 0.1, 0.1, 0.7]])
    assert patterns.diagonal(two_ahead) == pytest.approx((0.7 - 0.25) / 0.75)


def test_block():
    is_sep = [False, False, True, False, True]
    segments = patterns.segments(is_sep, is_sep)
    assert segments == [0, 0, 0, 1, 1]
    inside = np.array([[1 / 3] * 3 + [0, 0]] * 3 + [[0, 0, 0, 0.5, 0.5]] * 2)
    assert patterns.block(inside, segments) == pytest.approx(1)
    assert patterns.block(np.full((5, 5), 0.2), segments) == pytest.approx(0)
    assert patterns.block(np.eye(3), [0, 0, 0]) == 0
    # own mass .6 .6 .6 .5 .5, own size .6 .6 .6 .4 .4
    mixed = np.array([[0.2] * 5] * 3 + [[0.5, 0, 0, 0.5, 0]] * 2)
    assert patterns.block(mixed, segments) == pytest.approx((0.56 - 0.52) / 0.48)


def test_segments_end_with_what_is_special():
    roberta = [True, False, True, True, False, True]  # <s> a </s></s> b </s>
    assert patterns.segments([False, *roberta[1:]], roberta) == [0, 0, 0, 0, 2, 2]
    mbart = [False, True, True]  # a </s> en_XX
    assert patterns.segments([False, True, False], mbart) == [0, 0, 0]


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ((0.2, 0.2, 0.9), "vertical_diagonal"),
        ((0.9, 0.2, 0.0), "vertical_diagonal"),
        ((0.4, 0.19, 0.9), "vertical"),
        ((0.19, 0.4, 0.9), "diagonal"),
        ((0.19, 0.39, 0.4), "block"),
        ((0.39, 0.19, 0.39), "heterogeneous"),
    ],
)
def test_rule(features: tuple[float, float, float], name: str):
    assert patterns.pattern(*features) == name


def test_patterns_of_a_sentence():
    itself = np.eye(4)
    flat = np.full((4, 4), 0.25)
    halves = np.kron(np.eye(2), np.full((2, 2), 0.5))
    A = np.array([itself, flat, halves])
    split, strict = [0, 0, 1, 1], {"diagonal": 1.1}
    assert patterns.of_sentence(A, split) == ["diagonal", "heterogeneous", "block"]
    assert patterns.of_sentence(A, split, strict) == ["block", "heterogeneous", "block"]
    assert patterns.of_sentence(A, None) == ["diagonal", "heterogeneous", "heterogeneous"]


def test_a_stripe_is_a_diagonal_too_when_the_sentence_is_short():
    """One cell of the column lies on the diagonal two back, which has only `length - 2` cells."""
    for length, name in ((4, "vertical_diagonal"), (5, "vertical")):
        sink = np.array([[1.0] + [0.0] * (length - 1)] * length)
        assert patterns.of_sentence(sink[None], [0] * length) == [name]


def test_patterns_over_a_corpus():
    sink, flat = np.array([[1.0, 0, 0, 0, 0]] * 5), np.full((3, 3), 1 / 3)
    sentences = [{"A": np.array([M]), "segment_of": [0] * len(M)} for M in (sink, flat, flat)]
    (shares,) = patterns.over_corpus(sentences)
    assert math.isnan(shares.pop("block"))
    halves = {"A": np.array([np.kron(np.eye(2), np.full((2, 2), 0.5))]), "segment_of": [0, 0, 1, 1]}
    assert patterns.over_corpus([*sentences, halves])[0]["block"] == 1 / 4
    assert shares == {name: 0 for name in patterns.PATTERNS if name != "block"} | {
        "vertical": pytest.approx(1 / 3),
        "heterogeneous": pytest.approx(2 / 3),
    }
