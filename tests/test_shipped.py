from pathlib import Path

import pytest

import headcount
from headcount.models.shipped import SHIPPED, place_of


def test_only_our_own_names_are_replaced() -> None:
    assert place_of("org/model") == "org/model" and place_of(Path("a")) == Path("a")
    for name in SHIPPED:
        assert Path(place_of(name)).is_relative_to(Path(headcount.__file__).parent)


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(headcount.ModelError, match="headcount:en-de; came 'headcount:de-en'"):
        headcount.load("headcount:de-en")
