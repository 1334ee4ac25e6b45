"""Context of windows: tokens that are keys but no queries change nothing else.

What measures sum over queries adds up: a batch of which some tokens are context, plus the same
batch of which the others are, is the batch without context.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from headcount.measures import Patterns, RelationTests, Sums, Syntactic
from headcount.measures.registry import MEASURES
from headcount.testing import laws
from tests.measures.cases import Example, attend, batches, made_up
from tests.textbook import patterns

BATCHES = [*batches("self"), *made_up(29, ((9, 10, 7),), None)]
"""The last one has a unit a row."""
ADDITIVE = tuple(each for each in MEASURES if each not in (Patterns, RelationTests, Syntactic))
BY_UNIT = "moments."
"""Sums that add up only if no unit is divided."""
PER_ARC = ("hits", "baseline", "offsets", BY_UNIT)
"""Sums of the tests of relations that arcs, not queries, add to."""


def flags(of_token: Callable[[Example, int], bool]) -> list[list[list[bool]]]:
    """A flag for each token of every made-up batch."""
    return [
        [[of_token(example, token) for token in range(len(example.queries))] for example in batch]
        for batch in BATCHES
    ]


EVERY_OTHER = flags(lambda example, token: (token * 7 + len(example.queries)) % 3 > 0)
UNITS = flags(lambda example, token: example.queries.unit_of[token] == 1)


def parts(measure: type[Sums], masks: list[list[list[bool]]]) -> list[tuple[Sums, Sums, Sums]]:
    """The sums with some context, with the other tokens as context, and without context."""
    found = []
    for batch, mask in zip(BATCHES, masks, strict=True):
        others = [[not flag for flag in row] for row in mask]
        made = [attend(batch, (2, 3, 4), is_measured=each) for each in (mask, others, None)]
        found.append(tuple(measure.of(each) for each in made))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("masks", [EVERY_OTHER, UNITS], ids=["tokens", "units"])
@pytest.mark.parametrize("measure", ADDITIVE)
def test_each_query_counts_once(measure: type[Sums], masks: list[list[list[bool]]]) -> None:
    for some, others, everything in parts(measure, masks):
        added = (some + others).state()
        for name, numbers in everything.state().items():
            if masks is UNITS or not name.startswith(BY_UNIT):
                torch.testing.assert_close(added[name], numbers, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.slow
def test_arcs_do_not_depend_on_context() -> None:
    """An arc counts in the window that it was assigned to, whichever of its words is context."""
    for measure in (Syntactic, RelationTests):
        for some, others, everything in parts(measure, EVERY_OTHER):
            for name, numbers in everything.state().items():
                if measure is Syntactic or name.startswith(PER_ARC):
                    torch.testing.assert_close(some.state()[name], numbers, rtol=0, atol=0)
                    torch.testing.assert_close(others.state()[name], numbers, rtol=0, atol=0)


@pytest.mark.slow
def test_words_look_once() -> None:
    """Words are the cases of looks; a word belongs to the window of its first piece."""

    def is_odd_word(example: Example, token: int) -> bool:
        return example.queries.word_of[token] % 2 == 1

    for some, others, everything in parts(RelationTests, flags(is_odd_word)):
        assert isinstance(everything, RelationTests)
        for name in ("looks", "words"):
            added = some.state()[name] + others.state()[name]
            assert added.tolist() == everything.state()[name].tolist()
        assert 0 < some.state()["looks"].sum() < everything.looks.sum()


def _features(A: np.ndarray, measured: list[bool], segment_of: list[int]) -> tuple[float, ...]:
    """The features of a map of which only some queries count, token by token."""
    queries, num_keys = [q for q, flag in enumerate(measured) if flag], A.shape[1]
    means = sorted(sum(A[q, k] for q in queries) / len(queries) for k in range(num_keys))
    uniform = 2 / num_keys
    v = (means[-1] + means[-2] - uniform) / (1 - uniform) if num_keys > 2 else 0.0
    best = 0.0
    for offset in patterns.OFFSETS:
        weights = [A[q, q + offset] for q in queries if 0 <= q + offset < num_keys]
        best = max(best, sum(weights) / len(weights) if weights else 0.0)
    d = (best - 1 / num_keys) / (1 - 1 / num_keys) if num_keys > 1 else 0.0
    inside = size = 0.0
    for q in queries:
        own = [k for k in range(num_keys) if segment_of[k] == segment_of[q]]
        inside += sum(A[q, k] for k in own) / len(queries)
        size += len(own) / num_keys / len(queries)
    return v, d, (inside - size) / (1 - size) if len(set(segment_of)) > 1 else 0.0


def test_patterns_are_those_of_the_measured_queries() -> None:
    checked = 0
    for batch, mask in zip(BATCHES, EVERY_OTHER, strict=True):
        expected: list[list[str]] = []
        for example, measured in zip(batch, mask, strict=True):
            if not any(measured):
                continue
            segments = patterns.segments(example.keys.is_sep, example.keys.is_special)
            found = [_features(A, measured, segments) for A in example.A]
            expected.append([patterns.pattern(*each) for each in found])
        sums = Patterns.of(attend(batch, is_measured=mask))
        for head, names in enumerate(zip(*expected, strict=True)):
            counts = [names.count(name) for name in patterns.PATTERNS]
            assert sums.maps[head].tolist() == counts
            checked += len(names)
    assert checked > 50


@pytest.mark.parametrize("measure", MEASURES)
def test_all_measured_is_no_context(measure: type[Sums]) -> None:
    batch = batches("self")[0]
    everything = [[True] * len(example.queries) for example in batch]
    plain = measure.of(attend(batch))
    laws.assert_same_sums(measure.of(attend(batch, is_measured=everything)), plain, rtol=1e-12)
