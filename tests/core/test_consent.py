"""What takes very long, or loses something, is refused unless the user has accepted it."""

import pytest

import headcount
from headcount.core import check_accepted

ASKED = ("Expected a day at most, got a week", "Give fewer draws")


def test_what_is_not_accepted_is_refused_with_the_way_to_accept_it() -> None:
    with pytest.raises(headcount.ConsentError) as refused:
        check_accepted(*ASKED)
    assert str(refused.value) == (
        "Expected a day at most, got a week. Give fewer draws, or accept it with --yes (in "
        "Python: headcount.accepting())."
    )


def test_consent_holds_inside_its_block_and_is_not_taken_back_by_an_inner_one() -> None:
    with headcount.accepting():
        with headcount.accepting(False):
            check_accepted(*ASKED)
        check_accepted(*ASKED)
    for accepts in (headcount.accepting(False), headcount.accepting()):
        with accepts:
            pass
        with pytest.raises(headcount.ConsentError):
            check_accepted(*ASKED)
