"""Arcs between words: small maps made by hand."""

import torch
from torch import Tensor

from headcount.corpora import Arcs, Tokens
from headcount.measures.arcs import ArcHits, Words
from headcount.tap import AttentionLayer, Block

LAYER = AttentionLayer("encoder.self", 0, "", 0, 1, 1, 2, None)


def hits(word_of: list[int], arcs: list[tuple[int, int]], map_NN: list[list[float]]) -> list:
    """The hits of one head on one sentence without special tokens, by arc."""
    here = torch.ones(1, len(word_of), dtype=torch.bool)
    ids = torch.zeros(1, len(word_of), dtype=torch.long)
    rarest = torch.zeros(1, 2, dtype=torch.long)
    words_of = torch.tensor([word_of])
    tokens = Tokens(
        ids, here, here, ~here, ~here, words_of, rarest, ids, ~here, ids, ids, ids[:, 0]
    )
    dependent, head = torch.tensor(arcs).T
    none = torch.zeros_like(head)
    words = Words(tokens, Arcs(none, dependent, head, none, none.bool(), 1, 0), here)
    finder, weights = ArcHits(words, 1), torch.tensor([[map_NN]])
    everything = slice(0, 1), slice(0, 1), slice(0, len(word_of))
    finder.block(Block(LAYER, *everything, weights, weights[..., :0]))
    return finder.hits()[:, 0].tolist()


def test_the_first_of_equal_weights_counts():
    map_NN = [[0.2, 0.4, 0.4], [0.3, 0.4, 0.3], [0.4, 0.4, 0.2]]
    # The row of 0 has a tie between 1 and 2, the column of 1 between 0 and 2
    assert hits([0, 1, 2], [(0, 1), (0, 2)], map_NN)[0] == [True, True, False]
    assert hits([0, 1, 2], [(0, 1), (0, 2)], map_NN)[1] == [False, True, True]
    assert hits([0, 1, 2], [(1, 0), (1, 2)], map_NN) == [[True, True, True], [False, False, False]]


def test_pieces_are_added_as_keys_and_averaged_as_queries():
    """Word 1 has two pieces: together they weigh more than word 2, but their queries do not."""
    map_NN = [
        [0.1, 0.25, 0.25, 0.4],
        [0.3, 0.0, 0.6, 0.1],
        [0.3, 0.5, 0.1, 0.1],
        [0.4, 0.2, 0.1, 0.3],
    ]
    found = hits([0, 1, 1, 2], [(0, 1), (1, 0), (2, 0)], map_NN)
    assert found == [[True, True, False], [True, True, True], [True, False, True]]


def test_a_token_without_a_word_is_excluded():
    map_NN = [[0.1, 0.7, 0.2], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]]
    assert hits([0, -1, 1], [(0, 1)], map_NN) == [[True, True, True]]


def test_a_word_that_sees_no_other_predicts_nothing():
    causal: Tensor = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    assert hits([0, 1], [(0, 1)], causal.tolist()) == [[False, True, True]]
