"""Pieces: they decode to the text, marks are separate, both sides end with </s>."""

import unicodedata
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from headcount.core import CorpusError
from headcount.papers import Rows, learn_pieces


def test_text_comes_back(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """Pieces of every training sentence decode to it, with its spacing and marks."""
    for text in (side for row in pairs.rows for side in row):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == unicodedata.normalize("NFC", text)
        assert ids[-1] == tokenizer.eos_token_id and ids.count(tokenizer.eos_token_id) == 1


def test_words_and_marks_are_kept_apart(tokenizer: PreTrainedTokenizerFast) -> None:
    """No piece joins letters with digits or marks, or two marks."""
    for piece in set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        text = piece.removeprefix("\N{LOWER ONE EIGHTH BLOCK}")
        kinds = {"letter" if c.isalpha() or unicodedata.combining(c) else c for c in text}
        kinds = {"digit" if kind.isnumeric() else kind for kind in kinds}
        assert len(kinds) <= 1, piece


def test_sides_are_alike(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "The old dog, too."
    assert tokenizer(text)["input_ids"] == tokenizer(text_target=text)["input_ids"]
    assert tokenizer("a  b\n")["input_ids"] == tokenizer("a b")["input_ids"]


def test_as_corpora_want_it(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    """It is the same after saving."""
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.is_fast and again.model_max_length == 64
    assert again("Über das Dorf!").input_ids == tokenizer("Über das Dorf!").input_ids
    assert again.all_special_tokens == ["<s>", "</s>", "<unk>", "<pad>", "<mask>"]


def test_vocabulary_and_text() -> None:
    with pytest.raises(CorpusError, match=r"of 900 pieces, got text that supports 16\. Set .*=16"):
        learn_pieces(["the hen then"] * 9, 900, 64)
    assert len(learn_pieces(["the hen then"] * 9, 16, 64)) == 16
