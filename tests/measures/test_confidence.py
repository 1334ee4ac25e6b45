"""Confidence is its textbook definition."""

import pytest

from headcount.measures import Confidence
from tests.measures.cases import CASES, cases
from tests.textbook import confidence


@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(
            A=lambda e: e.A,
            query_is_special=lambda e: e.queries.is_special,
            key_is_special=lambda e: e.keys.is_special,
        )
        case.assert_values(Confidence, {"confidence": confidence.over_corpus(sentences)})
