"""Our own traits of weights run the checks that plug-ins run.

That the pass that measures them together has the numbers of each class by itself is shown in
`tests/measures/test_key_classes.py`.
"""

from collections.abc import Callable

import pytest

from headcount.corpora.spelling import is_punctuation
from headcount.measures import TRAIT_CLASSES, Trait
from headcount.testing import Outcome, parametrize
from headcount.testing.trait_checks import OF_OURS
from headcount.vocabulary import SOUND


class Marks(Trait):
    """It gives its weight to commas and the like."""

    name, letter, target = "marks", "m", "marks"

    def has(self, piece: str) -> bool:
        return is_punctuation(piece)


@pytest.mark.once
@parametrize(Marks)
def test_a_class_of_words(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.once("found")
@parametrize(*(TRAIT_CLASSES[name] for name in OF_OURS))
def test_ours(check: Callable[[], Outcome]) -> None:
    check()


def test_all_of_ours_are_checked_but_those_of_sound() -> None:
    assert {*TRAIT_CLASSES.own} - {*OF_OURS} == {"frames_near"}
    assert TRAIT_CLASSES["frames_near"].takes == (SOUND,)
