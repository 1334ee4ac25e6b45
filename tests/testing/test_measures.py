"""Our own measures run the checks that plug-ins run."""

from collections.abc import Callable

from headcount.measures import MEASURES
from headcount.testing import Outcome, parametrize


@parametrize(*MEASURES)
def test_a_measure(check: Callable[[], Outcome]) -> None:
    check()
