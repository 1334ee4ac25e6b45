from typing import Any

from tests import tiny, turns


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid, self.marks = nodeid, list[Any]()

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
