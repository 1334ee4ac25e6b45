"""Our own measures run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.measures import IMAGE_MEASURES, MEASURES
from headcount.measures.registry import SOUND_MEASURES
from headcount.testing import Outcome, parametrize


@parametrize(*MEASURES)
def test_a_measure(check: Callable[[], Outcome]) -> None:
    check()


OTHERS = {*IMAGE_MEASURES, *SOUND_MEASURES} - {*MEASURES}


@pytest.mark.slow
@parametrize(*sorted(OTHERS, key=lambda each: each.name))
def test_of_images_and_sound(check: Callable[[], Outcome]) -> None:
    check()
