"""The offset profile, the most frequent offset and its share equal their textbook definitions."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headcount.measures import Positional
from tests.measures.cases import CASES, STYLES, Example, Side, attend, batches, cases
from tests.textbook import positional


def _sentences(case) -> list[dict]:
    return case.textbook(
        A=lambda e: e.A,
        query_is_special=lambda e: e.queries.is_special,
        key_is_special=lambda e: e.keys.is_special,
    )


@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        profiles = positional.over_corpus(_sentences(case))
        best = [positional.best(profile) for profile in profiles]
        columns = ([offset for offset, _ in best], [share for _, share in best])
        case.assert_values(Positional, dict(zip(Positional.names(), columns, strict=True)))
        sums = case.sums[Positional]
        assert isinstance(sums, Positional)
        shares, middle = sums.shares(), sums.offsets.shape[-1] // 2
        for head, profile in enumerate(profiles):
            found = shares[head].nonzero().flatten().tolist()
            assert {bin_ - middle for bin_ in found} == profile.keys()
            for offset, share in profile.items():
                assert float(shares[head, offset + middle]) == pytest.approx(share, rel=1e-12)


def test_the_tied_head_has_ties():
    """Otherwise the textbook's `the earlier token` would not be tested."""
    tied = STYLES.index("tied")
    rows = [row for batch in batches("self") for example in batch for row in example.A[tied]]
    assert sum((row == row.max()).sum() > 1 for row in rows) > len(rows) / 4


def test_queries_without_a_content_key_are_no_cases():
    """Cross-attention to a source with only special tokens has no arg-max."""
    content, special = (
        Side([9, 9], [flag] * 2, [False] * 2, [False] * 2, [-1] * 2, [0] * 2, [True] * 2)
        for flag in (False, True)
    )
    A, v, W_O = (
        np.full((7, 2, 2), 0.5),
        np.ones((7, 2, 3)),
        np.random.default_rng(0).random((7, 3, 5)),
    )
    examples = [Example(A, v, W_O, content, keys, [], []) for keys in (special, content)]
    assert positional.of_sentence(A, content.is_special, special.is_special)[0] == {}
    sums = Positional.of(attend(examples, padding=3))
    assert sums.offsets.sum(-1).tolist() == [2] * 7


Histogram = st.integers(0, 4).flatmap(
    lambda reach: st.lists(
        st.lists(st.integers(0, 9), min_size=2 * reach + 1, max_size=2 * reach + 1),
        min_size=2,
        max_size=2,
    )
)


def _by_offset(histogram: list[int]) -> Counter[int]:
    return Counter({i - len(histogram) // 2: n for i, n in enumerate(histogram)})


@pytest.mark.slow
@given(st.lists(Histogram, min_size=1, max_size=5))
def test_histograms_of_any_width_add_by_offset(parts: list[list[list[int]]]):
    sums = sum(
        (Positional(torch.tensor(part)) for part in parts[1:]), Positional(torch.tensor(parts[0]))
    )
    for head in range(2):
        expected: Counter[int] = Counter()
        for part in parts:
            expected.update(_by_offset(part[head]))
        assert +_by_offset(sums.offsets[head].tolist()) == +expected
    assert sums.offsets.shape[-1] == max(len(part[0]) for part in parts)


@given(Histogram)
def test_of_equally_common_offsets_the_nearest_is_named(histograms: list[list[int]]):
    values = Positional(torch.tensor(histograms)).value()
    for head, histogram in enumerate(histograms):
        counts = +_by_offset(histogram)
        offset, share = (float(values[name][head]) for name in Positional.names())
        if not counts:
            assert np.isnan(offset) and np.isnan(share)
            continue
        profile = {offset: n / counts.total() for offset, n in counts.items()}
        assert (offset, share) == pytest.approx(positional.best(profile), rel=1e-12)
