"""Moments over units whose rows lie in several batches."""

import itertools
from functools import reduce

import pytest
import torch

from headcount.corpora import NO_HALF, SECOND_HALF, Tokens
from headcount.measures import Moments, Sides
from headcount.measures.units import Groups, Slots
from headcount.testing import laws
from tests.measures.cases import Side, tokens

LENGTH = 5
ROWS = [(3, 1), (7, 3), (7, 3), (9, 0), (7, 3), (9, 0), (4, 1), (9, 0)]
"""Unit of each row, and number of rows that the unit has (0: unknown)."""


def side(rows: list[int]) -> Tokens:
    """Rows of one unit each; the last token of each is context."""
    no = [False] * LENGTH
    made = tokens([Side([6] * LENGTH, no, no, no, [-1] * LENGTH, [0] * LENGTH, no) for _ in rows])
    unit = torch.tensor([[ROWS[row][0]] * LENGTH for row in rows])
    half = torch.full_like(unit, SECOND_HALF)
    half[:, -1] = NO_HALF
    object.__setattr__(made, "unit_BN", unit)
    object.__setattr__(made, "half_BN", half)
    object.__setattr__(made, "rows_B", torch.tensor([ROWS[row][1] for row in rows]))
    return made


def numbers(rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Hits of two heads, and which queries are cases of two kinds."""
    made = [torch.Generator().manual_seed(row) for row in rows]
    hits = [torch.rand(2, LENGTH, dtype=torch.float64, generator=each) for each in made]
    cases = [torch.rand(2, LENGTH, generator=each) < 0.7 for each in made]
    return torch.stack(hits), torch.stack(cases)


def moments(rows: list[int], grouped: bool) -> Moments:
    hits_BHQ, cases_BKQ = numbers(rows)
    all_of = side(rows)
    slots = Slots.of(Sides(all_of, all_of))
    cases_KBQ = cases_BKQ.transpose(0, 1)
    hits_UKC = slots.sums(hits_BHQ.expand(2, -1, -1, -1), cases_KBQ).second_UKH
    cases_UK = slots.sums(cases_KBQ[:, :, None], cases_KBQ).second_UKH[..., 0].long()
    if not grouped:
        return Moments.of(hits_UKC, cases_UK, slots)
    slot_G, kind_G = torch.cartesian_prod(torch.arange(len(slots.unit_U)), torch.arange(2)).T
    groups = Groups(slot_G, kind_G, cases_UK[slot_G, kind_G], 2)
    kept = groups.size_G > 0
    groups = Groups(slot_G[kept], kind_G[kept], groups.size_G[kept], 2)
    return Moments.of_groups(hits_UKC[groups.slot_G, groups.kind_G], groups, slots)


def expected() -> tuple[list[list[float]], list[list[float]], list[float], list[int]]:
    """Sums of x squared, x n and n squared, and the number of units, from loops over units."""
    hits, cases = numbers([*range(len(ROWS))])
    x = {}
    for row, (unit, _) in enumerate(ROWS):
        for kind in range(2):
            counted = [q for q in range(LENGTH - 1) if cases[row, kind, q]]
            own = x.setdefault((unit, kind), [0.0, 0.0, 0])
            for head in range(2):
                own[head] += sum(float(hits[row, head, q]) for q in counted)
            own[2] += len(counted)
    of_kind = [[own for (_, kind), own in x.items() if kind == k] for k in range(2)]
    return (
        [[sum(own[h] ** 2 for own in each) for h in range(2)] for each in of_kind],
        [[sum(own[h] * own[2] for own in each) for h in range(2)] for each in of_kind],
        [sum(own[2] ** 2 for own in each) for each in of_kind],
        [sum(own[2] > 0 for own in each) for each in of_kind],
    )


@pytest.mark.once
@pytest.mark.parametrize("grouped", [False, True])
def test_a_unit_is_the_same_however_its_rows_are_batched(grouped: bool):
    squares, products, cases_squares, units = expected()
    for cuts in itertools.combinations(range(1, len(ROWS)), 3):
        ends = [0, *cuts, len(ROWS)]
        batches = [[*range(a, b)] for a, b in itertools.pairwise(ends)]
        parts = [moments(rows, grouped) for rows in batches]
        for order in (parts, parts[::-1]):
            whole = reduce(lambda a, b: a + b, order)
            assert whole.open_unit.tolist() == [9], "only the unit whose end is unknown is open"
            closed = whole.closed()
            assert closed.squares.tolist() == [pytest.approx(each) for each in squares]
            assert closed.products.tolist() == [pytest.approx(each) for each in products]
            assert closed.cases_squares.tolist() == cases_squares
            assert closed.units.tolist() == units


def test_units_that_are_read_at_once_are_never_open():
    whole = moments([0, 1, 2, 4, 6], False)
    assert not len(whole.open_unit) and whole.closed() is not None
    laws.assert_same_moments(whole.closed(), whole)
