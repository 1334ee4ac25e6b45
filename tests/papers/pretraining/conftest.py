"""A few sentence pairs and their vocabulary."""

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from headcount.papers import Rows, learn_pieces, read_pairs

PARALLEL = Path(__file__).parents[3] / "headcount" / "data" / "sample.tsv"


@pytest.fixture(scope="session")
def pairs() -> Rows:
    """The pairs of the project's sample."""
    return read_pairs(PARALLEL, {"source": 0, "target": 1})


@pytest.fixture(scope="session")
def tokenizer(pairs: Rows) -> PreTrainedTokenizerFast:
    """The tokenizer of both sides."""
    return learn_pieces([side for row in pairs.rows for side in row], 250, 64)
