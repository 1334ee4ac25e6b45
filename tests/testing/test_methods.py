"""Our own methods run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.pruning import method
from headcount.testing import Outcome, parametrize


@pytest.mark.slow
@parametrize(method("auto"), method("ablation", step=1.0))
def test_a_method(check: Callable[[], Outcome]) -> None:
    check()


@parametrize(method("random"), expected_failures={"separates": "it draws heads at random"})
def test_random(check: Callable[[], Outcome]) -> None:
    check()
