"""Profiles of sums by hand: which half each number is of, its null, and what is attainable."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from scipy.stats import t as student

from headcount.analysis.profiles import RelationNames, profile_table
from headcount.core import Heads, LayerId
from headcount.measures import Looks, Moments, RelationTests, Sums, Traits
from headcount.measures.arcs import REACH as WORDS
from headcount.measures.looks import REACH
from headcount.measures.streaming import Totals
from headcount.measures.traits import TRAITS

FIRST, SECOND = 0, 1
"""The halves of the corpus."""
SIZES = {
    "half": 2,
    "head": 1,
    "relation": 2,
    "direction": 3,
    "trait": len(TRAITS),
    "near": 5,
    "side": 2,
    "2": 2,
}
RARE = TRAITS.index("rare")


def empty(kind: Any, offsets: int, bins: int) -> dict[str, torch.Tensor]:
    """Sums of nothing: zeros of the shapes and types that the fields name."""
    sizes = SIZES | {"offset": offsets, "bin": bins}
    kinds = {Looks: offsets, Traits: len(TRAITS)}.get(kind, 2)
    columns = 3 if kind is RelationTests else 1
    hits = torch.zeros(0, kinds, columns, dtype=torch.float64)
    moments = Moments.of_closed(hits, torch.zeros(0, kinds, dtype=torch.long))
    found = {f"moments.{name}": each for name, each in vars(moments).items()}
    for field in fields(kind):
        if field.name == "moments":
            continue
        shape: Any = field.type
        dtype = torch.float64 if "Float" in str(shape) else torch.long
        found[field.name] = torch.zeros(
            [sizes[name] for name in shape.dim_str.split()], dtype=dtype
        )
    return found


def looks() -> dict[str, torch.Tensor]:
    """A head that looks back more often in the second half; 100 queries in either half.

    Of 50 cases of offset -1 it hits 10 in the first half and 40 in the second. Beside it, it hits
    5 of 50 (two before) and 10 of 50 (itself).
    """
    sums = empty(Looks, 2 * REACH + 1, 2 * REACH + 2)
    sums["queries"] += 100
    for offset, first, second in ((-1, 10, 40), (-2, 30, 5), (0, 10, 10), (3, 10, 45)):
        at = REACH + offset
        sums["hits"][:, 0, at] = torch.tensor([first, second])
        sums["cases"][:, at] = sums["moments.units"][at] = sums["moments.cases_squares"][at] = 50
        # a case in each sentence
        sums["moments.squares"][at] = sums["moments.products"][at] = second
        sums["chance"][:, at] = 2.5
    return sums


def rows_of(site: str, sums: dict[type[Sums], dict[str, torch.Tensor]], relations=()) -> dict:
    place = LayerId(site, 0)
    totals = Totals({(kind, place): kind.of_state(values) for kind, values in sums.items()})
    table = profile_table(Heads({site: (1,)}), totals, RelationNames(relations))
    return {row["trait"]: row for row in table.to_dict("records")}


def test_an_offset_is_measured_on_the_second_half_beside_its_neighbours():
    found = rows_of("encoder.self", {Looks: looks()})["previous"]
    assert found["first_gain"] == pytest.approx(10 / 50 - (30 / 50 + 10 / 50) / 2)
    assert found["share"] == pytest.approx(40 / 100), "of all queries"
    beside = (5 / 50 + 10 / 50) / 2
    assert found["position_null"] == pytest.approx(beside / 2) and found["chance"] == 0.05 / 2
    assert found["null"] == pytest.approx(beside / 2), "the larger one"
    assert found["attainable"] == pytest.approx(1 / 2), "half of the queries are cases"
    assert found["strength"] == pytest.approx((0.8 - beside) / (1 - beside))
    error = (0.8 * 0.2 / 49) ** 0.5
    t = (0.8 - beside) / error
    assert found["p"] == pytest.approx(float(student.sf(t, 49)), rel=1e-6, abs=0)


def test_the_fixed_offset_is_chosen_on_the_first_half():
    found = rows_of("encoder.self", {Looks: looks()})["offset"]
    assert found["offset"] == -2, "+3 is the second half's"
    assert found["share"] == pytest.approx(5 / 100)


def test_a_rare_token_is_found_by_position_as_often_as_the_head_looks_there():
    traits = empty(Traits, 2 * REACH + 3, 0)
    traits["cases"][:, RARE], traits["chance"][:, RARE] = 60, 3
    traits["weight"][SECOND, RARE] = 30
    traits["rare_offsets"][SECOND, REACH - 1] = 30
    found = rows_of("encoder.self", {Looks: looks(), Traits: traits})["rare"]
    assert found["share"] == 0.5 and found["chance"] == 0.05
    assert found["position_null"] == pytest.approx(30 * (10 + 40) / (50 + 50) / 60)
    assert found["null"] == found["position_null"]


def relation_tests() -> dict[str, torch.Tensor]:
    """Relation 0 gains most in the first half, relation 1 in the second; 40 arcs in either half.

    Three quarters of relation 0's heads are before their dependents.
    """
    sums = empty(RelationTests, 2 * WORDS + 3, 2 * WORDS + 2)
    sums["hits"][FIRST, 0, 0, 0], sums["hits"][SECOND, 0, 0, 0] = 32, 24
    sums["hits"][FIRST, 1, 0, 0], sums["hits"][SECOND, 1, 0, 0] = 12, 40
    sums["offsets"][:, :, WORDS - 2], sums["offsets"][:, :, WORDS + 1] = 30, 10
    sums["baseline"][:] = 8
    sums["moments.units"] += 40
    sums["moments.cases_squares"] += 40
    sums["moments.squares"][:, 0], sums["moments.products"][:, 0] = 24, 16
    sums["words"][0, WORDS - 2], sums["words"][0, WORDS + 1] = 100, 100
    sums["seen"][SECOND, :, 0], sums["seen"][SECOND, :, 1] = 30, 10
    sums["looks"][0, 0, WORDS - 2] = 95
    return sums


def relation_row() -> dict[str, Any]:
    return rows_of("encoder.self", {RelationTests: relation_tests()}, ("nsubj", "nsubj:pass"))[
        "nsubj"
    ]


def test_a_relation_is_chosen_on_the_first_half_and_measured_on_the_second():
    found = relation_row()
    assert (found["relation"], found["direction"]) == ("nsubj", "dependent->head")
    assert found["first_gain"] == pytest.approx((32 - 8) / 40)
    assert found["share"] == pytest.approx(24 / 40)
    assert found["chance"] == 30 / 40, "the second half's own best offset beats the first's 8 / 40"
    assert found["position_null"] == pytest.approx(0.95 * 30 / 40)
    assert found["null"] == 0.75 and found["attainable"] == 30 / 40, "of the arcs that are seen"
