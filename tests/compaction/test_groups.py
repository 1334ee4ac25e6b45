import pytest

from headcount.compaction.layout import kept_groups, nearest_kept
from headcount.core import InputError
from headcount.tap import AttentionLayer

SIX = AttentionLayer("decoder.self", 3, "m", 0, 6, 2, 10, "o")
"""Six query heads share two key/value heads."""


@pytest.mark.parametrize(
    ("kept", "groups"),
    [((), ()), ((0, 1, 2), (0,)), ((3, 5), (1,)), ((2, 3), (0, 1)), (tuple(range(6)), (0, 1))],
)
def test_even(kept: tuple[int, ...], groups: tuple[int, ...]) -> None:
    assert kept_groups(SIX, kept) == groups
    assert tuple(nearest_kept(SIX, kept)) == kept


@pytest.mark.parametrize(
    ("kept", "nearest"),
    [
        ((0, 1, 2, 3, 4), [0, 1, 2, 3, 4, 5]),
        ((0, 2, 4), [0, 2, 3, 4]),
        ((1, 3, 4), [0, 1, 3, 4]),
    ],
)
def test_nearest(kept: tuple[int, ...], nearest: list[int]) -> None:
    """Between one change more or less, one more head is kept."""
    assert nearest_kept(SIX, kept) == nearest
    with pytest.raises(InputError, match="decoder.self layer 3: 3 query heads share"):
        kept_groups(SIX, kept)


def test_one_group() -> None:
    """With one key/value head, any number can be kept."""
    one = AttentionLayer("decoder.self", 0, "m", 0, 5, 1, 10, "o")
    assert kept_groups(one, (1, 4)) == (0,)
