"""Random programs in small models of grouped queries, and in small encoders."""

import pytest

from headcount.testing import Family
from tests.truth.small_models import check, small_models


@pytest.mark.parametrize(("seed", "family"), small_models("grouped", "encoder"))
def test_roles_and_worth_are_those_of_the_program(seed: int, family: Family) -> None:
    check(seed, family)
