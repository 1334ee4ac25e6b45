"""Halves and units of a corpus: many texts by hash, few texts in segments."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from headcount.corpora import (
    Batches,
    Corpus,
    Encoder,
    Frequencies,
    Sentence,
    Tree,
    take_census,
    with_baselines,
)
from headcount.corpora.halves import (
    EARLY,
    FIRST_HALF,
    GAP,
    LEAST_UNITS,
    NO_HALF,
    SECOND_HALF,
    SEGMENT,
    Halves,
    first_cases,
    halves_of,
    is_in_second_half,
    num_missing,
    shared,
)
from tests import tiny_tokenizers

WORDS = ("the", "from", "green", "jumped", "bought", "kitchen", "barked", "two")


def text_of(length: int, seed: int) -> str:
    """A text of common words, one token each."""
    return " ".join(np.random.default_rng(seed).choice(WORDS, length))


def encoder_of(windows: int | None = None) -> Encoder:
    return Encoder(tiny_tokenizers.wordpiece(), windows, windows=windows is not None)


def of(texts: list[str], encoder: Encoder | None = None, is_causal: bool = False) -> Halves:
    encoder, corpus = encoder or encoder_of(), Corpus.from_sentences(texts)
    frequencies = take_census(corpus, encoder).source_frequencies
    return halves_of(corpus, encoder, frequencies, is_causal)


def by_hash(first: int, second: int, length: int = 20) -> list[str]:
    """Texts of which so many are in each half."""
    found: list[str] = []
    left, seed = [first, second], 0
    while any(left):
        text, seed = text_of(length, seed), seed + 1
        half = is_in_second_half(Sentence(text))
        if left[half]:
            left[half] -= 1
            found.append(text)
    return found


def placed(texts: list[str], encoder: Encoder) -> list[tuple[list[int], list[int]]]:
    """Units and halves of the tokens of each text, in order, windows joined."""
    corpus = Corpus.from_sentences(texts)
    census = take_census(corpus, encoder)
    halves = halves_of(corpus, encoder, census.source_frequencies, False)
    made = Batches(corpus, encoder, census, max_tokens=200, halves=halves)
    rows: dict[str, list[tuple[list[int], list[int]]]] = {}
    for batch in made:
        side = batch.source
        for row, sentence in enumerate(batch.sentences):
            keep = side.is_token_BN[row].clone()
            if batch.is_measured_BN is not None:
                keep &= batch.is_measured_BN[row]
            own = side.unit_BN[row][keep].tolist(), side.half_BN[row][keep].tolist()
            rows.setdefault(sentence.text, []).append(own)
    # The second halves of a text come after its first ones
    found = []
    for text in texts:
        parts = sorted(rows[text], key=lambda own: (own[1][0] == NO_HALF, own[1], own[0]))
        found.append((sum((own[0] for own in parts), []), sum((own[1] for own in parts), [])))
    return found


def sizes_of(units: list[int], halves: list[int]) -> Counter[int]:
    """Number of tokens of each unit."""
    return Counter(u for u, half in zip(units, halves, strict=True) if half != NO_HALF)


def test_a_text_is_in_one_half_wherever_it_stands():
    texts = [Sentence(f"sentence number {number}") for number in range(400)]
    second = [is_in_second_half(text) for text in texts]
    assert 160 < sum(second) < 240
    pairs = [is_in_second_half(Sentence("same", second=str(n))) for n in range(20)]
    assert {True, False} == set(pairs), "the second sentence of a pair counts"


@pytest.mark.parametrize(
    "first, second, expected", [(10, 10, "texts"), (9, 30, "none"), (30, 9, "none")]
)
def test_texts_are_units_if_each_half_has_ten(first: int, second: int, expected: str):
    assert str(of(by_hash(first, second))) == expected


def test_only_texts_with_a_case_of_the_first_token_count():
    """A causal model needs a token after the first ten; [CLS] and [SEP] are two more."""
    short, long = by_hash(12, 12, EARLY - 2), by_hash(12, 12, EARLY - 1)
    assert [str(of(texts, is_causal=True)) for texts in (short, long)] == ["none", "texts"]
    assert str(of(short)) == "texts", "an encoder needs three tokens"


def test_neighbours_of_the_first_token_and_early_queries_are_no_cases():
    later_BQ2 = torch.ones(1, 12, 2, dtype=torch.long)
    first = [first_cases(later_BQ2, *given)[0].tolist().index(True) for given in WHERE]
    assert first == [2, 0, 10]


WHERE = ((False, True), (False, False), (True, True))
"""Whether queries see no later tokens, and whether the first stands at the first token."""


def test_a_rare_first_token_is_no_case():
    """GPT-2's texts begin with content: a first token that is the rarest of all is no sink."""
    encoder = Encoder(tiny_tokenizers.byte_level("gpt2"))
    texts = by_hash(12, 12)
    corpus = Corpus.from_sentences(texts)
    firsts = {pair.source.ids[0] for pair in encoder.encode([*corpus])}
    counts = take_census(corpus, encoder).source_counts.copy()
    common = halves_of(corpus, encoder, Frequencies.of_counts(counts), True)
    assert str(common) == "texts"
    # 600 tokens that are more common, so that those of the texts are rare, the first ones most
    counts = np.concatenate([counts, np.full(600, 10**6)])
    counts[list(firsts)] = 0
    assert str(halves_of(corpus, encoder, Frequencies.of_counts(counts), True)) == "none"


LONG = 2 * LEAST_UNITS * SEGMENT + GAP


def test_one_text_is_ten_segments_of_each_half():
    ((units, halves),) = placed([text_of(LONG - 2, 1)], encoder_of())
    assert len(units) == LONG
    expected = [n // SEGMENT for n in range(10 * SEGMENT)]
    assert units[: 10 * SEGMENT] == expected and set(halves[: 10 * SEGMENT]) == {FIRST_HALF}
    assert set(halves[10 * SEGMENT : -10 * SEGMENT]) == {NO_HALF}
    assert halves.count(NO_HALF) == GAP
    assert units[-10 * SEGMENT :] == [LEAST_UNITS + each for each in expected]
    assert set(halves[-10 * SEGMENT :]) == {SECOND_HALF}


def test_a_text_without_enough_tokens_is_not_tested():
    halves = of([text_of(LONG - 12, 1)])
    assert (str(halves), halves.missing) == ("none", 10)
    ((_, found),) = placed([text_of(LONG - 12, 1)], encoder_of())
    assert set(found) == {NO_HALF}


def test_texts_share_the_segments_by_length():
    sizes = [6 * 2 * SEGMENT + GAP - 2, 20, 4 * 2 * SEGMENT + GAP - 2]
    texts = [text_of(size, number) for number, size in enumerate(sizes)]
    first, short, last = placed(texts, encoder_of())
    assert set(short[1]) == {NO_HALF}
    for (units, halves), count, start in ((first, 6, 0), (last, 4, 6)):
        pairs = sorted({*zip(units, halves, strict=True)})
        numbers = range(start, start + count)
        own = [(n, FIRST_HALF) for n in numbers] + [(LEAST_UNITS + n, SECOND_HALF) for n in numbers]
        assert [pair for pair in pairs if pair[1] != NO_HALF] == own, "none spans two texts"
        sizes = [
            sum(u == n and h != NO_HALF for u, h in zip(units, halves, strict=True)) for n, _ in own
        ]
        assert min(sizes) >= SEGMENT
    halves = of(texts)
    found = (halves.num_texts, halves.num_short, halves.num_tokens)
    assert found == (2, 1, len(first[0]) + len(last[0]))


def test_windows_of_a_text_continue_its_segments():
    text = text_of(LONG - 2, 3)
    ((_, whole),) = placed([text], encoder_of())
    ((units, halves),) = placed([text], encoder_of(64))
    counts = {
        n: sum(u == n and h >= 0 for u, h in zip(units, halves, strict=True)) for n in range(20)
    }
    assert len(units) > len(whole) and min(counts.values()) >= SEGMENT
    assert max(counts.values()) - min(counts.values()) <= 1


def test_the_missing_tokens_are_enough():
    rng = np.random.default_rng(4)
    for _ in range(50):
        sizes = rng.integers(20, 1500, rng.integers(1, 8)).tolist()
        missing = num_missing(sizes)
        shares = shared(sizes)
        smallest = min((size - GAP) // 2 // n for size, n in zip(sizes, shares, strict=True) if n)
        assert (missing == 0) == (smallest >= SEGMENT)
        if missing:  # no fewer tokens would do, whichever texts they lengthen
            assert any(_lengthened(sizes, missing))
            assert not any(_lengthened(sizes, missing - 1))


def _lengthened(sizes: list[int], by: int) -> list[bool]:
    """Whether enough segments fit, with the tokens on one text or on those that need fewest."""
    room, found = 2 * SEGMENT, []
    for chosen in range(1, 2 ** len(sizes)) if len(sizes) < 9 else ():
        grown, left = [*sizes], by
        members = [n for n in range(len(sizes)) if chosen >> n & 1]
        for n in members[1:]:
            need = (GAP - grown[n]) % room if grown[n] > GAP else GAP + room - grown[n]
            grown[n], left = grown[n] + need, left - need
        grown[members[0]] += left
        found.append(left >= 0 and num_missing(grown) == 0)
    return found or [num_missing([*sizes[:-1], sizes[-1] + by]) == 0]


def test_baselines_of_one_text_are_of_its_earlier_part():
    """Arcs of one place in the first half and of two places in the second."""
    words = tuple(text_of(LONG, 5).split())
    length = len(words)
    heads = [-1] + [n - (1 if n < length // 2 else 2) for n in range(1, length)]
    tree = Tree(tuple(heads), ("root", *["obj"] * (length - 1)), ("X",) * length)
    corpus = Corpus.from_sentences([Sentence(" ".join(words), words, tree)])
    encoder = encoder_of()
    census = take_census(corpus, encoder)
    halves = halves_of(corpus, encoder, census.source_frequencies, False)
    assert str(halves) == "segments"
    assert with_baselines(census, corpus, encoder, halves).baseline_offsets == {"obj": -1}
    heads = [-1] + [n - (2 if 1 < n < length // 2 else 1) for n in range(1, length)]
    tree = replace(tree, heads=tuple(heads))
    corpus = Corpus.from_sentences([Sentence(" ".join(words), words, tree)])
    assert with_baselines(census, corpus, encoder, halves).baseline_offsets == {"obj": -2}
