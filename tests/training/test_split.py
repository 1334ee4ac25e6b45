"""Split: no held-out sentence is in the training data, on either side."""

import random

import pytest

from headcount.core import InputError
from headcount.training import Rows, hold_out


def _rows() -> Rows:
    """Sentences with many translations each, in both directions, some in capitals."""
    chance = random.Random(7)
    rows = [(f"s{chance.randrange(40)}", f"t{chance.randrange(60)}") for _ in range(200)]
    return Rows(
        ("source", "target"), [(a.upper() if chance.random() < 0.3 else a, b) for a, b in rows]
    )


def test_no_side_is_shared() -> None:
    rows = _rows()
    left, (dev, test) = hold_out(rows, (5, 7), seed=2)
    assert (len(dev.rows), len(test.rows)) == (5, 7)
    for side in range(2):
        held = [row[side].lower() for row in dev.rows + test.rows]
        assert len(set(held)) == len(held)
        assert not set(held) & {row[side].lower() for row in left.rows}
    assert set(dev.rows + test.rows + left.rows) <= set(rows.rows)
    held = dev.rows + test.rows
    sharing = [
        row
        for row in rows.rows
        if any(row[s].lower() == other[s].lower() for other in held for s in range(2))
    ]
    assert len(left.rows) == len(rows.rows) - len(sharing), "what shares no side is all kept"
    assert left.rows == [row for row in rows.rows if row in set(left.rows)], "in its order"
    assert left.num_shared == len(sharing) - len(held) > 0


def test_seed() -> None:
    assert hold_out(_rows(), (5,), seed=1)[1] == hold_out(_rows(), (5,), seed=1)[1]
    assert hold_out(_rows(), (5,), seed=1)[1] != hold_out(_rows(), (5,), seed=2)[1]


def test_too_few() -> None:
    rows = Rows(("source", "target"), [("a", "x"), ("A", "y"), ("b", "y")])
    with pytest.raises(
        InputError, match=r"3 rows to hold out that share no side, got [12] of 3 rows"
    ):
        hold_out(rows, (2, 1))
    with pytest.raises(InputError, match="leaves 0 for training. Hold out fewer"):
        hold_out(Rows(("text",), [("a",), ("b",)]), (2,))
