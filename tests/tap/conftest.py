"""Tests of the tap examine every model."""

from collections.abc import Iterator

import pytest

from tests import self_checks


@pytest.fixture(autouse=True, scope="module")
def every_self_check() -> Iterator[None]:
    with self_checks.always():
        yield
