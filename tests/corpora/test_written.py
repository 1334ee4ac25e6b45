"""Treebanks as they are written: what models read, and which pieces are whose."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertTokenizer,
    ByT5Tokenizer,
    GPT2Tokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from headcount.corpora import (
    Batches,
    Corpus,
    Encoder,
    Named,
    Sentence,
    Tree,
    in_one_line,
    take_census,
)
from headcount.corpora.layout import Layout, as_words, located
from tests.textbook import written

WORDS = ("She", "did", "n't", "bark", ",", "no", ".")
DIDNT = Sentence(
    "She didn't bark, no.",
    WORDS,
    Tree(
        (3, 3, 3, -1, 3, 3, 3),
        ("nsubj", "aux", "advmod", "root", "punct", "obl", "punct"),
        ("X",) * 7,
    ),
    origin="bank.conllu:3",
)
ZUM = Sentence(
    "Er ging zum Hund.",
    ("Er", "ging", "zu", "dem", "Hund", "."),
    Tree((1, -1, 4, 2, 1, 1), ("nsubj", "root", "case", "det", "obl", "punct"), ("X",) * 6),
    origin="bank.conllu:20",
    spans=((0, 2), (3, 7), (8, 11), (8, 11), (12, 16), (16, 17)),
)


def wordpiece() -> PreTrainedTokenizerBase:
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] she didn ' t bark , no .".split()
    return BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)})


def byte_level() -> PreTrainedTokenizerBase:
    merges = [("Ġ", "d"), ("i", "d"), ("id", "n"), ("Ġd", "idn"), ("'", "t")]
    letters = sorted({*"Shedidn'tbark,no.Ġ"})
    pieces = ["<|endoftext|>", *letters, *("".join(merge) for merge in merges)]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    return GPT2Tokenizer(vocab=vocab, merges=merges)  # pyright: ignore[reportArgumentType]


def unigram() -> PreTrainedTokenizerBase:
    """Pieces as of SentencePiece, with ▁ for a space."""
    pieces = ["<unk>", "▁She", "▁didn", "'t", "▁bark", ",", "▁no", "."]
    backend = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()  # pyright: ignore[reportAttributeAccessIssue]
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


@pytest.mark.parametrize("make", [wordpiece, byte_level, unigram])
def test_words_that_share_a_piece_are_merged(
    make: "type[PreTrainedTokenizerBase]",
) -> None:
    """A piece "didn" is one of "did" and of "n't"; the arcs of both lead to it."""
    encoder, corpus = Encoder(make()), Corpus.from_sentences([DIDNT])
    census = take_census(corpus, encoder)
    (batch,) = Batches(corpus, encoder, census)
    (sentence,), (one,) = corpus, batch.encoded
    assert one.ids == make()(DIDNT.text)["input_ids"]
    assert one.merged == [0, 1, 1, 2, 3, 4, 5] and one.num_words_lost == 0
    assert {at: sentence.form(words) for at, words in batch.words_at(0).items()} == dict(
        enumerate(["She", "didn't", "bark", ",", "no", "."])
    )
    arcs = batch.arcs
    assert arcs is not None and arcs.num_roots == 1 and census.counts.arcs_inside == 0
    ends = zip(arcs.dependent_A.tolist(), arcs.head_A.tolist(), strict=True)
    assert sorted(ends) == [(0, 2), (1, 2), (1, 2), (3, 2), (4, 2), (5, 2)]
    # Offsets are those between merged words
    assert census.baseline_offsets in ({}, {**census.baseline_offsets, "aux": 1, "advmod": 1})


def test_every_tokenizer_reads_the_text(tokenizer: PreTrainedTokenizerBase) -> None:
    for sentence in (DIDNT, ZUM):
        (one,) = Encoder(tokenizer).sources(list(Corpus.from_sentences([sentence])))
        assert one.ids == tokenizer(sentence.text)["input_ids"]
        assert one.num_words_lost == 0 and one.is_mapped


def test_words_of_a_multiword_token_share_its_pieces(tokenizer: PreTrainedTokenizerBase) -> None:
    """The arc between them is dropped and counted; other arcs lead to their pieces."""
    encoder, corpus = Encoder(tokenizer), Corpus.from_sentences([ZUM])
    census = take_census(corpus, encoder)
    (batch,) = Batches(corpus, encoder, census)
    (one,) = batch.encoded
    zum = one.place(2)
    assert zum == one.place(3) != one.place(4)
    assert batch.words_at(0)[zum] == [2, 3]
    pieces = [token for token, at in zip(one.ids, one.word_of, strict=True) if at == zum]
    assert "zum" in "".join(map(encoder.source_piece, pieces)) or len(pieces) > 1
    assert census.counts.arcs_inside >= 1
    arcs = batch.arcs
    assert arcs is not None
    ends = {*zip(arcs.dependent_A.tolist(), arcs.head_A.tolist(), strict=True)}
    assert (zum, one.place(4)) in ends and (zum, zum) not in ends
    num_arcs = len(arcs.head_A) + census.counts.arcs_inside + arcs.num_roots
    assert num_arcs == len(ZUM.words or ())


def test_as_words(tokenizer: PreTrainedTokenizerBase, tmp_path: Path, treebank: str) -> None:
    """The words joined by spaces, each with pieces of its own, as papers read them."""
    path = tmp_path / "bank.conllu"
    path.write_text(treebank, encoding="utf-8")
    corpus = Corpus(path, as_words=True)
    assert corpus.signed == {"treebank": "as-words"}
    assert Corpus(path).signed == {"treebank": "as-written"}
    assert Corpus.from_sentences(["running text"], as_words=True).signed == {}
    for sentence in corpus:
        assert sentence.text == " ".join(sentence.words or ())
        (one,) = Encoder(tokenizer).sources([sentence])
        assert one.ids == tokenizer(sentence.text)["input_ids"]
        assert one.merged is None
        assert {*one.word_of} - {-1} == {*range(len(sentence.words or ()))}
    held = Corpus.from_sentences(list(Corpus(path)), as_words=True)
    assert [each.text for each in held] == [each.text for each in corpus]


@pytest.mark.parametrize("as_words", [False, True])
def test_pieces_of_words_are_those_that_the_tokenizer_numbers(as_words: bool) -> None:
    """With words joined by spaces, BERT's tokenizer gives the pieces of pre-split words."""
    tokenizer = wordpiece()
    (sentence,) = Corpus.from_sentences([DIDNT], as_words=as_words)
    (one,) = Encoder(tokenizer).sources([sentence])
    split = tokenizer(list(WORDS), is_split_into_words=True)
    numbered = [-1 if word is None else word for word in split.word_ids()]
    assert (one.word_of == numbered) is as_words


def test_a_text_that_is_not_its_words_is_not_read() -> None:
    """A sentence made by hand, whose text has other letters: its words are read, and counted."""
    odd = Sentence("something else", WORDS, origin="mine:4")
    corpus, encoder = Corpus.from_sentences([odd, DIDNT]), Encoder(wordpiece())
    assert [each.text for each in corpus] == [" ".join(WORDS), DIDNT.text]
    census = take_census(corpus, encoder)
    assert census.misread.differing == Named(1, ("mine:4",))
    assert [*census.warnings(None)][-1] == (
        "sentences whose # text has other letters than their words, read as the words are: "
        "1 (mine:4)"
    )


class Backwards(ByT5Tokenizer):
    """A slow tokenizer whose pieces can't be followed through the text."""

    def tokenize(self, text: str, **options: object) -> list[str]:
        """The bytes from the last to the first."""
        return super().tokenize(text[::-1], **options)


def test_a_sentence_that_can_not_be_mapped_is_named_and_counted() -> None:
    corpus, encoder = Corpus.from_sentences([DIDNT] * 5), Encoder(Backwards())
    census = take_census(corpus, encoder)
    assert census.misread.unmapped.count == 5 and census.counts.words_lost == 35
    assert [*census.warnings(None)][-1] == (
        "sentences whose words can't be found in the tokenizer's pieces, so that nothing is known "
        "of their words: 5 (bank.conllu:3, bank.conllu:3, bank.conllu:3, ...)"
    )
    (batch,) = Batches(corpus, encoder, census)
    assert batch.arcs is not None and len(batch.arcs.head_A) == 0
    assert {*batch.source.word_BN.flatten().tolist()} == {-1}


def test_truncation_counts_all_words_of_a_merged_one() -> None:
    encoder = Encoder(wordpiece(), max_length=4)  # [CLS] she didn [SEP]
    (one,) = encoder.sources(list(Corpus.from_sentences([DIDNT])))
    assert one.word_of == [-1, 0, 1, -1]
    assert (one.num_words_cut, one.num_words_lost) == (4, 0)
    (one,) = Encoder(wordpiece(), max_length=3).sources(list(Corpus.from_sentences([DIDNT])))
    assert one.num_words_cut == 6


def test_sentences_in_one_line() -> None:
    both = in_one_line([DIDNT, ZUM])
    assert both.text == f"{DIDNT.text} {ZUM.text}".replace(DIDNT.text, " ".join(WORDS))
    (placed,) = Corpus.from_sentences([DIDNT])
    both = in_one_line([placed, ZUM])
    assert both.text == f"{DIDNT.text} {ZUM.text}" and both.words == (*WORDS, *(ZUM.words or ()))
    assert [both.form([word]) for word in (2, 9, 10)] == ["n't", "zum", "zum"]
    assert in_one_line([as_words(placed)]).text == " ".join(WORDS)


LETTERS = st.text("ab,'", min_size=1, max_size=4)


@given(st.data())
def test_layouts_by_the_book(data: st.DataObject) -> None:
    """Any words with any spaces, multiword tokens and pieces, against the definition."""
    tokens = data.draw(st.lists(LETTERS, min_size=1, max_size=6))
    spaces = [data.draw(st.sampled_from(["", " ", "  "])) for _ in tokens]
    text = "".join(token + space for token, space in zip(tokens, spaces, strict=True))
    spans = located(text, tokens)
    assert spans is not None and [*spans] == written.places_of(text, tokens)
    assert located(text + "x", tokens) is None
    times = [data.draw(st.sampled_from([1, 1, 1, 2])) for _ in tokens]
    spans = tuple(span for span, count in zip(spans, times, strict=True) for _ in range(count))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    edges = [0, *cuts, len(text)]
    pieces = [(start, end) for start, end in zip(edges, edges[1:], strict=False)]
    layout = Layout(text, spans)
    words = layout.words_of(pieces)
    assert [{*its} for its in words] == [
        written.words_touched(text, spans, piece) for piece in pieces
    ]
    expected = written.merged(text, spans, pieces)
    merged = layout.merged(words)
    assert (merged or [*range(len(spans))]) == expected
    assert (merged is None) == (len({*expected}) == len(expected))
