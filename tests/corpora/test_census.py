"""The census against counting by hand."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from headcount.corpora import Corpus, Encoder, Sentence, take_census

Tokenizers = dict[str, PreTrainedTokenizerBase]


@pytest.fixture
def bank(tmp_path: Path, treebank: str) -> Path:
    """The small treebank in a file."""
    path = tmp_path / "bank.conllu"
    path.write_text(treebank, encoding="utf-8")
    return path


def as_dict(counts_V: np.ndarray) -> dict[int, int]:
    return {int(token): int(counts_V[token]) for token in np.flatnonzero(counts_V)}


def test_counts(bank: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    corpus, encoder = Corpus(bank), Encoder(tokenizer)
    encoded = encoder.sources(list(corpus))
    census = take_census(corpus, encoder)
    assert (census.counts.sentences, census.counts.words) == (3, 17)
    assert census.counts.tokens == sum(len(one.ids) for one in encoded)
    assert census.counts.longest == max(len(one.ids) for one in encoded)
    assert (census.counts.truncated, census.counts.words_cut, census.counts.words_lost) == (0, 0, 0)
    assert census.counts.target_tokens == census.longest_target == 0
    content = Counter(
        token
        for one in encoded
        for token, special in zip(one.ids, one.is_special, strict=True)
        if not special
    )
    assert as_dict(census.source_counts) == content
    assert as_dict(census.target_counts) == {}
    assert census.sha256 == corpus.sha256()


def test_relations_are_sorted_without_the_root(bank: Path, tokenizers: Tokenizers) -> None:
    census = take_census(Corpus(bank), Encoder(tokenizers["wordpiece"]))
    assert census.relations == (
        "advmod:neg",
        "aux",
        "case",
        "det",
        "nsubj",
        "nummod:gov",
        "obj",
        "obl",
        "punct",
    )


def test_running_text_has_no_words_and_no_relations(tokenizers: Tokenizers) -> None:
    census = take_census(Corpus.from_sentences(["a dog", "Hund"]), Encoder(tokenizers["t5"]))
    assert (census.counts.sentences, census.counts.words, census.relations) == (2, 0, ())


def test_targets_are_counted_without_the_start_token(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences(
        [Sentence("The dog.", target="Der Hund."), Sentence("a", target="b")]
    )
    tokenizer = tokenizers["marian"]
    census = take_census(corpus, Encoder(tokenizer, start_id=0))
    labels = [tokenizer(text_target=text)["input_ids"] for text in ("Der Hund.", "b")]
    assert census.counts.target_tokens == sum(map(len, labels))
    assert census.longest_target == max(map(len, labels))
    assert as_dict(census.target_counts) == Counter(labels[0][:-1] + labels[1][:-1])


def test_truncation_and_lost_words_are_counted(tokenizers: Tokenizers) -> None:
    long = ("dog",) * 11
    corpus = Corpus.from_sentences(
        [
            Sentence(" ".join(long), long),
            Sentence("a \u200b", ("a", "\u200b")),
            Sentence("der Hund " * 9),
        ]
    )
    encoder = Encoder(tokenizers["wordpiece"], max_length=7)
    census = take_census(corpus, encoder)
    assert (census.counts.truncated, census.counts.words_cut, census.counts.words_lost) == (2, 6, 1)
    assert census.counts.longest == 7


def test_a_long_target_truncates_a_sentence(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences([Sentence("a", target="der Hund " * 9)])
    census = take_census(corpus, Encoder(tokenizers["t5"], max_length=7, start_id=0))
    assert (census.counts.truncated, census.longest_target) == (1, 7)


def test_the_size_of_chunks_does_not_matter(
    bank: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, encoder = Corpus(bank), Encoder(tokenizers["gpt2"])
    whole = take_census(corpus, encoder)
    monkeypatch.setattr("headcount.corpora.census.SENTENCES_AT_ONCE", 2)
    parts = take_census(corpus, encoder)
    assert np.array_equal(whole.source_counts, parts.source_counts)
    assert (whole.counts, whole.relations) == (parts.counts, parts.relations)


def test_unknown_tokens_are_counted_and_warned_of(tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers["wordpiece"]
    encoder = Encoder(tokenizer)
    known = take_census(Corpus.from_sentences(["a dog"]), encoder)
    assert (known.num_unknown, [*known.warnings(64)]) == (0, [])
    census = take_census(
        Corpus.from_sentences(["a dog", "\N{CJK UNIFIED IDEOGRAPH-4E00} a"]), encoder
    )
    unknown = tokenizer("\N{CJK UNIFIED IDEOGRAPH-4E00}", add_special_tokens=False)["input_ids"]
    assert unknown == [tokenizer.unk_token_id] and census.num_unknown == 1
    content = int(census.source_counts.sum())
    (warning,) = census.warnings(64)
    assert warning.startswith(f"tokens that the model does not know: 1 of {content}. Check ")


def test_few_unknown_tokens_in_a_hundred_are_no_news(tokenizers: Tokenizers) -> None:
    encoder = Encoder(tokenizers["wordpiece"])
    texts = ["a a a a a a a a a a"] * 10 + ["\N{CJK UNIFIED IDEOGRAPH-4E00}"]
    census = take_census(Corpus.from_sentences(texts), encoder)
    assert census.num_unknown == 1 and [*census.warnings(64)] == []
    assert [*take_census(Corpus.from_sentences(texts[1:]), encoder).warnings(64)]


def test_unknown_tokens_of_targets_count(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences([Sentence("a", target="\N{CJK UNIFIED IDEOGRAPH-4E00}")])
    tokenizer = tokenizers["t5"]
    census = take_census(corpus, Encoder(tokenizer, start_id=0))
    ids = tokenizer(text_target="\N{CJK UNIFIED IDEOGRAPH-4E00}")["input_ids"]
    assert census.num_unknown == ids.count(tokenizer.unk_token_id) > 0
