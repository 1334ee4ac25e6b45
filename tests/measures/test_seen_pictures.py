"""What chance and position explain is counted over the keys that tokens of pictures see."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount import Loaded
from headcount.corpora import Batches, take_census
from headcount.corpora.halves import is_in_second_half
from headcount.measures import Looks, Traits
from headcount.measures.looks import REACH
from headcount.measures.streaming import run
from headcount.models import encoder_of
from tests import tiny_pictures as tiny
from tests.measures.test_picture_weights import prompts
from tests.textbook import pictures

KINDS = [
    pytest.param(kind, marks=() if kind in ("gemma", "paligemma") else pytest.mark.slow)
    for kind in tiny.KINDS
]


def seen_by_stock_model(loaded: Loaded, encoder: Any, pair: Any) -> np.ndarray:
    """Which keys each query has a weight on, in an eager stock model's last layer."""
    model: Any = loaded.model
    ids = torch.tensor([pair.source.ids])
    inputs = encoder.arguments([pair.sentence], ids, torch.ones_like(ids, dtype=torch.bool))
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(**inputs, output_attentions=True).attentions[-1]
    model.set_attn_implementation(own)
    return found[0].amax(0).numpy() > 0


@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize("kind", KINDS)
def test_cases_and_chance_are_those_of_seen_keys(kind: str, tmp_path: Path) -> None:
    """By loops over what an eager stock model gives some weight, two prompts in a batch."""
    loaded, corpus = tiny.loaded(kind), prompts(kind, tmp_path)
    encoder = encoder_of(loaded, corpus)
    batches = Batches(corpus, encoder, take_census(corpus, encoder))
    totals = run(loaded.model, loaded.anatomy, batches, [Looks, Traits])
    expected = pictures.Seen(REACH)
    later = 0
    for pair in encoder.encode([*corpus]):
        sees = seen_by_stock_model(loaded, encoder, pair)
        later += int(np.triu(sees, 1).sum())
        half = int(is_in_second_half(pair.sentence))
        expected.add(sees.tolist(), pair.source.is_special, half)
    assert (later > 0) == (kind in ("gemma", "paligemma"))
    assert len(totals.sums) == 4
    for sums in totals.sums.values():
        if isinstance(sums, Looks):
            np.testing.assert_array_equal(sums.cases, expected.cases)
            np.testing.assert_allclose(sums.chance, expected.chance)
            np.testing.assert_array_equal(sums.far_pairs, expected.far_pairs)
            assert sums.queries.tolist() == expected.queries
        elif isinstance(sums, Traits):
            assert int(sums.far_pairs) == expected.pairs_beyond_2
            assert sums.diagonal_queries.tolist() == expected.at_offset
