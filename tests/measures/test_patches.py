"""Measures of images: the package's sums against slow loops over patches, and the laws of sums."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount.analysis.patch_profiles import line_nulls
from headcount.core import Grid
from headcount.measures import (
    DISPLACEMENTS,
    IMAGE_MEASURES,
    PATCH_TRAITS,
    Attention,
    AttentionReducer,
    PatchLooks,
    PatchTraits,
    PatchWeights,
    Reduction,
    Sides,
    Sums,
)
from headcount.tap import AttentionLayer
from tests import laws
from tests.measures.cases import Side, reduced, tokens
from tests.textbook import patches

NUM_HEADS, NUM_IMAGES, HEAD_DIM = 5, 7, 3
GRIDS = {"class": Grid(3, 4, 1), "registers": Grid(4, 3, 3), "bare": Grid(2, 5, 0)}
IS_SECOND = [True, False, True, True, False, True, False]


@cache
def maps(name: str) -> np.ndarray:
    """Random maps [image, head, query, key]; the last head's are even."""
    size = GRIDS[name].num_tokens
    scores = np.random.default_rng(size).normal(size=(NUM_IMAGES, NUM_HEADS, size, size))
    scores *= np.array([1, 3, 6, 0.1, 0])[:, None, None]
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


def attend(name: str, images: slice = slice(None), empty: bool = False) -> Attention:
    """What a reducer makes of some images."""
    grid, chosen = GRIDS[name], [*range(NUM_IMAGES)][images]
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
                [IS_SECOND[n]] * grid.num_tokens,
            )
            for n in chosen
        ]
    )
    if empty:
        nothing = torch.zeros_like(side.is_token_BN)
        side = side.only(nothing)
        object.__setattr__(side, "is_second_BN", nothing)
    layer = AttentionLayer("encoder.self", 0, "here", 0, NUM_HEADS, NUM_HEADS, HEAD_DIM, "there")
    rng = np.random.default_rng(3)
    values = torch.tensor(rng.normal(size=(NUM_IMAGES, NUM_HEADS, grid.num_tokens, HEAD_DIM)))
    roots = torch.eye(HEAD_DIM, dtype=torch.float64).expand(NUM_HEADS, -1, -1)
    sides = Sides(side, side, grid=grid)
    reducer = AttentionReducer(layer, sides, roots, values[chosen], set(Reduction))
    return reduced(reducer, torch.tensor(maps(name)[chosen]), (2, 3, 4))


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
        for column in PatchWeights.columns[:-1]:
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
            own = sums.squares[head, at], sums.products[head, at]
            assert [int(each) for each in (*own, sums.cases_squares[at], sums.units[at])] == second


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
            own = sums.squares[t, head], sums.products[t, head]
            own = [float(each) for each in (*own, sums.cases_squares[t], sums.units[t])]
            assert own == pytest.approx(second)


@pytest.mark.parametrize("name", GRIDS)
def test_nulls_of_lines_are_the_textbook(name: str):
    grid, nulls_2TH = GRIDS[name], line_nulls(PatchTraits.of(attend(name)))
    for head in range(NUM_HEADS):
        A = maps(name)[:, head].tolist()
        second = [each for each, is_second in zip(A, IS_SECOND, strict=True) if is_second]
        for line in ("row", "column"):
            expected = patches.line_null(A, second, grid.columns, grid.special, line)
            own = nulls_2TH[1, PATCH_TRAITS.index(line), head]
            assert own == pytest.approx(expected)


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
    for measure in (PatchWeights, PatchLooks, PatchTraits):
        assert measure.applies(attention) and not measure.applies(text)
