"""What tests need, by half and by unit: sums of the package against slow loops over queries."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from headcount.measures import TRAITS, Looks, RelationTests, Sides, Traits, class_weights, traits
from headcount.measures.looks import REACH
from headcount.measures.traits import CLASSES
from headcount.vocabulary import DIRECTIONS
from tests.measures.cases import (
    BASELINES,
    COUNTS,
    RELATIONS,
    TOP,
    Example,
    cases,
    moments_of,
    random_side,
    tokens,
)
from tests.textbook import halves, patterns, rare, syntactic

Found = list[tuple[int, float, float]]
Sums = tuple[list[float], list[float], list[float], float, float, float, int]


def by_unit(examples: list[Example], of_example: Callable[[Example], Found]) -> Sums:
    """Hits, cases and chance by half; of the second half, the moments and units."""
    hits, num_cases, chance = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    of_units: dict[tuple[int, int], list[float]] = {}
    for number, example in enumerate(examples):
        for query, hit, by_chance in of_example(example):
            half = example.queries.is_second[query]
            hits[half] += hit
            num_cases[half] += 1
            chance[half] += by_chance
            if half:
                unit = of_units.setdefault((number, example.queries.unit_of[query]), [0.0, 0.0])
                unit[0] += hit
                unit[1] += 1
    squares = sum(x * x for x, _ in of_units.values())
    products = sum(x * n for x, n in of_units.values())
    cases_squares = sum(n * n for _, n in of_units.values())
    return hits, num_cases, chance, squares, products, cases_squares, len(of_units)


def _looks(e: Example, head: int, offset: int, is_causal: bool) -> Found:
    flags = e.queries.is_special, e.keys.is_special
    return halves.looks_of_sentence(e.A[head].tolist(), *flags, offset, is_causal)


@pytest.mark.once
@pytest.mark.parametrize("name", ["self", "cross", "bert", "gpt2", "llama"])
def test_looks_are_the_textbook(name: str):
    for case in cases(name):
        sums = case.sums[Looks]
        assert isinstance(sums, Looks)
        is_causal, examples = name in ("gpt2", "llama"), list(case.examples)
        for offset in (-3, -1, 0, 1, 2):
            for head in range(len(examples[0].A)):
                args = (head, offset, is_causal)
                found = by_unit(examples, lambda e, args=args: _looks(e, *args))
                hits, num_cases, chance, squares, products, cases_squares, num_units = found
                at = REACH + offset
                assert sums.hits[:, head, at].tolist() == hits
                assert sums.cases[:, at].tolist() == num_cases
                assert sums.chance[:, at].tolist() == pytest.approx(chance)
                own = moments_of(sums.moments, at, head)
                assert [int(each) for each in own] == [squares, products, cases_squares, num_units]


def _rarest(e: Example, is_causal: bool) -> list[list[int]]:
    ids, special = e.keys.ids, e.keys.is_special
    found = []
    for query in range(len(e.queries)):
        places = halves.rarest_seen(ids, special, query, COUNTS, is_causal)
        is_rare = bool(places) and rare.rank(ids[places[0]], COUNTS) >= TOP
        found.append(places if is_rare else [])
    return found


def _in_class(e: Example, trait: str, query: int) -> list[bool]:
    segment = patterns.segments(e.keys.is_sep, e.keys.is_special)
    if trait == "segment":
        has_two = e.keys is e.queries and max(segment, default=0) > 0
        return [has_two and each == segment[query] for each in segment]
    is_first = [key == 0 for key in range(len(e.keys))]
    return {"first": is_first, "separator": e.keys.is_sep, "punctuation": e.keys.is_punct}[trait]


def _trait(e: Example, head: int, trait: str, is_causal: bool) -> Found:
    A, rarest, special = e.A[head].tolist(), _rarest(e, is_causal), e.keys.is_special
    if trait == "rare":
        return halves.rare_cases(A, rarest, e.queries.is_special, special, is_causal)
    found = []
    for query in range(len(A)):
        more = (rarest, special, is_causal, e.queries is e.keys)
        each = halves.trait_cases(A, trait, _in_class(e, trait, query), *more)
        found += [one for one in each if one[0] == query]
    return found


@pytest.mark.parametrize("name", ["self", "cross", "bert", "gpt2"])
@pytest.mark.parametrize("trait", TRAITS)
def test_traits_are_the_textbook(name: str, trait: str):
    for case in cases(name)[:2]:
        sums, t = case.sums[Traits], TRAITS.index(trait)
        assert isinstance(sums, Traits)
        examples = list(case.examples)
        for head in range(len(examples[0].A)):
            found = by_unit(examples, lambda e, h=head: _trait(e, h, trait, name == "gpt2"))
            hits, num_cases, chance, squares, products, cases_squares, num_units = found
            assert sums.weight[:, t, head].tolist() == pytest.approx(hits)
            assert sums.cases[:, t].tolist() == num_cases
            assert sums.chance[:, t].tolist() == pytest.approx(chance)
            own = [float(each) for each in moments_of(sums.moments, t, head)]
            assert own == pytest.approx([squares, products, cases_squares, num_units])


def test_a_causal_query_in_the_only_segment_that_it_sees_is_no_case():
    """Also that the cases of our classes are those of each by itself, as a plug-in's are."""
    side = random_side(np.random.default_rng(3), 31)
    is_sep = [place in (14, 30) for place in range(31)]
    read = tokens([replace(side, is_sep=is_sep, is_special=is_sep)])
    sides = Sides(read, read, None, is_causal=True)
    together, alone = (
        traits._Cases.of(sides).counted.sums,
        class_weights._Counting(CLASSES)(sides).sums,
    )
    for name, each in vars(alone).items():
        ours = getattr(together, name)
        ours = ours[:, : len(CLASSES)] if ours.ndim > 1 else ours
        torch.testing.assert_close(ours, each, msg=name)
    num_cases = alone.cases.sum(0)[TRAITS.index("segment")]
    assert num_cases == 30 - 14


@pytest.mark.parametrize("name", ["self", "cross", "bert"])
def test_offsets_of_rare_tokens_are_the_textbook(name: str):
    """One bin for each offset up to `REACH`, then one for those before and one for those after."""
    seen = 0
    for case in cases(name):
        sums, found = case.sums[Traits], np.zeros((2, 2 * REACH + 3), int)
        assert isinstance(sums, Traits)
        for e in case.examples:
            rarest = _rarest(e, is_causal=False)
            for query, *_ in _trait(e, 0, "rare", is_causal=False):
                for offset in (place - query for place in rarest[query]):
                    farther = 2 * REACH + 1 + (offset > 0)
                    at = offset + REACH if abs(offset) <= REACH else farther
                    found[int(e.queries.is_second[query]), at] += 1
        assert sums.rare_offsets.tolist() == found.tolist()
        seen += found.sum()
    assert seen > 0


@pytest.mark.parametrize("name", ["self", "bert", "llama"])
def test_relations_are_the_textbook(name: str):
    for case in cases(name):
        sums = case.sums[RelationTests]
        assert isinstance(sums, RelationTests)
        for head in range(len(case.examples[0].A)):
            hits, squares, products = _relation_sums(list(case.examples), head)
            np.testing.assert_allclose(sums.hits[:, :, head].numpy(), hits)
            for d in range(len(DIRECTIONS)):
                moments = sums.moments_of(d)
                np.testing.assert_allclose(moments.squares[:, head].numpy(), squares[:, d])
                np.testing.assert_allclose(moments.products[:, head].numpy(), products[:, d])


def _relation_sums(examples: list[Example], head: int) -> tuple[np.ndarray, ...]:
    """Hits by half, relation and direction; squares and products of the second half's gains.

    An arc is in the half and the unit of its later word.
    """
    hits = np.zeros((2, len(RELATIONS), len(DIRECTIONS)))
    squares, products = np.zeros(hits.shape[1:]), np.zeros(hits.shape[1:])
    for e in examples:
        rows = syntactic.word_map(e.A, e.keys.word_of)[head].tolist()
        gains: dict[int, np.ndarray] = {}
        num: dict[int, np.ndarray] = {}
        for word, (parent, name) in enumerate(zip(e.heads, e.relations, strict=True)):
            if parent < 0:
                continue
            later = [n for n, each in enumerate(e.keys.word_of) if each == max(word, parent)]
            if not later:  # the word has no piece, so no unit
                continue
            half = max(e.keys.is_second[n] for n in later)
            units = [e.keys.unit_of[n] for n in later if e.keys.is_second[n]]
            unit, r = max(units, default=-1), RELATIONS.index(name)
            gains.setdefault(unit, np.zeros(hits.shape[1:]))
            num.setdefault(unit, np.zeros(len(RELATIONS)))[r] += half
            for d, direction in enumerate(DIRECTIONS):
                hit = syntactic._is_right(rows, word, parent, direction)
                hits[int(half), r, d] += hit
                gains[unit][r, d] += half * (hit - (parent - word == BASELINES[r]))
        for unit, gain in gains.items():
            squares += gain**2
            products += gain * num[unit][:, None]
    return hits, squares, products
