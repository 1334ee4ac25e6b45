"""Profiles: planted attention has the strength it was planted with, at any length; noise has none.

Sentences are random tokens. Each head of the planted layer does one thing in a share of its
queries (or with a share of its weight), and looks anywhere else.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from headcount.analysis.profiles import RelationNames, profile_table
from headcount.analysis.roles import judged
from headcount.core import Heads, LayerId
from headcount.corpora import Tokens
from headcount.measures import MEASURES, AttentionReducer, Sides
from headcount.measures.streaming import Totals
from headcount.measures.traits import rarest_visible
from headcount.tap import AttentionLayer, Block
from tests.measures.cases import feed

PLANTED = ("previous", "first", "rare", "local", "nothing")
"""What each head does; `local` looks at the three tokens before, each as often."""
STRENGTH = 0.7
NUM_SENTENCES = 260
NUM_COMMON = 30


def tokens(length: int, seed: int, is_second: np.ndarray) -> Tokens:
    """Content tokens only; those below `NUM_COMMON` are common."""
    rng = np.random.default_rng(seed)
    ids = np.where(
        rng.random((len(is_second), length)) < 0.15,
        rng.integers(NUM_COMMON, 900, (len(is_second), length)),
        rng.integers(0, NUM_COMMON, (len(is_second), length)),
    )
    count = torch.tensor(np.where(ids < NUM_COMMON, 1000 - ids, 900 - ids))
    here = torch.ones(ids.shape, dtype=torch.bool)
    rarest = (count * length + torch.arange(length)).argsort(1)[:, :2]
    is_rare = torch.tensor(ids >= NUM_COMMON)
    rarest = rarest.masked_fill(~is_rare.gather(1, rarest[:, :1]), -1)
    unit = torch.arange(len(ids))[:, None].expand(ids.shape)
    half = torch.tensor(is_second)[:, None].expand(ids.shape).long()
    nowhere = torch.full(ids.shape, -1)
    kinds = (torch.tensor(ids), here, here, ~here, ~here, nowhere, rarest)
    return Tokens(*kinds, count, is_rare, unit, half, torch.ones(len(ids), dtype=torch.long))


def planted(sides: Sides, seed: int) -> torch.Tensor:
    """Maps of all planted heads: sharp where a head looks, and even elsewhere for `first`."""
    rng = np.random.default_rng(seed)
    batch, length = sides.queries.ids_BN.shape
    visible = torch.ones(length, length).tril() if sides.is_causal else torch.ones(length, length)
    maps = torch.zeros(batch, len(PLANTED), length, length)
    rarest = rarest_visible(sides)
    position = torch.arange(length)
    for h, name in enumerate(PLANTED):
        noise = torch.tensor(rng.random((batch, length, length))) * visible
        key = noise.argmax(-1)  # any visible key
        does = torch.tensor(rng.random((batch, length)) < STRENGTH)
        target = {
            "previous": (position - 1).clamp_min(0).expand(batch, length),
            "rare": torch.where(rarest[..., 0] < 0, key, rarest[..., 0]),
            "local": (position - torch.tensor(rng.integers(1, 4, (batch, length)))).clamp_min(0),
        }.get(name, key)
        if name == "first":
            even = visible / visible.sum(-1, keepdim=True)
            maps[:, h] = (1 - STRENGTH) * even
            maps[:, h, :, 0] += STRENGTH
            continue
        looks = torch.where(does, target, key) if name != "nothing" else key
        maps[:, h].scatter_(-1, looks[..., None], 1.0)
    return maps


@cache
def profile(length: int, is_causal: bool, seed: int = 3) -> pd.DataFrame:
    is_second = np.arange(NUM_SENTENCES) % 2 == 1
    side = tokens(length, seed, is_second)
    sides = Sides(side, side, is_causal=is_causal)
    site = "decoder.self" if is_causal else "encoder.self"
    layer = AttentionLayer(site, 0, "", 0, len(PLANTED), len(PLANTED), 2, None)
    values = torch.zeros(NUM_SENTENCES, len(PLANTED), length, 2)
    measures = [each for each in MEASURES if each.__name__ in ("Looks", "Traits", "Positional")]
    needs = frozenset().union(*(measure.needs for measure in measures))
    reducer = AttentionReducer(layer, sides, None, values, needs)
    weights, columns = planted(sides, seed), reducer.statistics.columns_BHKC
    assert columns is not None
    rows = slice(0, NUM_SENTENCES), slice(0, len(PLANTED)), slice(0, length)
    feed(reducer, Block(layer, *rows, weights, weights @ columns))
    attention, place = reducer.attention(), LayerId(site, 0)
    totals = Totals({(measure, place): measure.of(attention) for measure in measures})
    table = judged(profile_table(Heads({site: (len(PLANTED),)}), totals, RelationNames()))
    return table.assign(planted=[PLANTED[int(head.split(".")[2])] for head in table["head"]])


def row(table: pd.DataFrame, head: str, trait: str) -> dict:
    rows = table.to_dict("records")
    return next(each for each in rows if (each["planted"], each["trait"]) == (head, trait))


@pytest.mark.once
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("trait", ["previous", "first", "rare"])
def test_planted_attention_has_its_strength_at_every_length(trait: str, is_causal: bool):
    for length in (16, 24, 60):
        found = row(profile(length, is_causal), trait, trait)
        assert found["low"] - 0.03 < STRENGTH < found["high"] + 0.03, (length, found)
        assert found["verdict"] == ("tendency" if trait == "previous" else "role")


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("length", [16, 24, 60])
def test_what_was_not_planted_is_not_found(length: int, is_causal: bool):
    table = profile(length, is_causal)
    found = table[table["verdict"].isin(["role", "tendency"])]
    own = {("previous", "previous"), ("first", "first"), ("rare", "rare")}
    shadows = set(zip(found["planted"], found["trait"], strict=True)) - own
    # A head that looks at three offsets alike stands out at their edges at most
    assert {head for head, _ in shadows} <= {"local"}
    assert {trait for _, trait in shadows} <= {"previous", "offset"}
    rows = [each for each in table.to_dict("records") if each["planted"] == "nothing"]
    assert all(each["strength"] < 0.05 for each in rows if each["verdict"] != "untested")


def test_a_rare_first_token_is_no_rare_head_and_no_sink_twice():
    """The first token is always the rarest: nothing says which of the two a head looks for."""
    is_second = np.arange(NUM_SENTENCES) % 2 == 1
    side = tokens(20, 5, is_second)
    count, rare = side.count_BN.clone(), side.is_rare_BN.clone()
    count[:, 0], rare[:, 0] = -1, True
    rarest = side.rarest_B2.clone()
    rarest[:, 0] = 0
    side = replace(side, count_BN=count, is_rare_BN=rare, rarest_B2=rarest)
    sides = Sides(side, side, is_causal=True)
    measure = next(each for each in MEASURES if each.__name__ == "Traits")
    layer = AttentionLayer("decoder.self", 0, "", 0, 1, 1, 2, None)
    weights = torch.zeros(NUM_SENTENCES, 1, 20, 20)
    weights[..., 0] = 1.0
    needs = measure.needs
    reducer = AttentionReducer(layer, sides, None, torch.zeros(NUM_SENTENCES, 1, 20, 2), needs)
    columns = reducer.statistics.columns_BHKC
    assert columns is not None
    rows = slice(0, NUM_SENTENCES), slice(0, 1), slice(0, 20)
    feed(reducer, Block(layer, *rows, weights, weights @ columns))
    sums = measure.of(reducer.attention()).state()
    assert sums["cases"][:, 0].tolist() == [0, 0] and sums["cases"][:, 4].tolist() == [0, 0]
