"""Our own effects run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.explanation import EFFECTS
from headcount.testing import Outcome, parametrize

OF_MORE_STEPS = "integrated-10"
"""An effect that is another one with more steps."""


@pytest.mark.once("causal", "chance", "found")
@parametrize(*(EFFECTS[name] for name in EFFECTS.own if name != OF_MORE_STEPS))
def test_by_name(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.slow
@parametrize(EFFECTS[OF_MORE_STEPS])
def test_of_more_steps(check: Callable[[], Outcome]) -> None:
    check()
