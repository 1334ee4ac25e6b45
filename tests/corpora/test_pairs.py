"""Pairs of sentences that a model without a decoder reads as one input."""

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora import Batches, Corpus, Encoder, Sentence, take_census
from headcount.models import as_loaded
from tests import tiny, tiny_tokenizers
from tests.examined import examined

Tokenizers = dict[str, PreTrainedTokenizerBase]
FIRST, SECOND = "The old dog barked at the moon.", "Nobody could sleep."
PAIR = Sentence(FIRST, second=SECOND, origin="pairs.tsv:3")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{FIRST}\t{SECOND}\n{SECOND}\t{SECOND}\n", encoding="utf-8")
    return path


def test_what_stands_behind_the_tab_is_the_second_sentence(file: Path) -> None:
    first, second = Corpus(file, pairs=True)
    assert (first.text, first.second, first.target) == (FIRST, SECOND, None)
    assert second.origin == f"{file}:2"
    assert [sentence.second for sentence in Corpus(file)] == [None, None]


def test_one_sentence_or_a_tree_is_no_pair(file: Path, tmp_path: Path, treebank: str) -> None:
    text, bank, other = (tmp_path / name for name in ("a.txt", "a.conllu", "b.txt"))
    text.write_text("One sentence.\n")
    bank.write_text(treebank, encoding="utf-8")
    other.write_text("a\nb\nc\n")
    with pytest.raises(CorpusError, match=r"a\.txt:1: expected a pair .* got one sentence. Give"):
        list(Corpus([text], pairs=True))
    with pytest.raises(CorpusError, match="expected a pair .* got the words of a treebank"):
        list(Corpus(source=bank, target=other, pairs=True))


def test_words_are_no_pair() -> None:
    with pytest.raises(CorpusError, match="expected running text in a pair of sentences"):
        Corpus.from_sentences([Sentence("a b", ("a", "b"), second="c")])


def test_the_second_sentence_is_part_of_the_hash() -> None:
    variants = [Sentence("a"), Sentence("a", second="b"), Sentence("a", target="b")]
    assert len({Corpus.from_sentences([each]).sha256() for each in variants}) == 3


@pytest.mark.parametrize("kind", ["wordpiece", "roberta", "roberta-prefix", "t5"])
def test_tokens_are_those_of_the_tokenizer(tokenizers: Tokenizers, kind: str) -> None:
    tokenizer = tokenizers[kind]
    alone = Sentence(FIRST)
    found = Encoder(tokenizer).sources([alone, PAIR, alone])
    stock = tokenizer(FIRST, SECOND, return_special_tokens_mask=True)
    assert found[1].ids == stock["input_ids"]
    assert found[1].is_special == [flag == 1 for flag in stock["special_tokens_mask"]]
    if "token_type_ids" in stock:
        assert found[1].type_ids == stock["token_type_ids"]
    assert [found[0].ids, found[2].ids] == [tokenizer(FIRST)["input_ids"]] * 2


def test_the_longer_sentence_is_cut_first(tokenizers: Tokenizers) -> None:
    tokenizer, pair = tokenizers["wordpiece"], replace(PAIR, second="The moon.")
    length = len(tokenizer(FIRST, pair.second)["input_ids"])
    (cut,) = Encoder(tokenizer, max_length=length - 2).sources([pair])
    assert cut.truncated and len(cut.ids) == length - 2
    second = tokenizer(pair.second, add_special_tokens=False)["input_ids"]
    assert cut.ids[-1 - len(second) : -1] == second
    with pytest.raises(CorpusError, match=r"pairs\.tsv:3: expected a sentence of at most"):
        Encoder(tokenizer, length - 2, strict=True).sources([pair])


@pytest.mark.parametrize(
    ("kind", "start", "message"),
    [
        ("gpt2", None, "expected a tokenizer that puts its separator between the two sentences"),
        ("llama", None, "expected a tokenizer that puts its separator between the two sentences"),
        ("byt5", None, "expected a fast tokenizer for pairs of sentences, got ByT5Tokenizer"),
        ("t5", 0, "expected a source and a target, since the model has a decoder, got a pair"),
    ],
)
def test_refusals(tokenizers: Tokenizers, kind: str, start: int | None, message: str) -> None:
    with pytest.raises(CorpusError, match=re.escape(f"pairs.tsv:3: {message}")):
        Encoder(tokenizers[kind], start_id=start).encode([PAIR])


def test_segments_and_token_types_of_a_batch(tokenizers: Tokenizers) -> None:
    encoder = Encoder(tokenizers["wordpiece"], token_types=True)
    corpus = Corpus.from_sentences([PAIR, Sentence("The moon."), Sentence("a", second="b")])
    (batch,) = Batches(corpus, encoder, take_census(corpus, encoder))
    texts = [(item.text, item.second) for item in batch.sentences]
    for row, (first, second) in enumerate(texts):
        stock = encoder.tokenizer(first, second)["token_type_ids"]
        found = batch.inputs["token_type_ids"][row].tolist()
        assert found == stock + [0] * (len(found) - len(stock))
    unreported = Encoder(tokenizers["wordpiece"])
    (batch,) = Batches(corpus, unreported, take_census(corpus, unreported))
    assert "token_type_ids" not in batch.inputs
    alone = Corpus.from_sentences(["The moon."])
    (batch,) = Batches(alone, encoder, take_census(alone, encoder))
    assert "token_type_ids" not in batch.inputs


def test_measured_as_the_stock_model_attends(file: Path) -> None:
    """The first pair alone: weight on the first token and on separators, from its own maps."""
    from headcount.analysis import measure

    tokenizer = tiny_tokenizers.wordpiece()
    sizes: dict[str, Any] = tiny.ENCODER | {"vocab_size": len(tokenizer)}
    config = BertConfig(**sizes)
    model = tiny.seeded(BertModel(config, add_pooling_layer=False))
    inputs = dict(tokenizer(FIRST, SECOND, return_tensors="pt"))
    assert inputs["token_type_ids"].any()
    loaded = as_loaded(model, tokenizer)
    heads = measure(loaded, Corpus(file, limit=1, pairs=True)).frame
    (maps_BHQK, _) = tiny.attention_maps(model, inputs)["encoder.self"]
    is_sep = inputs["input_ids"][0] == tokenizer.sep_token_id
    assert is_sep.sum() == 2
    of_layer = heads[heads["layer"] == 0]
    for column, weight_H in (
        ("attn_first", maps_BHQK[0, :, :, 0].mean(-1)),
        ("attn_sep", maps_BHQK[0, :, :, is_sep].sum(-1).mean(-1)),
    ):
        found = torch.tensor(of_layer[column].tolist())
        torch.testing.assert_close(found, weight_H.to(found), atol=1e-6, rtol=1e-5)
    assert not np.isnan(heads["pattern_block"].to_numpy()).any()
    one_by_one = measure(loaded, Corpus.from_sentences([FIRST, SECOND])).frame
    assert np.isnan(one_by_one["pattern_block"].to_numpy()).all()


@pytest.mark.parametrize(
    ("name", "size", "takes"),
    [("bert", 2, True), ("albert", 2, True), ("roberta", 1, False), ("distilbert", 2, False)],
)
def test_the_model_decides_whether_types_are_given(name: str, size: int, takes: bool) -> None:
    model = copy.deepcopy(examined(name)[0])
    model.config.type_vocab_size = size
    loaded = as_loaded(model, tiny_tokenizers.wordpiece())
    assert loaded.encoder().token_types == loaded.takes_token_types == takes


def test_readable_examples_are_short_on_both_sides() -> None:
    from headcount.analysis.examples import candidates

    short, long = "The old dog barked again.", " ".join(["word"] * 99)
    sentences = [Sentence(short, second=short), Sentence(short, second=long), Sentence(short)]
    assert candidates(Corpus.from_sentences(sentences)) == [sentences[0], sentences[2]]
