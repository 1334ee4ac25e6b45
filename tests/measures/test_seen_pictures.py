"""What chance and position explain is counted over the keys that tokens of pictures see."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount import Corpus, Loaded
from headcount.corpora import Batches, take_census
from headcount.corpora.halves import is_in_second_half
from headcount.measures import Looks, RelationTests, Traits
from headcount.measures.arcs import REACH as REACH_OF_WORDS
from headcount.measures.looks import REACH
from headcount.measures.streaming import run
from headcount.models import encoder_of
from headcount.vocabulary import DIRECTIONS
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


def named_places(kind: str, folder: Path) -> Corpus:
    """Prompts with boxes for phrases behind the picture and, in chats, in front of it."""
    one, other = (tiny.picture(folder / f"{n}.png", seed=n) for n in range(2))
    links = [
        {"phrase": "dog", "boxes": [[0, 0, 12, 17]]},
        {"phrase": "mat", "boxes": [[11, 0, 23, 9], [0, 9, 12, 17]]},
    ]
    text = "where is the red dog by the mat ?"
    if kind == "paligemma":
        rows = [{"image": each, "text": text, "links": links} for each in (one, other)]
        return Corpus(rows, columns={"image": "image", "text": "text"})
    behind, before = tiny.chat(one, text), tiny.chat(other, text)
    before["messages"][0]["content"].reverse()
    return Corpus([each | {"links": links} for each in (behind, before)])


@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize("kind", KINDS)
def test_words_that_can_look_at_each_other_are_those_that_see(kind: str, tmp_path: Path) -> None:
    """By loops over the words of fields, in both halves of the corpus together."""
    loaded, corpus = tiny.loaded(kind), named_places(kind, tmp_path)
    encoder = encoder_of(loaded, corpus)
    batches = Batches(corpus, encoder, take_census(corpus, encoder))
    totals = run(loaded.model, loaded.anatomy, batches, [RelationTests])
    seen, words = Counter[int](), {direction: Counter[int]() for direction in DIRECTIONS}
    for pair in encoder.encode([*corpus]):
        sees = pictures.words_that_see(
            seen_by_stock_model(loaded, encoder, pair).tolist(), pair.source.word_of
        )
        for link in pair.links():
            seen[0] += any((link.query, key) in sees for key in link.keys)
            seen[1] += any((key, link.query) in sees for key in link.keys)
            field = sorted({link.query, *link.keys, *link.candidates})
            for direction, offset in pictures.pairs_in_field(link, field, sees):
                words[direction][offset] += 1
    assert seen[0] > 0
    assert kind == "paligemma" or seen[0] < 4, "a word in front of a picture does not see it"
    for sums in totals.sums.values():
        assert isinstance(sums, RelationTests)
        assert sums.seen.sum((0, 1)).tolist() == [seen[0], seen[1]]
        for direction, found_O in zip(DIRECTIONS, sums.words[2:].tolist(), strict=True):
            counted, reach = words[direction], range(-REACH_OF_WORDS, REACH_OF_WORDS + 1)
            before, after = (
                sum(number for offset, number in counted.items() if sign * offset > reach[-1])
                for sign in (-1, 1)
            )
            assert found_O == [*(counted[offset] for offset in reach), before, after]
