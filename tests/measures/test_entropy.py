"""Entropy is its textbook definition."""

import pytest

from headcount.measures import Entropy
from tests.measures.cases import CASES, cases
from tests.textbook import entropy


@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(A=lambda e: e.A)
        case.assert_values(Entropy, {"entropy": entropy.over_corpus(sentences)})
