"""Rows hold only real tokens, in the requested shape."""

from typing import Any

import pytest
from transformers import MarianConfig

from headcount.corpora import Corpus
from headcount.speed import TokenRows
from headcount.speed.inputs import vocabulary
from tests.tasks.loaded import TEXTS, loaded


def test_random_rows_are_seeded_and_have_no_special_tokens() -> None:
    model = loaded("BertForMaskedLM")
    rows = TokenRows.random(model, 5000, seed=3).rows(50, 100)
    assert rows.shape == (50, 100)
    assert model.tokenizer is not None
    found = set(rows.flatten().tolist())
    assert found.isdisjoint(model.tokenizer.all_special_ids)
    assert found == set(range(vocabulary(model.model.config))) - set(
        model.tokenizer.all_special_ids
    )
    assert rows.equal(TokenRows.random(model, 5000, seed=3).rows(50, 100))
    assert not rows.equal(TokenRows.random(model, 5000, seed=4).rows(50, 100))


def test_the_smaller_vocabulary_of_two_sides_counts() -> None:
    sizes: dict[str, Any] = {"pad_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 0}
    assert vocabulary(MarianConfig(vocab_size=40, decoder_vocab_size=17, **sizes)) == 17
    assert vocabulary(MarianConfig(vocab_size=40, decoder_vocab_size=57, **sizes)) == 40


def test_text_is_cut_into_rows_and_begins_again() -> None:
    for name in ("BertForMaskedLM", "MarianMTModel"):  # a fast and a slow tokenizer
        model = loaded(name)
        assert model.tokenizer is not None
        unknown: Any = model.tokenizer.unk_token_id
        special = set(model.tokenizer.all_special_ids) - {unknown}
        ids = [
            token
            for text in TEXTS
            for token in model.tokenizer(text)["input_ids"]
            if token not in special
        ]
        rows = TokenRows.of_text(model, Corpus.from_sentences(TEXTS), 10_000).rows(17, 31)
        expected = (ids * 9)[: 17 * 31]
        assert rows.flatten().tolist() == expected and len(ids) < 17 * 31


def test_text_has_no_ids_that_the_decoder_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder's ids are inputs too."""
    model = loaded("MarianMTModel")
    ids_T = TokenRows.of_text(model, Corpus.from_sentences(TEXTS), 10_000).ids_T
    fewer = int(ids_T.max())
    monkeypatch.setattr(model.model.config, "decoder_vocab_size", fewer)
    found_T = TokenRows.of_text(model, Corpus.from_sentences(TEXTS), 10_000).ids_T
    assert found_T.equal(ids_T.where(ids_T < fewer, 0)) and not found_T.equal(ids_T)
