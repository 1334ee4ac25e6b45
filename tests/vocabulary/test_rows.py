"""Rows of the vocabulary: everything that is measured has one, and the docs say the same."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from headcount.measures import (
    IMAGE_MEASURES,
    MEASURED,
    MEASURES,
    PATCH_TRAITS,
    REGISTRY,
    TRAITS,
    LearnedSink,
)
from headcount.vocabulary import (
    IMAGES,
    ROLES,
    SYNTAX,
    TEXTS,
    ColumnEntry,
    Inputs,
    Thresholds,
    TraitEntry,
    in_legend,
    traits_of,
)

WITH_LINKS = traits_of(TEXTS, has_links=True)
DOCS = Path(__file__).parents[2] / "docs" / "measures.md"


def rows_of_tables() -> list[list[str]]:
    """The cells of every row of a table in docs/measures.md."""
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]


def documented(key: str) -> list[str]:
    """The first row whose first cell names a column or trait."""
    found = [
        cells
        for cells in rows_of_tables()
        if any(fnmatch(key, name) for name in re.findall(r"`([^`]+)`", cells[0]))
    ]
    assert found, f"{key} stands in no table of {DOCS.name}"
    return found[0]


@pytest.mark.parametrize("column", [c for c in MEASURED.values() if c.source], ids=lambda c: c.key)
def test_docs_give_the_source_of_a_column(column: ColumnEntry) -> None:
    assert column.source in documented(column.key)[3]


@pytest.mark.parametrize(
    "trait", [t for t in (*WITH_LINKS, *IMAGES.traits) if t != SYNTAX], ids=lambda t: t.key
)
def test_docs_give_the_role_of_a_trait(trait: TraitEntry) -> None:
    assert trait.role.name in documented(trait.key)[1].split(", ")


def test_every_measured_column_has_a_row() -> None:
    for measure in (*MEASURES, *IMAGE_MEASURES, LearnedSink):
        assert all(isinstance(each, ColumnEntry) for each in measure.columns)
        assert {*measure.names()} <= {*MEASURED}
        assert REGISTRY[measure.name] is measure
    for column in MEASURED.values():
        assert column.norm in ("", *MEASURED), column.key


@pytest.mark.parametrize("inputs", [TEXTS, IMAGES], ids=["texts", "images"])
def test_every_measured_trait_has_a_row_of_its_own(inputs: Inputs) -> None:
    traits = traits_of(inputs, has_links=inputs == TEXTS)
    keys = [each.key for each in traits]
    assert set(TRAITS if inputs == TEXTS else PATCH_TRAITS) <= set(keys)
    letters = [each.letter for each in traits]
    assert len(set(letters)) == len(letters) and len(set(keys)) == len(keys)
    assert in_legend({*keys, "novel"})[-1] == "novel"
    assert [each for each in keys if each not in in_legend(set(keys))] == []


def test_every_role_has_a_threshold_and_a_trait() -> None:
    possible = {each.role.name for each in (*WITH_LINKS, *IMAGES.traits)}
    for role in ROLES.values():
        assert 0 < Thresholds().least(role.name) < 1 and role.name in possible


@pytest.mark.parametrize("word", ["sink", "copy", "bos", "grammar", "comma"])
def test_synonyms_lead_to_traits(word: str) -> None:
    assert any(word in each.words for each in TEXTS.traits)


def test_weights_are_shares_that_say_what_they_lie_on() -> None:
    weights = [each for each in MEASURED.values() if each.group == "Mean weight on"]
    for each in weights:
        assert each.key.startswith("attn_") and not each.has_signs
        assert "mean weight" in each.about and each.label.startswith("weight on ")
