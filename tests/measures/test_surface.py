"""Attention to oneself, neighbours and kinds of tokens is its textbook definition."""

import pytest

from headcount.measures import Surface
from tests.measures.cases import CASES, cases
from tests.textbook import surface


@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(
            A=lambda e: e.A,
            key_is_sep=lambda e: e.keys.is_sep,
            key_is_punct=lambda e: e.keys.is_punct,
        )
        expected = surface.over_corpus(sentences)
        case.assert_values(Surface, {f"attn_{kind}": share for kind, share in expected.items()})
