"""Whole treebanks in three languages, under every kind of tokenizer."""

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from headcount.corpora import Batches, Corpus, Encoder, Misread, take_census

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
LIMIT = 150


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "UD_English-EWT/en_ewt-ud-dev.conllu",
        "UD_German-GSD/de_gsd-ud-dev.conllu",
        "UD_Russian-GSD/ru_gsd-ud-dev.conllu",
    ],
)
@pytest.mark.parametrize("as_words", [False, True])
def test_every_word_and_every_arc_arrives(
    name: str, tokenizer: PreTrainedTokenizerBase, as_words: bool
) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"needs {name} in ../shared/data")
    corpus = Corpus(SHARED / name, limit=LIMIT, as_words=as_words)
    encoder = Encoder(tokenizer)
    census = take_census(corpus, encoder)
    assert census.misread == Misread()
    num_words = num_arcs = num_tokens = 0
    for batch in Batches(corpus, encoder, census):
        assert batch.arcs is not None
        num_arcs += len(batch.arcs.head_A)
        num_tokens += int(batch.source.is_token_BN.sum())
        for row, word_N in enumerate(batch.source.word_BN):
            at = batch.words_at(row)
            num_words += sum(len(at[int(place)]) for place in word_N[word_N >= 0].unique())
    assert census.counts.sentences == LIMIT
    assert num_words == census.counts.words - census.counts.words_lost
    assert num_tokens == census.counts.tokens
    # Every word but the root of its sentence depends on another word.
    assert census.counts.words_lost == 0
    assert num_arcs == census.counts.words - census.counts.sentences - census.counts.arcs_inside
    assert not as_words or census.counts.arcs_inside == 0
