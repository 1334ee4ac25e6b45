"""Our own effects run the checks that plug-ins run."""

from collections.abc import Callable

from headcount.explanation import EFFECTS
from headcount.testing import Outcome, parametrize


@parametrize(*map(EFFECTS.__getitem__, EFFECTS.own))
def test_by_name(check: Callable[[], Outcome]) -> None:
    check()
