"""Token frequencies and the positions of the rarest tokens, against a plain loop."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora import Encoder, Frequencies
from headcount.corpora.frequencies import add_counts

Tokenizers = dict[str, PreTrainedTokenizerBase]


def test_ranks() -> None:
    found = Frequencies.of_counts(np.array([5, 0, 9, 5, 0]))
    assert found.ranks_V.tolist() == [1, 3, 0, 2, 4]


def rarest_by_hand(
    counts: list[int], ids: list[int], content: list[bool], num_common: int
) -> list[int]:
    def count(token: int) -> int:
        return counts[token] if token < len(counts) else 0

    def rank(token: int) -> float:
        if token >= len(counts):
            return float("inf")
        return sorted(range(len(counts)), key=lambda one: (-counts[one], one)).index(token)

    order: list[int] = []
    for position in range(len(ids)):
        if content[position]:
            order.append(position)
    order.sort(key=lambda position: (count(ids[position]), position))
    if not order or rank(ids[order[0]]) < num_common:
        return [-1, -1]
    return [*order[:2], -1][:2]


@pytest.mark.slow
@given(st.data())
def test_rarest_agrees_with_the_definition(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=7))
    num_tokens = data.draw(st.integers(1, 5))
    num_common = data.draw(st.integers(0, 5))
    row = st.lists(st.integers(0, 8), min_size=num_tokens, max_size=num_tokens)
    flags = st.lists(st.booleans(), min_size=num_tokens, max_size=num_tokens)
    ids_BN = data.draw(st.lists(row, min_size=3, max_size=3))
    content_BN = data.draw(st.lists(flags, min_size=3, max_size=3))
    found = Frequencies.of_counts(np.array(counts)).rarest(
        np.array(ids_BN), np.array(content_BN), num_common
    )
    rows = zip(ids_BN, content_BN, strict=True)
    assert found.tolist() == [rarest_by_hand(counts, *each, num_common) for each in rows]


def test_ties_go_to_the_earlier_token() -> None:
    frequencies = Frequencies.of_counts(np.array([9, 2, 2, 2]))
    ids, content = np.array([[0, 3, 1, 3]]), np.ones((1, 4), dtype=bool)
    assert frequencies.rarest(ids, content, num_common=0).tolist() == [[1, 2]]


def test_the_top_500_are_common() -> None:
    frequencies = Frequencies.of_counts(np.arange(600, 0, -1))
    ids, content = np.array([[499, 3], [500, 3], [3, 999]]), np.ones((3, 2), dtype=bool)
    assert frequencies.rarest(ids, content).tolist() == [[-1, -1], [0, 1], [1, 0]]


def test_counts_of_different_lengths_add() -> None:
    left, right = np.array([1, 2]), np.array([10, 20, 30])
    assert add_counts(left, right).tolist() == add_counts(right, left).tolist() == [11, 22, 30]
    assert left.tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["gpt2", "wordpiece", "marian"])
def test_a_words_count_goes_to_each_of_its_pieces(
    tokenizers: Tokenizers, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "counts.txt"
    path.write_text("собака 7\nschläft 5\n\nthe dog\t3\n", encoding="utf-8")
    encoder = Encoder(tokenizers[kind])
    expected: dict[int, int] = {}
    for word, count in (("собака", 7), ("schläft", 5), ("the dog", 3)):
        for token in encoder.single_words([word])[0]:
            expected[token] = expected.get(token, 0) + count
    counts_V = Frequencies.from_file(path, encoder).counts_V
    assert {int(token): int(counts_V[token]) for token in np.flatnonzero(counts_V)} == expected


def test_chunks_of_a_long_file_add_up(
    tokenizers: Tokenizers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counts.txt"
    path.write_text("the 5\ndog 4\ncat 3\nthe 2\nmoon 1\n")
    encoder = Encoder(tokenizers["wordpiece"])
    whole = Frequencies.from_file(path, encoder).counts_V
    monkeypatch.setattr("headcount.corpora.frequencies.WORDS_AT_ONCE", 2)
    assert np.array_equal(Frequencies.from_file(path, encoder).counts_V, whole)


def test_bad_frequency_files(tokenizers: Tokenizers, tmp_path: Path) -> None:
    encoder = Encoder(tokenizers["wordpiece"])
    path = tmp_path / "counts.txt"
    for row in ("dog", "dog many", "dog -3", "dog 1.5"):
        path.write_text(f"the 5\n{row}\n")
        message = f"{path}:2: expected a word and its count (`house 1234`), got {row!r}. Fix"
        with pytest.raises(CorpusError, match=re.escape(message)):
            Frequencies.from_file(path, encoder)
    path.write_text("\n")
    message = f"Expected lines `word count` in {path}, got none"
    with pytest.raises(CorpusError, match=re.escape(message)):
        Frequencies.from_file(path, encoder)
