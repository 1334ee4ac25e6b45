"""Why a trait was not tested: the reasons, from sums and from a run on one text."""

from typing import Any

import pandas as pd
import pytest

from headcount.analysis.roles import Conditions
from headcount.corpora import Halves
from headcount.vocabulary import IMAGES, TEXTS, Thresholds

ROW = {"relation": None, "verdict": "untested", "cases": 34, "units": 8}
PROFILES = pd.DataFrame(
    [
        ROW | {"trait": "first", "role": "sink", "verdict": "none"},
        ROW | {"trait": "rare", "role": "rare"},
        ROW | {"trait": "rare", "role": "rare", "cases": 50, "units": 7},
        ROW | {"trait": "nsubj", "role": "syntactic", "relation": "nsubj"},
    ]
)
CONDITIONS = Conditions(
    is_causal=True,
    inputs=TEXTS,
    has_trees=True,
    has_links=False,
    further=(),
    halves=Halves(),
    thresholds=Thresholds(),
    induction=True,
    no_induction="its vocabulary is too small",
)


def says(trait: str, **changes: Any) -> str | None:
    found = Conditions(**(vars(CONDITIONS) | changes)).untested(PROFILES)
    return f"{found[trait].reason}: {found[trait].says}" if trait in found else None


def test_what_was_tested_has_no_reason():
    assert says("first") is None


@pytest.mark.parametrize(
    "trait, changes, expected",
    [
        ("induction", {"induction": False}, "not asked: not asked for: leave --no-induction out"),
        ("induction", {}, "model: impossible for this model: its vocabulary is too small"),
        (
            "duplicate",
            {"is_causal": False},
            "model: impossible: the model is no causal language model",
        ),
        ("next", {}, "model: impossible: the model sees no later token"),
        ("syntax", {"has_trees": False}, "no trees: no trees: give a treebank (.conllu)"),
        ("segment", {}, "no pairs: no pairs: give pairs of sentences (--pairs)"),
        ("rare", {}, "few: at most 50 cases in 8 texts, 100 in 10 are needed"),
        (
            "rare",
            {"thresholds": Thresholds(test_cases=60, test_sentences=9)},
            "few: at most 50 cases in 8 texts, 60 in 9 are needed",
        ),
        ("syntax", {}, "few: at most 34 cases in 8 texts, 100 in 10 are needed"),
        ("punctuation", {}, "no cases: each text begins with punctuation, or has none"),
        ("separator", {}, "model: impossible: no separator is inside or behind a text"),
        (
            "rare",
            {"halves": Halves({}, 1, 1100, 2132)},
            "few: 1,100 tokens, 3,232 are needed",
        ),
        (
            "rare",
            {"halves": Halves({}, 3, 1100, 2132)},
            "few: 3 texts with 1,100 tokens: 10 texts in each half are needed, or at least "
            "2,132 tokens more",
        ),
        ("spot", {"inputs": IMAGES}, "few: no token is a case"),
        (
            "rare",
            {"halves": Halves({}, 2, 99, 3101), "truncated": 2},
            "few: 2 texts with 99 tokens (2 texts cut off: add --windows): 10 texts in each half "
            "are needed, or at least 3,101 tokens more",
        ),
        (
            "rare",
            {"halves": Halves({}, 1, 512, 2688), "truncated": 1},
            "few: 512 tokens (1 text cut off: add --windows), 3,200 are needed",
        ),
        ("rare", {"halves": Halves({}, 1, 512, 2688)}, "few: 512 tokens, 3,200 are needed"),
    ],
)
def test_each_reason(trait: str, changes: dict[str, Any], expected: str):
    assert says(trait, **changes) == expected
