"""Confidence is its textbook definition."""

from functools import reduce

import pytest
import torch

from headcount.measures import Confidence
from headcount.measures import confidence_variant as variant
from tests.measures.cases import CASES, attend, batches, cases
from tests.textbook import confidence


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_is_the_textbook(name: str):
    for case in cases(name):
        sentences = case.textbook(
            A=lambda e: e.A,
            query_is_special=lambda e: e.queries.is_special,
            key_is_special=lambda e: e.keys.is_special,
        )
        case.assert_values(Confidence, {"confidence": confidence.over_corpus(sentences)})


@pytest.mark.parametrize("exclude_keys", [True, False])
@pytest.mark.parametrize("exclude_queries", [True, False])
@pytest.mark.parametrize("name", ["self", "cross", "long"])
def test_special_tokens_can_be_let_in(name: str, exclude_keys: bool, exclude_queries: bool):
    made = [attend(batch, split=(2, 3, 4)) for batch in batches(name)]
    measure = variant(exclude_keys, exclude_queries)
    found = reduce(lambda a, b: a + b, map(measure.of, made)).value()["confidence"]
    sentences = [
        {
            "A": example.A,
            "query_is_special": example.queries.is_special,
            "key_is_special": example.keys.is_special,
            "exclude_keys": exclude_keys,
            "exclude_queries": exclude_queries,
        }
        for batch in batches(name)
        for example in batch
    ]
    slow = torch.tensor(confidence.over_corpus(sentences), dtype=torch.float64)
    torch.testing.assert_close(found.double(), slow, rtol=1e-8, atol=1e-10)
