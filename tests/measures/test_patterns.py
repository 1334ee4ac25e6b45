"""The pattern of every map equals the textbook's."""

from collections import Counter

import pytest
import torch

from headcount.measures import Patterns
from tests.measures.cases import CASES, STYLES, attend, batches, cases
from tests.textbook import patterns


def _segment_of(example):
    keys = example.keys
    return patterns.segments(keys.is_sep, keys.is_special) if example.queries is keys else None


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(A=lambda e: e.A, segment_of=_segment_of)
        shares = patterns.over_corpus(sentences)
        columns = {f"pattern_{kind}": [head[kind] for head in shares] for kind in patterns.PATTERNS}
        case.assert_values(Patterns, columns)


@pytest.mark.parametrize("name", ["self", "cross", "long"])
def test_every_map_by_itself(name: str):
    seen: Counter[str] = Counter()
    for batch in batches(name):
        for example in batch:
            names = patterns.of_sentence(example.A, _segment_of(example))
            maps = Patterns.of(attend([example])).maps
            assert maps.sum(-1).tolist() == [1] * len(STYLES)
            assert [patterns.PATTERNS[kind] for kind in maps.argmax(-1).tolist()] == names
            seen.update(names)
    if name == "self":
        assert seen.keys() == set(patterns.PATTERNS) and min(seen.values()) > 3, seen


def test_shares_add_up_to_one():
    for case in cases("self"):
        shares = torch.stack([*case.sums[Patterns].value().values()])
        torch.testing.assert_close(shares.sum(0), torch.ones(len(STYLES)).double())
