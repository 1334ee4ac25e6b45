"""PWCCA and CKA, beside the textbook, and in cases with a known answer."""

import numpy as np
import pytest

from headcount.core import InputError
from headcount.papers.evolution.distances import Basis, cka, pwcca, shuffled_pwcca
from tests.textbook import evolution as textbook


def drawn(seed: int, count: int = 997, width: int = 7) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.normal(size=(count, width)) @ generator.normal(size=(width, width))).astype(
        np.float32
    )


def test_distances_are_those_of_the_textbook() -> None:
    first = drawn(1)
    second = np.concatenate([first[:, :3] + drawn(2)[:, :3], drawn(3)[:, :2]], axis=1)
    bases = Basis.of(first), Basis.of(second)
    expected = textbook.pwcca(first.astype(float), second.astype(float))
    assert 0.2 < expected < 0.8
    assert pwcca(*bases) == pytest.approx(expected, abs=1e-6)
    assert cka(*bases) == pytest.approx(textbook.cka(first, second), abs=1e-4)


def test_an_invertible_map_changes_nothing() -> None:
    first = drawn(1)
    mapped = (first @ np.random.default_rng(5).normal(size=(7, 7)) + 11).astype(np.float32)
    assert pwcca(Basis.of(first), Basis.of(mapped)) == pytest.approx(0, abs=1e-5)
    rotation, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(7, 7)))
    rotated = (3 * first @ rotation).astype(np.float32)
    assert cka(Basis.of(first), Basis.of(rotated)) == pytest.approx(1, abs=1e-5)


def test_independent_noise_is_as_far_as_its_shuffle() -> None:
    bases = Basis.of(drawn(1)), Basis.of(drawn(2))
    found = pwcca(*bases)
    assert found > 0.9 and found == pytest.approx(shuffled_pwcca(*bases, seed=0), abs=0.04)


def test_a_direction_counts_as_much_as_it_accounts_for() -> None:
    """If the large one of two columns is shared, the sets are close; if the small one is, not."""
    generator = np.random.default_rng(0)
    first = (generator.normal(size=(5000, 2)) * [100, 1]).astype(np.float32)
    other = generator.normal(size=(5000, 2)).astype(np.float32)
    large, small = other.copy(), other.copy()
    large[:, 0], small[:, 0] = first[:, 0], first[:, 1]
    basis = Basis.of(first)
    assert pwcca(basis, Basis.of(large)) < 0.02 and pwcca(basis, Basis.of(small)) > 0.9


def test_a_column_that_repeats_another_is_left_out() -> None:
    first = drawn(1)
    doubled = np.concatenate([first, first[:, :2]], axis=1)
    assert pwcca(Basis.of(doubled), Basis.of(first)) == pytest.approx(0, abs=1e-4)


def test_states_that_do_not_vary_are_refused() -> None:
    same = np.full((99, 3), 7.25, dtype=np.float32)
    with pytest.raises(InputError, match="states that vary, got the same state 99 times in layer"):
        Basis.of(same, "layer 3 of bert")
    with pytest.raises(InputError, match=r"more states than their width \(7\), got 7"):
        Basis.of(drawn(1, count=7))
