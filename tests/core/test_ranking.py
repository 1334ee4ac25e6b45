"""Orders that no processor's rounding decides."""

import numpy as np
import pytest

from headcount.core import Head, falling, levels, rising, sorted_by


def test_numbers_within_rounding_keep_their_order() -> None:
    """Equal on paper, here with errors of either sign: of each the first stays first."""
    generator = np.random.default_rng(3)
    exact_N = generator.choice([-2e3, -1e-9, 0.0, 3e-12, 0.25, 7.0], 60)
    expected = np.argsort(exact_N, kind="stable").tolist()
    for _ in range(5):
        found_N = exact_N * (1 + generator.integers(-2, 3, 60) * np.finfo(np.float32).eps)
        assert rising(found_N).tolist() == expected
        assert falling(-found_N).tolist() == expected


def test_numbers_that_differ_are_told_apart_also_when_small() -> None:
    assert rising([2e-12, 1e-12, 1.00001, 1.0]).tolist() == [1, 0, 3, 2]
    assert levels([-1e-30, 0.0, 1e-30]).tolist() == [0, 1, 2]
    assert levels([np.inf, 1.0, -np.inf, np.inf, np.nan]).tolist() == [2, 1, 0, 2, 3]
    assert rising([]).tolist() == []


def test_a_chain_of_equal_numbers_ends() -> None:
    chain_N = (1 + 2.0**-21) ** np.arange(8)
    assert levels(chain_N).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("descending", [False, True])
def test_items_keep_their_order_where_they_are_equal(descending: bool) -> None:
    items = [("b", 1.0), ("a", 1.0 + 1e-7), ("c", 2.0), ("d", 2.0 - 1e-7)]
    names = [name for name, _ in sorted_by(items, lambda one: one[1], descending=descending)]
    assert names == ["c", "d", "b", "a"] if descending else ["b", "a", "c", "d"]


def test_heads_that_score_the_same_are_pruned_in_their_order() -> None:
    from headcount.pruning.methods.method import by_mean

    heads = [Head("encoder.self", 0, index) for index in range(3)]
    values = dict(zip(heads, (0.1 + 0.2, 0.3, 0.2), strict=True))
    assert [*by_mean([(head,) for head in heads], values)] == [heads[2], heads[0], heads[1]]
