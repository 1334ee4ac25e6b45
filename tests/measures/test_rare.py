"""Attention to the rarest tokens is its textbook definition."""

import pytest

from headcount.measures import Rare
from tests.measures.cases import CASES, COUNTS, TOP, batches, cases
from tests.textbook import rare


@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(
            A=lambda e: e.A,
            query_is_special=lambda e: e.queries.is_special,
            key_is_special=lambda e: e.keys.is_special,
            key_ids=lambda e: e.keys.ids,
            counts=lambda e: COUNTS,
            top=lambda e: TOP,
        )
        rarest, two_rarest, num_cases = rare.over_corpus(sentences)
        columns = (rarest, two_rarest, [float(num_cases)] * len(rarest))
        case.assert_values(Rare, dict(zip(Rare.names(), columns, strict=True)))


def test_the_sentences_are_of_every_kind():
    """Sentences without a rare token, with one, and with two equally rare ones."""
    found, tied = [], 0
    for batch in batches("self"):
        for side in (example.keys for example in batch):
            places = rare.rarest(side.ids, side.is_special, COUNTS, TOP)
            counts = [COUNTS.get(side.ids[place], 0) for place in places]
            found.append(len(places))
            tied += len(counts) == 2 and counts[0] == counts[1]
    assert {0, 1, 2} <= set(found) and tied
