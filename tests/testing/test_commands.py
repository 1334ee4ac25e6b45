"""Our own commands run the checks that plug-ins run."""

from collections.abc import Callable

import pytest

from headcount.capabilities import CAPABILITIES
from headcount.testing import Outcome, parametrize


@pytest.mark.slow
@parametrize(*(CAPABILITIES[name] for name in CAPABILITIES.own))
def test_ours(check: Callable[[], Outcome]) -> None:
    check()
