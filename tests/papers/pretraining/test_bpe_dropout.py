"""BPE-dropout: words are unchanged, batches are reproducible, cuts have their probabilities."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from headcount.core import ModelError
from headcount.papers import RECIPES, Rows, learn_pieces
from headcount.papers.pretraining.examples import Encoded, encode
from headcount.papers.pretraining.tokenizer_training import BpeDropout
from headcount.training.batches_trainer import NO_PART
from tests.tiny_tokenizers import wordpiece

RECIPE = replace(RECIPES["tiny"], bpe_dropout=0.3, max_length=512)


@pytest.fixture(scope="module")
def encoded(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> Encoded:
    return encode(pairs, tokenizer, RECIPE, 5)


def test_text_stays(encoded: Encoded, tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """Different pieces of the same text, on both sides, with one end symbol."""
    part_EP = np.array([[example, NO_PART] for example in range(len(pairs.rows))])
    for side in (0, 1):
        found = encoded.ids(side, 3, part_EP)
        assert found != encoded.sides[side]
        for ids, usual in zip(found, encoded.sides[side], strict=True):
            assert tokenizer.decode(ids) == tokenizer.decode(usual)
            assert ids[-1] == usual[-1] and ids.count(ids[-1]) == 1


def test_concatenated(encoded: Encoded) -> None:
    """The first of a pair only loses its end symbol."""
    (both,) = encoded.ids(0, 7, np.array([[1, 2]]))
    first, second = encoded.ids(0, 7, np.array([[1, NO_PART], [2, NO_PART]]))
    assert both == [*first[:-1], *second]


def test_batches_come_again(
    encoded: Encoded, tokenizer: PreTrainedTokenizerFast, pairs: Rows
) -> None:
    """Cuts depend on seed and number, not on earlier cuts; other seeds and numbers differ."""
    part_EP = np.arange(20)[:, None]
    again = encode(pairs, tokenizer, RECIPE, 5)
    assert again.ids(1, 9, part_EP) == encoded.ids(1, 9, part_EP)
    assert again.ids(1, 8, part_EP) != again.ids(1, 9, part_EP)
    other = encode(pairs, tokenizer, RECIPE, 6)
    assert other.ids(1, 9, part_EP) != again.ids(1, 9, part_EP)


@pytest.mark.slow
def test_probabilities_by_hand() -> None:
    """Two merges in a row: none with probability p, one with (1-p)p, both with (1-p)^2."""
    p, rows = 0.4, Rows(("text",), [("ab",)])
    tokenizer = learn_pieces(["ab"] * 9, 10, 64)
    recipe, found = replace(RECIPE, bpe_dropout=p), Counter[int]()
    for seed in range(200):
        encoded = encode(rows, tokenizer, recipe, seed)
        for number in range(2):
            found.update(len(ids) for ids in encoded.ids(0, number, np.zeros((50, 1), int)))
    shares = [found[pieces + 1] / found.total() for pieces in (3, 2, 1)]
    assert shares == pytest.approx([p, (1 - p) * p, (1 - p) ** 2], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.1, 0.3])
def test_as_the_library(tokenizer: PreTrainedTokenizerFast, pairs: Rows, dropout: float) -> None:
    """Mean number of pieces in a text equals that of `tokenizers`, which has no seed."""
    texts = pairs.columns["source"]
    theirs = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    theirs.model.dropout = dropout
    encoded = encode(pairs, tokenizer, replace(RECIPE, bpe_dropout=dropout), 0)
    part_EP = np.arange(len(texts))[:, None]
    ours = [len(ids) for number in range(40) for ids in encoded.ids(0, number, part_EP)]
    expected = [len(found.ids) for _ in range(40) for found in theirs.encode_batch(texts)]
    assert np.mean(ours) == pytest.approx(np.mean(expected), rel=0.02)
    assert np.mean(ours) > 1.05 * encoded.length_NS[:, 0].mean()


def test_other_tokenizers(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """Pieces that are not byte pairs and cuts unlike the tokenizer's are refused."""
    with pytest.raises(ModelError, match="has pieces of the type WordPiece. Set bpe_dropout to 0"):
        BpeDropout(wordpiece(), [["a dog"]], [[[1, 2]]], 0.1, 0)
    with pytest.raises(ModelError, match="has other pieces of 'a dog'"):
        BpeDropout(tokenizer, [["a dog"]], [[tokenizer("a cat").input_ids]], 0.1, 0)
