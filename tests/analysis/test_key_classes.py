"""Traits of one's own: the numbers of ours where the class is the same, and what is refused."""

import re
from collections.abc import Iterable, Sequence
from html import unescape
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import headcount
from headcount.core import Head
from headcount.corpora.spelling import is_punctuation
from headcount.measures import TRAIT_CLASSES, Sides, Trait, entries_of
from headcount.measures.patch_traits import CLASSES as PATCH_CLASSES
from headcount.measures.traits import CLASSES
from headcount.models import Loaded
from headcount.pages import write_report
from headcount.results import Analysis
from headcount.testing import Patches, Planted, planted_model
from headcount.testing.patches import drawn_images
from headcount.vocabulary import ROLES, TEXTS, distinct, ink_on, traits_of
from headcount.vocabulary.colours import apart
from tests import saved

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
SAME = ("share", "null", "attainable", "strength", "low", "high", "cases", "units")
SAME += ("chance", "position_null", "first_gain", "p")


class Marks(Trait):
    """It gives its weight to commas and the like."""

    name, letter, target, threshold = "marks", "m", "marks", 0.05

    def has(self, piece: str) -> bool:
        return is_punctuation(piece)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.gpt2(tmp_path_factory.mktemp("gpt2")))


def rows_of(found: Analysis, trait: str) -> pd.DataFrame:
    rows = found.profiles.loc[found.profiles["trait"] == trait].reset_index(drop=True)
    assert len(rows) == len(found.heads.frame)
    return rows.loc[:, list(SAME)]


LOW = headcount.Options(
    thresholds=headcount.Thresholds(test_cases=20, test_alpha=1.0), induction=False
)


def alone(name: str) -> type[Trait]:
    """One of our traits under another name, so that it is measured as a plug-in's."""
    said = {"name": f"{name}_alone", "letter": chr(ord("α") + [*TRAIT_CLASSES.own].index(name))}
    return type("Alone", (TRAIT_CLASSES[name],), said | {"target": "it", "__module__": __name__})


def compare(found: Analysis, names: Iterable[str], columns: Sequence[str] = SAME) -> None:
    for name in names:
        its, ours = (rows_of(found, each).loc[:, [*columns]] for each in (f"{name}_alone", name))
        assert (ours["cases"] > 0).all()
        pd.testing.assert_frame_equal(its, ours, rtol=1e-5)


@pytest.mark.slow
def test_our_classes_have_the_numbers_of_the_pass_that_measures_them_together(bert: Loaded) -> None:
    """Also one that depends on the query, in both halves, with chance, position and the test."""
    texts = [sentence.text for sentence in headcount.Corpus(SAMPLE, limit=60)]
    pairs = [headcount.Sentence(a, target=b) for a, b in zip(texts[::2], texts[1::2], strict=True)]
    asked = [each.name for each in CLASSES]
    corpus = headcount.Corpus(pairs, pairs=True)
    compare(headcount.analyze(bert, corpus, LOW, traits=[*map(alone, asked)]), asked)


def test_they_have_in_a_causal_model(gpt2: Loaded) -> None:
    texts = [each.text for each in headcount.Corpus(SAMPLE, limit=90) if each.text[0].isalnum()]
    asked = ("first", "punctuation")
    corpus = headcount.Corpus(texts)
    compare(headcount.analyze(gpt2, corpus, LOW, traits=[Marks, *map(alone, asked)]), asked)


@pytest.mark.slow
def test_they_have_on_images() -> None:
    """Position is another null there, since what is beside a patch is so in two dimensions."""
    program = Patches((Planted(Head("encoder.self", 0, 1), "row", "needed", 1, 1, 3.0),), 2)
    corpus = headcount.Corpus.from_sentences(drawn_images(program, 60))
    asked = [each.name for each in PATCH_CLASSES]
    model = planted_model(program, "patches")
    found = headcount.analyze(model, corpus, LOW, traits=[*map(alone, asked)])
    compare(found, asked, ("share", "cases", "units", "chance"))


def test_ours_are_not_measured_twice(gpt2: Loaded) -> None:
    found = headcount.analyze(gpt2, headcount.Corpus(SAMPLE, limit=5), LOW, traits=["first"])
    assert not found.record.further and "|further:" not in found.record.signature


@pytest.mark.slow
def test_its_role_is_shown_and_read_without_it(bert: Loaded, tmp_path: Path) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=60)
    headcount.analyze(bert, corpus, LOW, traits=[Marks]).write(tmp_path)
    read = Analysis.read(tmp_path)
    having = [role for own in read.roles.values() for role in own if role.role == "marks"]
    assert having and all("to marks; " in each.evidence for each in having)
    assert {each.certainty for each in having} <= {"clear", "borderline"}
    assert "|further:marks (tests.analysis.test_key_classes)|" in read.record.signature
    colour = read.record.further["marks"].role.colour
    page = unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "look at marks" in page or "looks at marks" in page
    assert colour in page and "of its attention to marks" in page


def renamed(**changed: Any) -> Trait:
    return type("Changed", (Marks,), changed)(None)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"letter": "F"},
            r"letter of its own for the trait marks of .*, got 'F' \(first of he",
        ),
        ({"letter": "mm"}, r"got 'mm' \(no single letter\)"),
        ({"name": "first"}, "a new name for a trait of .*, got first, which headcount 0"),
        ({"name": "sink"}, "a new name for a trait of .*, got sink, which headcount"),
    ],
)
def test_a_name_or_letter_that_is_taken_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(headcount.InputError, match=said):
        entries_of([renamed(**changed)])


@pytest.mark.slow
def test_a_colour_that_is_missing_differs_from_all_others_for_any_eye() -> None:
    named = (("a", "x"), ("b", "y"), ("c", "z"))
    found = entries_of([renamed(name=name, letter=letter) for name, letter in named])
    entries = (*traits_of(TEXTS, has_links=True), *found.values())
    colours = {each.role.colour for each in entries}
    assert len(colours) == len({each.role.name for each in entries})
    for one, other in combinations(colours, 2):
        assert apart(one, other) > 15, (one, other)
    short = [each.abbreviation for each in ROLES.values()]
    short += [each.role.abbreviation for each in found.values()]
    assert len(set(short)) == len(short)
    given = entries_of([renamed(colour="#123456")])["marks"].role
    assert (given.colour, given.ink) == ("#123456", ink_on("#000000"))
    assert distinct(["#0072B2"]) == distinct(["#0072B2"])


@pytest.mark.slow
def test_a_class_that_returns_something_else_is_named(bert: Loaded) -> None:
    class Wrong(Marks):
        name = "wrong"

        def keys(self, sides: Sides, rows: slice, queries: slice) -> Tensor:
            return torch.zeros(2, 3)

    class Failing(Marks):
        name = "failing"

        def has(self, piece: str) -> bool:
            raise KeyError("x")

    corpus = headcount.Corpus(SAMPLE, limit=4)
    for kind, said in ((Wrong, "return booleans of the shape .* got .*float32"), (Failing, "KeyE")):
        found = headcount.analyze(bert, corpus, LOW, traits=[kind])
        assert any(re.search(said, each) for each in found.record.warnings), kind
