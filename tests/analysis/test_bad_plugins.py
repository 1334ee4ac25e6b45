"""A measure, trait or relation that fails: a sentence, and what others measured is kept."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

import headcount
from headcount.core import ChangedModelError
from headcount.measures import Attention, Sums
from headcount.models import Loaded, revision
from headcount.numbers import percent
from headcount.results import Analysis
from headcount.tap import Reduction
from headcount.vocabulary import ColumnEntry
from tests import saved

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
QUICK = headcount.Options(induction=False, null=False)


@final
@dataclass(frozen=True)
class Peak(Sums):
    """The mean largest weight."""

    name = "peak"
    columns = (ColumnEntry("peak_mean", "peak", "Mean weight on", "the likeliest key", percent),)
    needs = frozenset({Reduction.PEAK})

    peak: Float[Tensor, " head"]
    queries: Int[Tensor, ""]

    @classmethod
    def of(cls, attention: Attention) -> "Peak":
        is_query_BQ = attention.queries.is_token_BN
        return cls((attention.peak_BHQ * is_query_BQ[:, None]).sum((0, 2)), is_query_BQ.sum())

    def value(self) -> dict[str, Any]:
        return {"peak_mean": self.peak / self.queries}


class Vowels(headcount.Trait):
    """It gives its weight to tokens that begin with a vowel."""

    name, letter, target = "vowels", "W", "tokens that begin with a vowel"

    def has(self, piece: str) -> bool:
        return piece.strip()[:1].lower() in tuple("aeiou")


class Next(headcount.Relation):
    """A word and the one after the next."""

    name = "next"

    def links(self, sentence: Any) -> Iterator[Any]:
        yield 0, len(sentence.words) - 1


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


def analysed(loaded: Loaded) -> Analysis:
    """An analysis with a measure, a trait and a relation of one's own."""
    corpus = headcount.Corpus(SAMPLE, limit=4, links=Next)
    return headcount.analyze(loaded, corpus, QUICK, measures=[Peak], traits=[Vowels])


def raises(*_: Any) -> Any:
    raise ValueError("nothing works")


def first_head(cls: Any, attention: Attention) -> Any:
    """Sums of one head, however many there are."""
    return cls(attention.peak_BHQ[0, :1, 0], torch.tensor(1))


THING = {Peak: "peak_mean", Vowels: "vowels", Next: "next"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thing", "name", "does", "expected"),
    [
        (
            Peak,
            "of",
            classmethod(raises),
            "to take the sums of the measure peak, got ValueError: n",
        ),
        (Peak, "value", raises, "to compute the columns of the measure peak, got ValueError"),
        (Peak, "value", lambda self: {"peak_mean": self.peak[:1]}, "numbers of 3 heads .*1,"),
        (Peak, "value", lambda self: {"peak_mean": self.peak.long()}, "peak_mean torch.int64"),
        (Peak, "value", lambda self: {"other": self.peak}, "for each of peak_mean, got None"),
        (
            Peak,
            "of",
            classmethod(lambda cls, its: first_head(cls, its)),
            "take the sums of the measure peak. Expected peak of 6 heads, got 1. Repair",
        ),
        (
            Peak,
            "of",
            classmethod(lambda cls, attention: None),
            "take the sums of the measure peak. Expected Peak, got NoneType. Repair",
        ),
        (Vowels, "has", raises, "to say which keys are in the class vowels, got ValueError"),
        (Vowels, "has", lambda *_: None, "True or False of `has` for '.*', got None"),
        (Vowels, "keys", lambda *_: torch.ones(1), "to return booleans of the shape"),
        (Next, "links", raises, "to link words of .* as next, got ValueError: nothing works"),
        (Next, "links", lambda *_: iter(()), "no text has links of next of the plug-in"),
        (Next, "links", lambda *_: [(0, torch.nan)], r"words' numbers, .* got .0, nan."),
        (Next, "links", lambda *_: [("a", "b")], r"words' numbers, .* got .'a', 'b'."),
        (Vowels, "target", "", "words of the trait vowels of the plug-in .*, got no target. Say"),
        (Next, "links", lambda *_: [(0, 999)], "could not link words.* next between words 0 to"),
    ],
)
def test_what_fails_is_left_out_and_the_rest_is_kept(
    loaded: Loaded,
    monkeypatch: pytest.MonkeyPatch,
    thing: type,
    name: str,
    does: Any,
    expected: str,
) -> None:
    monkeypatch.setattr(thing, name, does)
    found = analysed(loaded)
    (warning,) = [each for each in found.record.warnings if "plug-in" in each]
    assert warning.endswith("It is left out.") or warning.startswith("no text has links")
    assert re.search(expected, warning), warning
    left = {*found.measures, *found.record.further, *found.record.links}
    assert {*THING.values()} - left == {THING[thing]}
    assert __name__ in warning


@pytest.mark.slow
def test_numbers_that_are_none_are_counted(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = torch.tensor([torch.nan, 1.0, 1.0])
    monkeypatch.setattr(Peak, "value", lambda self: {"peak_mean": nan})
    (sentence,) = [each for each in analysed(loaded).record.warnings if "NaN" in each]
    assert sentence.startswith(f"peak_mean of the plug-in {__name__}")
    assert sentence.endswith("has no number (NaN) for 2 of 6 heads")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((), "the measure peak of the plug-in .* has no columns, so that none of its numbers"),
        (("peak_mean",), "the measure peak of the plug-in .* has no words for peak_mean: write"),
    ],
)
def test_a_measure_without_words_is_a_sentence(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, columns: Any, expected: str
) -> None:
    monkeypatch.setattr(Peak, "columns", columns)
    (warning,) = [each for each in analysed(loaded).record.warnings if "plug-in" in each]
    assert re.match(expected, warning), warning


@pytest.mark.once
@pytest.mark.parametrize(("thing", "name"), [(Peak, "of"), (Vowels, "has"), (Next, "links")])
def test_what_changes_the_model_is_left_out_and_the_model_restored(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, thing: Any, name: str
) -> None:
    loaded, does = copy.deepcopy(loaded), getattr(thing, name)
    weight: Any = loaded.model.get_input_embeddings().weight
    before = revision(loaded.model)

    def touching(*given: Any) -> Any:
        weight.data.mul_(1.01)
        loaded.model.train()
        return does(*given[1:]) if thing is Peak else does(*given)

    monkeypatch.setattr(thing, name, classmethod(touching) if thing is Peak else touching)
    found = analysed(loaded)
    (warning,) = [each for each in found.record.warnings if "plug-in" in each]
    assert warning.startswith(
        f"Expected the plug-in {__name__} to leave the model as it is, got ch"
    )
    assert warning.endswith("All of them are left out.")
    assert not {*found.record.further, *found.record.links, "peak_mean"} & {*found.measures}
    assert revision(loaded.model) == before and not loaded.model.training
    ours = headcount.analyze(loaded, headcount.Corpus(SAMPLE, limit=4), QUICK)
    pd.testing.assert_frame_equal(found.heads.frame, ours.heads.frame, check_exact=True)


@pytest.mark.slow
def test_without_room_for_a_copy_it_ends_the_run(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = copy.deepcopy(loaded)
    monkeypatch.setattr("headcount.models.fingerprint.free_memory", lambda: 0)
    monkeypatch.setattr(Vowels, "has", lambda *_: bool(loaded.model.train()))
    with pytest.raises(ChangedModelError, match=f"the plug-in {__name__} to leave the model as"):
        analysed(loaded)
