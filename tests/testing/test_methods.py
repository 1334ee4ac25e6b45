"""Our own methods run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.pruning import METHODS, method
from headcount.testing import Outcome, parametrize
from headcount.training import FinetuneConfig

SHORT = FinetuneConfig(updates=20, gate_rate=0.3)
RANKED = (method("auto"), method("ablation", step=1.0))
LEARNED = tuple(method(name, tuning=SHORT) for name in ("l0", "subset"))


@pytest.mark.slow
@parametrize(*RANKED)
def test_a_method(check: Callable[[], Outcome]) -> None:
    check()


@parametrize(method("random"), expected_failures={"separates": "it draws heads at random"})
def test_random(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.slow
@parametrize(*LEARNED, expected_failures={"separates": "twenty updates are too few to learn it"})
def test_learned(check: Callable[[], Outcome]) -> None:
    check()


def test_all_of_ours_are_checked() -> None:
    assert {*METHODS.own} == {"random", *(each.name for each in (*RANKED, *LEARNED))}
