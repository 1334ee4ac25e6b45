"""Our own traits of weights run the checks that plug-ins run.

That the pass that measures them together has the numbers of each class by itself is shown in
`tests/analysis/test_key_classes.py`.
"""

from collections.abc import Callable

import pytest

from headcount.corpora.spelling import is_punctuation
from headcount.measures import TRAIT_CLASSES, Trait
from headcount.measures.traits import OwnSegment
from headcount.testing import Checked, Failed, Outcome, parametrize
from headcount.testing.trait_checks import OF_OURS, found, trait_subject


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


@pytest.mark.slow
def test_wrong_keys_of_ours_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the pass that measures ours together does not ask a class for its keys."""
    keys = OwnSegment.keys
    monkeypatch.setattr(OwnSegment, "keys", lambda *given: ~keys(*given))
    with pytest.raises(Failed, match="the role segment_alone is of no head, not of enc.1.2 alone"):
        Checked.of("it", [found], trait_subject(OwnSegment)).raise_failed()


def test_all_of_ours_are_checked() -> None:
    assert {*TRAIT_CLASSES.own} == {*OF_OURS}
