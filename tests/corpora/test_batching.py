"""Batches hold every sentence once, within the budget, with the sentence's own columns."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora import (
    Arcs,
    Batch,
    Batches,
    Corpus,
    Encoder,
    Frequencies,
    Sentence,
    Tokens,
    Tree,
    take_census,
)
from tests.tiny_tokenizers import GERMAN, RUSSIAN, SENTENCES

Tokenizers = dict[str, PreTrainedTokenizerBase]
SLOW = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30
)


def batches_of(corpus: Corpus, encoder: Encoder, **options: Any) -> list[Batch]:
    return list(Batches(corpus, encoder, take_census(corpus, encoder), **options))


@pytest.fixture
def bank(tmp_path: Path, treebank: str) -> Corpus:
    """The small treebank."""
    path = tmp_path / "bank.conllu"
    path.write_text(treebank, encoding="utf-8")
    return Corpus(path)


@given(
    texts=st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=13),
    max_tokens=st.integers(1, 300),
    pool=st.integers(1, 7),
)
@SLOW
def test_every_sentence_once_and_under_budget(
    tokenizers: Tokenizers, texts: list[str], max_tokens: int, pool: int
) -> None:
    sentences = [Sentence(text, origin=str(number)) for number, text in enumerate(texts)]
    corpus, encoder = Corpus.from_sentences(sentences), Encoder(tokenizers["wordpiece"])
    found = batches_of(corpus, encoder, max_tokens=max_tokens, pool=pool)
    seen = [one for batch in found for one in batch.sentences]
    assert sorted(seen, key=lambda one: int(one.origin)) == sentences
    for batch in found:
        assert batch.source.ids_BN.shape[0] == len(batch.sentences)
        assert batch.source.ids_BN.numel() <= max_tokens or len(batch.sentences) == 1
        assert batch.source.is_token_BN.any(0).all(), "a column of nothing but padding"


def test_sorted_by_length_inside_a_pool_only(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences(["a a a a", "a a a", "a", "a a", "a a a a a", "a"])
    encoder = Encoder(tokenizers["wordpiece"])
    found = batches_of(corpus, encoder, pool=3, max_tokens=1)
    lengths = [int(batch.source.is_token_BN.sum()) for batch in found]
    assert lengths == [3, 5, 6, 3, 4, 7]


def test_the_same_batches_every_time(bank: Corpus, tokenizers: Tokenizers) -> None:
    encoder = Encoder(tokenizers["gpt2"])
    once, again = (batches_of(bank, encoder, max_tokens=40) for _ in range(2))
    assert len(once) > 1
    for left, right in zip(once, again, strict=True):
        assert left.sentences == right.sentences
        assert torch.equal(left.source.ids_BN, right.source.ids_BN)


def check_side(
    tokens: Tokens,
    row: int,
    ids: list[int],
    words: list[int],
    special: list[bool],
    encoder: Encoder,
) -> None:
    """Compare one row of a side with the encoder's lists; padding follows it."""
    length, width = len(ids), tokens.ids_BN.shape[1]
    assert tokens.ids_BN[row].tolist() == ids + [encoder.pad_id] * (width - length)
    assert tokens.is_token_BN[row].tolist() == [True] * length + [False] * (width - length)
    content = [not flag for flag in special] + [False] * (width - length)
    assert tokens.is_content_BN[row].tolist() == content
    assert tokens.word_BN[row].tolist() == words + [-1] * (width - length)
    sep = [flag and token in encoder.sep_ids for token, flag in zip(ids, special, strict=True)]
    assert tokens.is_sep_BN[row].tolist() == sep + [False] * (width - length)
    assert not (tokens.is_punct_BN[row] & ~tokens.is_content_BN[row]).any()


def test_columns_of_a_treebank(bank: Corpus, tokenizer: PreTrainedTokenizerBase) -> None:
    encoder = Encoder(tokenizer)
    (batch,) = batches_of(bank, encoder)
    assert batch.target is None
    assert set(batch.inputs) == {"input_ids", "attention_mask"}
    assert torch.equal(batch.inputs["input_ids"], batch.source.ids_BN)
    assert torch.equal(batch.inputs["attention_mask"], batch.source.is_token_BN.long())
    for row, sentence in enumerate(batch.sentences):
        (one,) = encoder.sources([sentence])
        check_side(batch.source, row, one.ids, one.word_of, one.is_special, encoder)
        words = sentence.words or ()
        punct = {int(word) for word in batch.source.word_BN[row][batch.source.is_punct_BN[row]]}
        # "n't" and the like have a piece that is only punctuation in some tokenizers.
        alone = {at: its for at, its in batch.words_at(row).items() if len(its) == 1}
        assert {at for at, (word,) in alone.items() if words[word] in ".!"} <= punct


@pytest.mark.parametrize("kind", ["marian", "marian-separate", "t5"])
def test_both_sides_of_a_pair(tokenizers: Tokenizers, kind: str) -> None:
    tokenizer = tokenizers[kind]
    assert isinstance(tokenizer.pad_token_id, int)
    encoder = Encoder(tokenizer, start_id=tokenizer.pad_token_id)
    pairs = [Sentence(one, target=other) for one, other in zip(RUSSIAN, GERMAN, strict=True)]
    corpus = Corpus.from_sentences(
        [*pairs, Sentence("Он", target=GERMAN[0]), Sentence(RUSSIAN[0], target="Er")]
    )
    for batch in batches_of(corpus, encoder, max_tokens=200):
        assert batch.target is not None
        assert torch.equal(batch.inputs["decoder_input_ids"], batch.target.ids_BN)
        mask = batch.inputs["decoder_attention_mask"]
        assert torch.equal(mask, batch.target.is_token_BN.long())
        assert mask[:, 0].all(), "the start token is no padding though its id is"
        assert not batch.target.is_content_BN[:, 0].any()
        width = max(batch.source.ids_BN.shape[1], batch.target.ids_BN.shape[1])
        assert width * len(batch.sentences) <= 200 or len(batch.sentences) == 1
        for row, pair in enumerate(encoder.encode(batch.sentences)):
            for tokens, one in ((batch.source, pair.source), (batch.target, pair.target)):
                assert one is not None
                check_side(tokens, row, one.ids, one.word_of, one.is_special, encoder)


def test_a_start_token_is_no_separator(tokenizers: Tokenizers) -> None:
    """It counts although it has the id of one, as in the decoders of M2M100 and BART."""
    end: Any = tokenizers["t5"].eos_token_id
    encoder = Encoder(tokenizers["t5"], None, end)
    corpus = Corpus.from_sentences([Sentence("The old dog.", target="Der alte Hund.")])
    (batch,) = Batches(corpus, encoder, take_census(corpus, encoder))
    assert batch.target is not None and int(batch.target.ids_BN[0, 0]) == end
    assert not batch.target.is_sep_BN.any()  # the end is what comes after the last input
    assert batch.source.is_sep_BN[0].nonzero().tolist() == [[batch.source.ids_BN.shape[1] - 1]]


def test_padding_is_no_punctuation_and_no_separator(tokenizers: Tokenizers) -> None:
    """GPT-2 has no padding token: rows are filled with id 0, and its eos may be anything."""
    corpus = Corpus.from_sentences(["a", "Der Hund schläft."])
    (batch,) = batches_of(corpus, Encoder(tokenizers["gpt2"]))
    assert not batch.source.is_punct_BN[0].any() and not batch.source.is_sep_BN.any()
    assert batch.source.is_punct_BN[1].sum() == 1


def arcs_of(batch: Batch, relations: tuple[str, ...]) -> set[tuple[str, str, str]]:
    """The arcs as (dependent, relation, head); checks that they are unique."""
    arcs = batch.arcs
    assert arcs is not None
    columns = (arcs.sentence_A, arcs.dependent_A, arcs.head_A, arcs.relation_A)
    found = []
    for row, dependent, head, relation in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        sentence, at = batch.sentences[row], batch.words_at(row)
        ends = (sentence.form(at[dependent]), sentence.form(at[head]))
        found.append((ends[0], relations[relation], ends[1]))
    assert len(set(found)) == len(found)
    return set(found)


def test_arcs(bank: Corpus, tokenizers: Tokenizers) -> None:
    encoder = Encoder(tokenizers["wordpiece"])
    census = take_census(bank, encoder)
    (batch,) = Batches(bank, encoder, census)
    assert batch.arcs is not None and batch.arcs.num_roots == 3
    assert arcs_of(batch, census.relations) == {
        ("The", "det", "dogs"),
        ("dogs", "nsubj", "bark"),
        ("did", "aux", "bark"),
        ("n't", "advmod:neg", "bark"),
        (".", "punct", "bark"),
        ("Im", "case", "Dorf"),
        ("Im", "det", "Dorf"),
        ("Dorf", "obl", "schläft"),
        ("Großvater", "nsubj", "schläft"),
        (".", "punct", "schläft"),
        ("Он", "nsubj", "заплатил"),
        ("10 000", "nummod:gov", "рублей"),
        ("рублей", "obj", "заплатил"),
        ("!", "punct", "заплатил"),
    }


def test_arcs_of_words_without_pieces_are_left_out(tokenizers: Tokenizers) -> None:
    words = ("dog", "\u200b", "a", "moon")
    tree = Tree((-1, 0, 0, 2), ("root", "x", "y", "z"), ("X",) * 4)
    lost = Sentence("\u200b Hund", ("\u200b", "Hund"), Tree((-1, 0), ("root", "x"), ("X",) * 2))
    corpus = Corpus.from_sentences(
        [Sentence(" ".join(words), words, tree), Sentence("running"), lost]
    )
    for max_length, expected in (
        (None, {("a", "y", "dog"), ("moon", "z", "a")}),
        (4, {("a", "y", "dog")}),
    ):
        encoder = Encoder(tokenizers["wordpiece"], max_length)
        census = take_census(corpus, encoder)
        (batch,) = Batches(corpus, encoder, census)
        assert arcs_of(batch, census.relations) == expected
        assert batch.arcs is not None and batch.arcs.num_roots == 1


def test_no_arcs_without_trees(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences([Sentence("a dog", ("a", "dog")), "Hund"])
    (batch,) = batches_of(corpus, Encoder(tokenizers["wordpiece"]))
    assert batch.arcs is None


def test_a_batch_without_arcs_in_a_corpus_with_trees(bank: Corpus, tokenizers: Tokenizers) -> None:
    text = "the dog"
    corpus = Corpus.from_sentences([*bank, text])
    last = batches_of(corpus, Encoder(tokenizers["t5"]), max_tokens=1)[0]
    assert last.sentences[0].text == text
    assert last.arcs is not None and last.arcs.head_A.shape == (0,)


def test_rarest_by_census_or_by_file(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences(["the dog the dog dog", "the dog"])
    encoder = Encoder(tokenizers["wordpiece"])
    census = take_census(corpus, encoder)
    (batch,) = Batches(corpus, encoder, census)
    assert batch.source.rarest_B2.tolist() == [[-1, -1], [-1, -1]]
    ((the,), (dog,)) = encoder.single_words(["the", "dog"])
    counts_V = np.full(1000, 10)
    counts_V[[the, dog]] = 3, 4
    census = replace(census, source_counts=counts_V)
    (batch,) = Batches(corpus, encoder, census)
    assert batch.source.rarest_B2.tolist() == [[1, 2], [1, 3]]
    counts_V = np.full(1000, 10)
    counts_V[[the, dog]] = 9, 1
    frequencies = Frequencies.of_counts(counts_V)
    (batch,) = Batches(corpus, encoder, census, frequencies=frequencies)
    assert batch.source.rarest_B2.tolist() == [[2, 1], [2, 4]]


def test_rarest_targets_go_by_the_targets(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences([Sentence("dog the", target="the dog")])
    encoder = Encoder(tokenizers["t5"], start_id=0)
    census = take_census(corpus, encoder)
    common, rare = np.full(1000, 10), np.full(1000, 10)
    rare[encoder.targets(list(corpus))[0].ids[-1]] = 1
    (batch,) = Batches(corpus, encoder, replace(census, source_counts=common, target_counts=rare))
    assert batch.target is not None
    assert batch.target.rarest_B2[0, 0] == batch.target.ids_BN.shape[1] - 1


def test_to_another_device(tokenizers: Tokenizers, bank: Corpus) -> None:
    sentences = [Sentence(one.text, one.words, one.tree, target="Hund") for one in bank]
    corpus = Corpus.from_sentences(sentences)
    (batch,) = batches_of(corpus, Encoder(tokenizers["t5"], start_id=0))
    moved = batch.to("meta")
    records: list[Tokens | Arcs | None] = [moved.source, moved.target, moved.arcs]
    tensors = list(moved.inputs.values())
    for record in records:
        assert record is not None
        values = [getattr(record, field.name) for field in fields(record)]
        tensors += [value for value in values if isinstance(value, torch.Tensor)]
    assert len(tensors) == 4 + 12 + 12 + 5
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.sentences == batch.sentences


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"pool": 0}])
def test_senseless_sizes_are_refused(tokenizers: Tokenizers, options: dict[str, int]) -> None:
    message = "Expected at least 1 token a batch and 1 sentence a pool, got"
    with pytest.raises(CorpusError, match=message):
        batches_of(Corpus.from_sentences(["a"]), Encoder(tokenizers["t5"]), **options)
