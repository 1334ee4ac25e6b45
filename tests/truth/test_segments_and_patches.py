"""Programs of segments, separators and patches: every head's role, and what it is worth."""

from collections.abc import Callable, Iterator

import pytest

from tests.truth.questions import Answer
from tests.truth.segments_and_patches import patches, segments


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("asked", [segments, patches])
def test_roles_and_worth_are_those_of_the_program(
    asked: Callable[[int], Iterator[Answer]], seed: int
) -> None:
    assert not [each for each in asked(seed) if each.wrong]
