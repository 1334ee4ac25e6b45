from typing import Any

import pytest

from tests import tiny, turns


class _Item:
    def __init__(self, nodeid: str, *given: pytest.Mark) -> None:
        self.nodeid, self.given, self.marks = nodeid, given, list[Any]()

    def get_closest_marker(self, name: str) -> Any:
        return next((each for each in self.given if each.name == name), None)

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark)


def test_relatives_have_a_test_of_the_other_every_day() -> None:
    assert {*turns.RELATIVES, *turns.RELATIVES.values()} <= {*tiny.MODELS}
    names = ["a[bert]", "a[bart-bert]", "a[marian-bert]", "a[bart]", "b[m2m_100-0]", "b[marian-0]"]
    names += ["b[m2m_100-1]", "bart::c", "c", "d[roberta-large]", "d[bert-large]", "d[robertas]"]
    items: Any = [_Item(name) for name in names]
    turns.mark_relatives(items)
    slow = ["a[bart-bert]", "b[m2m_100-0]", "d[roberta-large]"]
    assert [item.nodeid for item in items if item.marks] == slow
    assert {mark.name for item in items for mark in item.marks} == {"slow"}


def test_what_is_asked_once_has_its_first_case_every_day() -> None:
    names = ["a::x[1]", "a::x[2]", "b::x[2]", "a::y", "a::x[3]"]
    once = pytest.mark.once.mark
    items: Any = [*(_Item(name, once) for name in names), _Item("c[1]"), _Item("c[2]")]
    turns.mark_all_but_one(items)
    assert [item.nodeid for item in items if item.marks] == ["a::x[2]", "a::x[3]"]


def test_what_is_asked_once_by_name_has_the_first_case_of_each_name_every_day() -> None:
    names = ["a[1-laws]", "a[1-order]", "a[1-words]", "a[2-laws]", "a[2-order]", "a[3-words]"]
    items: Any = [_Item(name, pytest.mark.once("order", "words").mark) for name in names]
    turns.mark_all_but_one(items)
    assert [item.nodeid for item in items if item.marks] == [
        "a[2-laws]",
        "a[2-order]",
        "a[3-words]",
    ]
