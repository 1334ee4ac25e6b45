"""Value norms, and the shares of weighted norms, are their textbook definition."""

import pytest
import torch

from headcount.measures import Norms
from tests.measures.cases import CASES, HEAD_DIM, NUM_HEADS, attend, batches, cases
from tests.textbook import norms


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(
            A=lambda e: e.A,
            v=lambda e: e.v,
            W_O=lambda e: e.W_O,
            key_is_sep=lambda e: e.keys.is_sep,
            key_is_punct=lambda e: e.keys.is_punct,
        )
        expected = norms.over_corpus(sentences)
        shares = {f"norm_{kind}": expected[kind] for kind in norms.CLASSES}
        case.assert_values(Norms, {"value_norm": expected["value_norm"], **shares})


def test_the_made_up_heads_are_wide_enough_to_tell_dimensions_apart():
    (example, *_), *_ = batches("self")
    assert example.W_O.shape == (NUM_HEADS, HEAD_DIM, 5)


def test_not_a_number_where_no_output_projection_was_found():
    attention = attend(batches("cross")[0], norms_known=False)
    found = Norms.of(attention).value()
    assert found.keys() == set(Norms.names())
    for name, numbers in found.items():
        assert torch.isnan(numbers).all(), name
