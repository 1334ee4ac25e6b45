"""Our own classes of keys, written as traits, run the checks that plug-ins run.

That they have the numbers of ours is shown in `tests/measures/test_key_classes.py`.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headcount.corpora.spelling import is_punctuation
from headcount.measures import Sides, Trait
from headcount.testing import Outcome, parametrize


class Start(Trait):
    """It gives its weight to the first token of the text."""

    name, letter, target = "start", "1", "the first token of the text"

    def keys(self, sides: Sides, rows: slice, queries: slice) -> Tensor:
        is_token_BK = sides.keys.is_token_BN[rows]
        is_first_BK = is_token_BK & (torch.arange(is_token_BK.shape[1]) == 0)
        num_queries = len(range(*queries.indices(sides.queries.ids_BN.shape[1])))
        return is_first_BK[:, None].expand(-1, num_queries, -1)


class Marks(Trait):
    """It gives its weight to commas and the like."""

    name, letter, target = "marks", "m", "marks"

    def has(self, piece: str) -> bool:
        return is_punctuation(piece)


@pytest.mark.once
@parametrize(Marks)
def test_a_class_of_words(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.once
@parametrize(Start, looks="first")
def test_a_class_of_places(check: Callable[[], Outcome]) -> None:
    check()
