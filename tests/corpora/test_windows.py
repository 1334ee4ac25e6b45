"""Windows: every token is measured once, words stay in one piece, arcs count in one window."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.core import CorpusError
from headcount.corpora import (
    Batches,
    Corpus,
    Encoded,
    Encoder,
    Sentence,
    Tree,
    stretches,
    take_census,
)
from headcount.corpora.encoder import EncodedPair
from headcount.corpora.halves import NO_HALF, is_in_second_half
from headcount.corpora.windows import in_windows
from tests import tiny_tokenizers

SIZES = st.lists(st.integers(1, 7), max_size=40)
WORDS = ("der", "Hund", "sah", "über", "2024", "Äpfel", "!", "und", "schlief")


@given(SIZES, st.integers(2, 9))
def test_every_unit_is_measured_once_in_windows_that_fit(sizes: list[int], limit: int) -> None:
    found = [*stretches(sizes, limit)]
    measured = [unit for _, first, end in found for unit in range(first, end)]
    assert measured == [unit for unit, size in enumerate(sizes) if size <= limit]
    for begin, first, end in found:
        assert begin <= first < end and sum(sizes[begin:end]) <= limit
        assert sum(sizes[begin:first]) <= limit // 2, "context is at most half of a window"


@given(st.integers(0, 60), st.integers(2, 9))
def test_windows_of_tokens_are_full_and_overlap_by_half(length: int, limit: int) -> None:
    found = [*stretches([1] * length, limit)]
    for begin, first, _ in found[1:]:
        assert first - begin == limit // 2
    assert all(end - begin == limit for begin, _, end in found[:-1])
    assert all(one[2] == other[1] for one, other in pairwise(found))


def encoded(word_of: list[int]) -> Encoded:
    """[CLS] tokens [SEP]; ids say where a token is."""
    ids = [*range(100, 102 + len(word_of))]
    special = [True, *[False] * len(word_of), True]
    return Encoded(ids, [-1, *word_of, -1], special, len(ids), num_words_lost=3)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.integers(6, 12))
def test_words_stay_in_one_piece(pieces: list[int], max_length: int) -> None:
    word_of = [word for word, size in enumerate(pieces) for _ in range(size)]
    text = encoded(word_of)
    windows = in_windows(text, max_length)
    if len(text.ids) <= max_length:
        assert windows == [text]
        return
    assert all(one.ids[0] == 100 and one.ids[-1] == text.ids[-1] for one in windows)
    assert all(len(one.ids) == one.full_length <= max_length for one in windows)
    content = [token for one in windows for token in one.measured(one.ids)[1:-1]]
    assert content == text.ids[1:-1], "every token is measured once, in order"
    limit = max_length - 2
    for one in windows:
        for word in {*one.word_of} - {-1}:
            assert one.word_of.count(word) == pieces[word] <= limit
    assert [one.num_words_lost for one in windows] == [3, *[0] * (len(windows) - 1)]
    cut = [one.num_words_cut for one in windows]
    assert cut == [sum(size > limit for size in pieces), *[0] * (len(windows) - 1)]


def in_pairs(tree: Tree, windows: list[Encoded]) -> list[EncodedPair]:
    words = tuple("w" * len(tree.heads))
    return [EncodedPair(Sentence(" ".join(words), words, tree), one, None) for one in windows]


@pytest.mark.slow
@given(st.data())
def test_an_arc_counts_once_if_some_window_has_both_words(data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=20))
    size = len(pieces)
    others = [st.integers(-1, size - 1).filter(lambda h, w=w: h != w) for w in range(size)]
    heads = [data.draw(other) for other in others]
    tree = Tree(tuple(heads), ("obj",) * size, ("X",) * size)
    word_of = [word for word, of in enumerate(pieces) for _ in range(of)]
    windows = in_windows(encoded(word_of), 8)
    found = [arc for pair in in_pairs(tree, windows) for arc in pair.arcs()]
    expected = [
        (word, head, "obj")
        for word, head in enumerate(heads)
        if any(word in one.word_of and (head < 0 or head in one.word_of) for one in windows)
    ]
    assert sorted(found) == sorted(expected)


def treebank(*lengths: int) -> list[Sentence]:
    """Sentences in which every word hangs on the first."""
    made = []
    for length in lengths:
        words = tuple(WORDS[word % len(WORDS)] for word in range(length))
        relations = ("root", *["obj"] * (length - 1))
        tree = Tree((-1, *[0] * (length - 1)), relations, ("X",) * length)
        made.append(Sentence(" ".join(words), words, tree))
    return made


def test_the_census_counts_windows_and_arcs_out_of_reach() -> None:
    tokenizer, sentences = tiny_tokenizers.wordpiece(), treebank(3, 30)
    pieces = len(Encoder(tokenizer).sources(sentences)[1].ids)
    encoder = Encoder(tokenizer, 16, windows=True)
    census = take_census(Corpus.from_sentences(sentences), encoder)
    made = encoder.encode(sentences)
    plain = take_census(Corpus.from_sentences(sentences), Encoder(tokenizer))
    assert (census.counts.sentences, census.counts.windowed, census.counts.windows) == (
        2,
        1,
        len(made) - 1,
    )
    assert census.num_rows == len(made) >= 4
    assert census.counts.tokens == plain.counts.tokens + 2 * (census.counts.windows - 1), (
        "special ones again"
    )
    assert (census.counts.longest, plain.counts.longest) == (16, pieces)
    np.testing.assert_array_equal(census.source_counts, plain.source_counts)
    assert (census.counts.truncated, census.counts.words_cut) == (0, 0)
    in_first = len({*made[1].source.word_of} - {-1, 0})
    assert census.counts.out_of_reach == 29 - in_first > 0
    (warning,) = census.warnings(16)
    assert warning == (
        "sentences longer than a window of 16 tokens, read in windows: 1 of 2, in "
        f"{census.counts.windows} windows"
    )


def test_the_baseline_is_of_arcs_that_count_in_the_first_half() -> None:
    (sentence,) = treebank(30)
    encoder = Encoder(tiny_tokenizers.wordpiece(), 16, windows=True)
    census = take_census(Corpus.from_sentences([sentence]), encoder)
    offsets = [
        head - word
        for pair in encoder.encode([sentence])
        if not is_in_second_half(sentence)
        for word, head, _ in pair.arcs()
        if head >= 0
    ]
    expected = {"obj": min(offsets, key=abs)} if offsets else {}
    assert dict(census.baseline_offsets) == expected


@pytest.mark.parametrize("max_tokens", [16, 10**6])
def test_batches_of_windows(max_tokens: int) -> None:
    tokenizer, sentences = tiny_tokenizers.wordpiece(), treebank(3, 30, 5)
    corpus, encoder = Corpus.from_sentences(sentences), Encoder(tokenizer, 16, windows=True)
    census = take_census(corpus, encoder)
    made = [*Batches(corpus, encoder, census, max_tokens=max_tokens)]
    assert sum(len(batch.sentences) for batch in made) == census.num_rows
    measured = 0
    arcs = roots = 0
    for batch in made:
        flags = batch.is_measured_BN
        measured += int((batch.source.is_token_BN if flags is None else flags).sum())
        assert batch.arcs is not None
        arcs, roots = arcs + len(batch.arcs.head_A), roots + batch.arcs.num_roots
    has_short = any(batch.is_measured_BN is None for batch in made)
    assert has_short == (max_tokens == 16), "short sentences are no windows"
    assert (measured, roots) == (census.counts.tokens, 3)
    assert arcs == 2 + 29 + 4 - census.counts.out_of_reach
    moved = made[-1].to("meta").is_measured_BN
    assert moved is not None and moved.device.type == "meta"


def test_the_windows_of_a_text_are_one_unit() -> None:
    texts = ["die Katze schlief", "der Hund sah " * 60, "das Kind schlief " * 20]
    encoder = Encoder(tiny_tokenizers.wordpiece(), 16, windows=True)
    corpus = Corpus.from_sentences(texts)
    made = [*Batches(corpus, encoder, take_census(corpus, encoder), max_tokens=40)]
    assert len(made) > 3
    number_of = {text.strip(): number for number, text in enumerate(texts)}
    rows: Counter[int] = Counter()
    for batch in made:
        for row, sentence in enumerate(batch.sentences):
            of_row = batch.source.is_token_BN[row]
            number = number_of[sentence.text]
            assert set(batch.source.unit_BN[row][of_row].tolist()) == {number}
            halves = {int(is_in_second_half(sentence)), NO_HALF}
            assert set(batch.source.half_BN[row].tolist()) <= halves, "context is in no half"
            rows[number] += 1
    for batch in made:
        found = batch.source.rows_B.tolist()
        assert found == [rows[number_of[sentence.text]] for sentence in batch.sentences]


def test_without_long_texts_nothing_changes() -> None:
    tokenizer, sentences = tiny_tokenizers.wordpiece(), treebank(3, 7)
    corpus = Corpus.from_sentences(sentences)
    for limit in (None, 64):
        plain, windows = Encoder(tokenizer, limit), Encoder(tokenizer, limit, windows=True)
        assert windows.encode(sentences) == plain.encode(sentences)
        assert take_census(corpus, windows).counts.windows == 0


@pytest.mark.parametrize("name", ["wordpiece", "llama", "byt5", "t5"])
def test_tokenizers_of_all_kinds(name: str) -> None:
    tokenizer = getattr(tiny_tokenizers, name)()
    sentence = Sentence("der Hund sah über 2024 Äpfel und schlief ein .")
    (full,) = Encoder(tokenizer).sources([sentence])
    windows = [pair.source for pair in Encoder(tokenizer, 9, windows=True).encode([sentence])]
    content = [flag for one in windows for flag in one.measured(one.is_special)].count(False)
    assert len(windows) > 1 and content == full.is_special.count(False)
    for one in windows:
        assert one.is_special.count(True) == full.is_special.count(True)


def test_what_has_no_windows_is_refused() -> None:
    tokenizer = tiny_tokenizers.wordpiece()
    with pytest.raises(CorpusError, match="got an encoder-decoder"):
        Encoder(tokenizer, 16, start_id=1, windows=True)
    pair = Sentence("der Hund " * 9, second="sah", origin="a.tsv:1")
    with pytest.raises(CorpusError, match=r"a\.tsv:1: expected a pair of at most 16 tokens"):
        Encoder(tokenizer, 16, windows=True).encode([pair])
    with pytest.raises(CorpusError, match="expected room for 2 tokens in a window, got 1"):
        Encoder(tokenizer, 3, windows=True).encode([Sentence("der Hund sah")])
