"""Sentences that show a role and their marked word pairs; maps are made by hand."""

import base64
from dataclasses import replace

import numpy as np
import torch

from headcount.analysis.examples import Drawn, Side, best
from headcount.core import encoded
from headcount.corpora import Sentence, Tree
from headcount.measures.word_maps import GroupedMap
from headcount.results import Role
from headcount.tap import AttentionLayer, Block

WORDS = ("the", "dog", "barks")
TREE = Tree(heads=(1, 2, -1), relations=("det", "nsubj", "root"), tags=("DET", "NOUN", "VERB"))
SIDE = Side(
    labels=["[CLS]", *WORDS, "[SEP]"],
    word=np.array([-1, 0, 1, 2, -1]),
    is_content=np.array([False, True, True, True, False]),
    rarest=2,
    segment=np.zeros(5),
    label_of={0: 1, 1: 2, 2: 3},
)


def drawn(*targets: int) -> Drawn:
    """One head that puts each label's weight on one label, and a little on [CLS]."""
    weights_HQK = np.zeros((1, 5, 5))
    weights_HQK[0, range(5), targets] = 0.75
    weights_HQK[0, :, 0] += 0.25
    sentence = Sentence(" ".join(WORDS), WORDS, TREE)
    return Drawn(sentence, SIDE, SIDE, weights_HQK)


def test_positional_shows_where_it_points_at_the_offset() -> None:
    after, before = drawn(1, 2, 3, 4, 4), drawn(0, 0, 1, 2, 3)
    role = Role("positional", "", 1.0, offset=-1)
    first, second = best([after, before], 0, role)
    # "barks" looks at [SEP] in one map and "the" at [CLS] in the other: special tokens do not count
    assert first.arcs == ((2, 1), (3, 2)) and first.caption == "offset −1: 2 of 3"
    assert second.arcs == ()


def test_syntactic_directions() -> None:
    right = drawn(0, 2, 3, 2, 0)  # the -> dog -> barks -> dog
    for direction, arcs in {
        "dependent->head": [(2, 3)],
        "head->dependent": [(3, 2)],
        "head<-dependent": [(3, 2)],
    }.items():
        role = Role("syntactic", "", 0.2, relation="nsubj", direction=direction)
        (shown,) = best([right], 0, role)
        assert list(shown.arcs) == arcs
    # "the" and "barks" look most at "dog" of all words; "the" comes first
    assert shown.caption == "nsubj head<-dependent: 0 of 1"
    role = Role("syntactic", "", 0.2, relation="nsubj", direction="dependent->head")
    assert best([right], 0, role)[0].caption == "nsubj dependent->head: 1 of 1"
    assert best([right], 0, Role("syntactic", "", 0.2, relation="obj", direction="")) == []


def test_arcs_inside_a_merged_word_are_not_shown() -> None:
    """Two words may stand under one label; arcs to either lead to it."""
    one = drawn(0, 0, 2, 1, 0)
    word = np.array([-1, 0, 0, 1, -1])
    merged = replace(SIDE, word=word, label_of={0: 1, 1: 1, 2: 3})
    shown = replace(one, queries=merged, keys=merged)
    det = Role("syntactic", "", 0.2, relation="det", direction="dependent->head")
    subject = replace(det, relation="nsubj", direction="head->dependent")
    assert best([shown], 0, det) == []
    assert best([shown], 0, subject)[0].caption == "nsubj head->dependent: 1 of 1"


def test_rare_sink_and_no_role() -> None:
    (rare,) = best([drawn(0, 2, 3, 2, 0)], 0, Role("rare", "", 0.6))
    assert rare.arcs == ((1, 2), (3, 2)) and rare.caption == "rarest: dog: 2 of 3"
    sink = drawn(0, 0, 0, 0, 0)
    (shown,) = best([sink], 0, Role("sink", "", 0.9))
    assert shown.caption == "100\u202f% of attention on [CLS]"
    (shown,) = best([drawn(0, 2, 3, 2, 0)], 0, None)
    assert shown.role == "none" and shown.caption == "mean largest weight 0.75"


def test_block_shows_weight_on_the_own_segment() -> None:
    one = drawn(0, 0, 3, 2, 4)  # each label puts a quarter on [CLS]
    role = Role("block", "", 0.6)
    assert best([one], 0, role) == []
    two = replace(SIDE, segment=np.array([0, 0, 2, 2, 2]))
    (shown,) = best([replace(one, queries=two, keys=two)], 0, role)
    assert (
        shown.caption == "85\u202f% of attention within its own segment"
    )  # 1, 1 and three times 3/4


def test_weights_are_bytes_row_by_row() -> None:
    one = drawn(0, 2, 3, 2, 0)
    (shown,) = best([one], 0, None)
    weights = np.frombuffer(base64.b64decode(encoded(shown)["weights"]), np.uint8).reshape(5, 5)
    np.testing.assert_allclose(weights / 255, one.weights_HQK[0], atol=0.5 / 255)


# ------------------------------------------------------------------ groups of tokens


def test_a_map_between_groups_sums_keys_and_averages_queries():
    """Different groups on either side, tokens in no group, a group without tokens, two blocks."""
    rng = np.random.default_rng(0)
    A = rng.random((2, 3, 5, 7))
    query_group = torch.tensor([[0, 0, -1, 2, 2], [1, -1, 0, 0, 0]])
    key_group = torch.tensor([[-1, 0, 0, 1, 3, 3, 3], [2, 2, -1, -1, 0, 1, 1]])
    grouped = GroupedMap(query_group, key_group, 3, torch.float64)
    layer = AttentionLayer("decoder.cross", 0, "", 0, 3, 3, 2, None)
    for row in range(2):
        for query in (slice(0, 2), slice(2, 6)):
            cut = slice(row, row + 1), slice(0, 3), query
            weights = torch.tensor(A[cut])
            grouped.block(Block(layer, *cut, weights, weights[..., :0]))
    for row in range(2):
        for q in range(3):
            for k in range(4):
                queries = (query_group[row] == q).nonzero().flatten().tolist()
                keys = (key_group[row] == k).nonzero().flatten().tolist()
                rows = A[row][:, queries][:, :, keys].sum(-1)
                expected = rows.mean(-1) if queries else np.zeros(3)
                np.testing.assert_allclose(grouped.map_BHWW[row, :, q, k], expected, atol=1e-12)
