"""Measures of images: the package's sums against slow loops over patches, and the laws of sums."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import t as student

from headcount.core import Grid, Heads, LayerId
from headcount.corpora import NO_HALF
from headcount.measures import (
    DISPLACEMENTS,
    IMAGE_MEASURES,
    PATCH_TRAITS,
    Attention,
    AttentionReducer,
    PatchLooks,
    PatchSpots,
    PatchTraits,
    PatchWeights,
    Sides,
    Sums,
)
from headcount.measures.streaming import Totals
from headcount.tap import AttentionLayer, Reduction
from headcount.testing import laws
from tests.measures.cases import Side, moments_of, reduced, tokens
from tests.textbook import halves, patches

NUM_HEADS, NUM_IMAGES, HEAD_DIM = 5, 7, 3
GRIDS = {"class": Grid(3, 4, 1), "registers": Grid(4, 3, 3), "bare": Grid(2, 5, 0)}
IS_SECOND = [True, False, True, True, False, True, False]


@cache
def maps(name: str, num_images: int = NUM_IMAGES) -> np.ndarray:
    """Random maps [image, head, query, key]; the last head's are even."""
    size = GRIDS[name].num_tokens
    scores = np.random.default_rng(size).normal(size=(num_images, NUM_HEADS, size, size))
    scores *= np.array([1, 3, 6, 0.1, 0])[:, None, None]
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


def attend(
    name: str, images: slice = slice(None), empty: bool = False, num_images: int = NUM_IMAGES
) -> Attention:
    """What a reducer makes of some images."""
    grid, chosen = GRIDS[name], [*range(num_images)][images]
    special = [number < grid.special for number in range(grid.num_tokens)]
    none = [False] * grid.num_tokens
    side = tokens(
        [
            Side(
                [0] * grid.num_tokens,
                special,
                none,
                none,
                [-1] * grid.num_tokens,
                [0] * grid.num_tokens,
                [IS_SECOND[n % NUM_IMAGES]] * grid.num_tokens,
            )
            for n in chosen
        ]
    )
    if empty:
        nothing = torch.zeros_like(side.is_token_BN)
        side = side.only(nothing)
        side = replace(side, half_BN=torch.full_like(side.half_BN, NO_HALF))
    layer = AttentionLayer("encoder.self", 0, "here", 0, NUM_HEADS, NUM_HEADS, HEAD_DIM, "there")
    rng = np.random.default_rng(3)
    values = torch.tensor(rng.normal(size=(num_images, NUM_HEADS, grid.num_tokens, HEAD_DIM)))
    roots = torch.eye(HEAD_DIM, dtype=torch.float64).expand(NUM_HEADS, -1, -1)
    sides = Sides(side, side, grid=grid)
    reducer = AttentionReducer(layer, sides, roots, values[chosen], set(Reduction))
    return reduced(reducer, torch.tensor(maps(name, num_images)[chosen]), (2, 3, 4))


Found = tuple[list[float], list[int], list[float], float, float, int, int]


def by_unit(name: str, head: int, of_image: Callable[[list], patches.Cases]) -> Found:
    """By half the hits, cases and chance; of the second, squares, products, cases² and images."""
    hits, num_cases, chance = [0.0, 0.0], [0, 0], [0.0, 0.0]
    squares = products = 0.0
    cases_squares = units = 0
    for number, A in enumerate(maps(name)[:, head].tolist()):
        cases, half = of_image(A), IS_SECOND[number]
        x, n = sum(hit for _, hit, _ in cases), len(cases)
        hits[half] += x
        num_cases[half] += n
        chance[half] += sum(by_chance for _, _, by_chance in cases)
        if half and n:
            squares, products = squares + x * x, products + x * n
            cases_squares, units = cases_squares + n * n, units + 1
    return hits, num_cases, chance, squares, products, cases_squares, units


@pytest.mark.parametrize("name", GRIDS)
def test_weights_and_distances_are_the_textbook(name: str):
    grid, values = GRIDS[name], PatchWeights.of(attend(name)).value()
    for head in range(NUM_HEADS):
        A = maps(name)[:, head].tolist()
        for column in PatchWeights.names()[:-1]:
            expected = patches.mean_weight(A, grid.columns, grid.special, column)
            if column == "attn_class" and not grid.special:
                assert values[column].isnan().all()
                continue
            assert float(values[column][head]) == pytest.approx(expected)
        expected = patches.mean_distance(A, grid.columns, grid.special)
        assert float(values["attn_distance"][head]) == pytest.approx(expected)


@pytest.mark.parametrize("name", GRIDS)
def test_looks_are_the_textbook(name: str):
    grid, sums = GRIDS[name], PatchLooks.of(attend(name))
    for displacement in ((0, -1), (0, 1), (-1, 0), (1, 0), (0, 0), (-2, 1), (1, 3)):
        at = DISPLACEMENTS.index(displacement)
        for head in range(NUM_HEADS):
            where = (grid.columns, grid.special, displacement)
            found = by_unit(name, head, lambda A, where=where: patches.looks(A, *where))
            hits, num_cases, chance, *second = found
            assert sums.hits[:, head, at].tolist() == hits
            assert sums.cases[:, at].tolist() == num_cases
            assert sums.chance[:, at].tolist() == pytest.approx(chance)
            own = [int(each) for each in moments_of(sums.moments, at, head)]
            assert own == second


@pytest.mark.parametrize("name", GRIDS)
def test_traits_are_the_textbook(name: str):
    grid, sums = GRIDS[name], PatchTraits.of(attend(name))
    for t, trait in enumerate(PATCH_TRAITS):
        for head in range(NUM_HEADS):
            where = (grid.columns, grid.special, trait)
            found = by_unit(name, head, lambda A, where=where: patches.trait(A, *where))
            hits, num_cases, chance, *second = found
            assert sums.weight[:, t, head].tolist() == pytest.approx(hits)
            assert sums.cases[:, t].tolist() == num_cases
            assert sums.chance[:, t].tolist() == pytest.approx(chance)
            own = [float(each) for each in moments_of(sums.moments, t, head)]
            assert own == pytest.approx(second)


@pytest.mark.parametrize("name", GRIDS)
def test_nulls_of_lines_are_the_textbook(name: str):
    from headcount.analysis.images import line_nulls

    grid, nulls_2TH = GRIDS[name], line_nulls(PatchTraits.of(attend(name)))
    for head in range(NUM_HEADS):
        A = maps(name)[:, head].tolist()
        second = [each for each, is_second in zip(A, IS_SECOND, strict=True) if is_second]
        for line in ("row", "column"):
            expected = patches.line_null(A, second, grid.columns, grid.special, line)
            own = nulls_2TH[1, PATCH_TRAITS.index(line), head]
            assert own == pytest.approx(expected)


@pytest.mark.parametrize("name", GRIDS)
def test_spots_are_the_textbook(name: str):
    grid, sums = GRIDS[name], PatchSpots.of(attend(name))
    assert set(sums.moments.units.tolist()) == {4}
    assert sums.tokens.tolist() == [3 * grid.num_tokens, 4 * grid.num_tokens]
    for head in range(NUM_HEADS):
        for patch in range(grid.num_patches):
            weights, squares = [0.0, 0.0], 0.0
            for A, is_second in zip(maps(name)[:, head].tolist(), IS_SECOND, strict=True):
                weight, _ = patches.spot(A, grid.special, patch)
                weights[is_second] += weight
                squares += is_second * weight**2
            assert sums.weight[:, head, patch].tolist() == pytest.approx(weights)
            assert float(sums.moments.squares[patch, head]) == pytest.approx(squares)


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("displacement", [(0, -1), (1, 0), (-1, 2)])
def test_the_test_of_a_displacement_is_the_textbook(name: str, displacement: tuple[int, int]):
    """Rate, null and error are those of a list of images; the null is that of four places."""
    from headcount.analysis.images import at_displacement

    grid = GRIDS[name]
    (r, c), where = displacement, (grid.columns, grid.special)
    cells = list(at_displacement(PatchLooks.of(attend(name, num_images=35)), displacement).each())
    assert len(cells) == NUM_HEADS
    for head, cell in enumerate(cells):
        all_maps = maps(name, 35)[:, head].tolist()
        A = [each for n, each in enumerate(all_maps) if IS_SECOND[n % NUM_IMAGES]]

        def units(row: int, column: int, A: list = A) -> list[tuple[float, int]]:
            found = [patches.looks(each, *where, (row, column)) for each in A]
            return [(sum(hit for _, hit, _ in cases), len(cases)) for cases in found]

        beside = [units(*place) for place in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))]
        rates = [sum(x for x, _ in one) / n for one in beside if (n := sum(n for _, n in one))]
        null = sum(rates) / len(rates)
        assert cell.position_null / cell.attainable == pytest.approx(null)
        if head == NUM_HEADS - 1:  # even attention has no spread to divide by
            continue
        num_keys = grid.num_patches - (grid.special == 0)
        rate, _, t = halves.clustered_t(units(r, c), max(null, 1 / num_keys))
        assert cell.share / cell.attainable == pytest.approx(rate)
        assert cell.p == pytest.approx(student.sf(t, len(A) - 1), abs=1e-9)


def test_the_first_half_chooses_the_other_place():
    from headcount.analysis.images import AT_PLACES, PatchLayer, displacement_words

    place, looks = LayerId("encoder.self", 0), PatchLooks.of(attend("class"))
    layer = PatchLayer(place, Totals({(PatchLooks, place): looks}), GRIDS["class"])
    rows = list(layer.rows())
    free = [n for n, each in enumerate(DISPLACEMENTS) if each not in AT_PLACES]
    free = [n for n in free if looks.cases[:, n].min()]
    by_half = [
        [displacement_words(*DISPLACEMENTS[max(free, key=lambda n: hits[n])]) for hits in half]
        for half in looks.hits.tolist()
    ]
    assert by_half[0] != by_half[1], "the halves must differ for a test"
    assert [row.direction for row in rows if row.trait == "place"] == by_half[0]


def test_the_test_of_a_spot_is_the_textbook():
    """The rate, its null and its error from the sums are those of a list of images."""
    from headcount.analysis.images import on_spot

    grid, name, patch = GRIDS["class"], "class", 5
    cells = list(on_spot(PatchSpots.of(attend(name)), grid, patch).each())
    assert len(cells) == NUM_HEADS
    for head, cell in enumerate(cells):
        A = [each for each, use in zip(maps(name)[:, head].tolist(), IS_SECOND, strict=True) if use]
        beside = [patches.spot(each, 1, p) for each in A for p in (1, 9, 4, 6)]
        null = sum(x for x, _ in beside) / sum(n for _, n in beside)
        units = [patches.spot(each, 1, patch) for each in A]
        assert cell.position_null == pytest.approx(null)
        rate, error, t = halves.clustered_t(units, max(null, 1 / 13))
        assert cell.share == pytest.approx(rate)
        assert cell.p == pytest.approx(student.sf(t, 3), abs=1e-9) or error < 1e-12


@pytest.mark.once
@pytest.mark.parametrize("measure", IMAGE_MEASURES)
def test_obeys_the_laws(measure: type[Sums], tmp_path: Path):
    whole = measure.of(attend("registers"))
    for cuts in ((0, 3, 5, 7), (0, 1, 2, 3, 4, 5, 6, 7)):
        groups = [slice(*pair) for pair in zip(cuts, cuts[1:], strict=False)]
        laws.assert_adds(whole, [measure.of(attend("registers", group)) for group in groups])
    laws.assert_neutral(whole, measure.of(attend("registers", slice(1), empty=True)))
    laws.assert_round_trip(whole, tmp_path)


def test_measures_of_patches_take_images_only():
    attention: Any = attend("class")
    text = Attention(attention.layer, Sides(attention.queries, attention.keys), {}, frozenset())
    for measure in (PatchWeights, PatchLooks, PatchTraits, PatchSpots):
        assert measure.applies(attention) and not measure.applies(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIDS)
def test_noise_is_no_role(name: str):
    """Attention that is drawn anew for every image has no place, however sharp it is."""
    from headcount.analysis import judged
    from headcount.analysis.profiles import RelationNames, profile_table

    attention, place = attend(name, num_images=150), LayerId("encoder.self", 0)
    sums = {(each, place): each.of(attention) for each in IMAGE_MEASURES}
    heads = Heads({"encoder.self": (NUM_HEADS,)})
    found = judged(profile_table(heads, Totals(sums), RelationNames(), GRIDS[name]))
    assert set(found["verdict"]) <= {"none", "untested"}
    assert list(found["verdict"]).count("none") > 0.8 * len(found)
    traits = 10 if GRIDS[name].special else 9
    assert len(found) == NUM_HEADS * (1 + traits)
