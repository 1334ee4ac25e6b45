"""Options of a comparison of layers: the smallest numbers that are taken."""

from dataclasses import replace

import pytest

from headcount.core import InputError
from headcount.papers import EvolutionOptions

LEAST = {
    "occurrences": 2,
    "types": 2,
    "sentences": 2,
    "nearest": 1,
    "queries": 1,
    "pool": 3,
    "max_tokens": 1,
}


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_the_least_is_taken_and_one_less_is_refused(name: str, least: int) -> None:
    assert getattr(replace(EvolutionOptions(), **{name: least}), name) == least
    with pytest.raises(InputError, match=f"Expected {name} of at least {least}, got {least - 1}"):
        replace(EvolutionOptions(), **{name: least - 1})
