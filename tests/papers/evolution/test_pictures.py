"""Pictures: their tokens are drawn by themselves; planted groups lie apart, noise does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headcount
from headcount.core import CorpusError
from headcount.corpora import Corpus
from headcount.papers import EvolutionPoint
from headcount.papers.evolution.document import BESIDE, beside_same
from headcount.papers.evolution.pictures import picture_points, pictured
from headcount.papers.evolution.record import EvolutionOptions
from headcount.papers.evolution.stores import Stores
from headcount.papers.evolution.subjects import StateStore, Subject, Tokens, subjects_of
from tests import saved

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subjects_of([headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))])[0]


@pytest.fixture(scope="module")
def tokens(subject: Subject) -> Tokens:
    return Tokens.of(Corpus(SAMPLE, limit=60), subject.encoder)


def test_rare_words_are_in_the_picture(subject: Subject, tokens: Tokens) -> None:
    counts = tokens.counts()
    names = subject.encoder.tokenizer.convert_ids_to_tokens(list(range(len(counts))))
    rare = next(
        name
        for name, count in zip(names, counts, strict=True)
        if count == 1 and name.isalpha() and len(name) > 1
    )
    found = pictured(subject, tokens, ["the", rare, "unheard-of"], 0)
    words = found.labels["words"]
    assert words.count(rare) == 1 and words.count("the") > 20 and {*words} == {"the", rare}
    ids = dict(zip(words, found.occurrences.token_S[: len(words)], strict=True))
    assert names[ids[rare]] == rare
    start = len(words)
    for number, label in enumerate(found.labels["position"], start=start):
        position = found.occurrences.position_S[number]
        first, _, last = label.rstrip("+").partition("-")
        end = np.inf if label.endswith("+") else int(last or first)
        assert int(first) <= position <= end
        assert found.occurrences.token_S[number] == ids["the"]
    start += len(found.labels["position"])
    for number, label in enumerate(found.labels["tags"], start=start):
        assert tokens.tags[found.occurrences.tag_S[number]] == label
    assert len({*found.labels["tags"]}) == 6
    assert start + len(found.labels["tags"]) == len(found.occurrences)
    with pytest.raises(CorpusError, match="at least 2 of the words the, zebra"):
        pictured(subject, tokens, ["the", "zebra"], 0)


@pytest.mark.slow
def test_planted_groups_lie_apart_and_noise_does_not(
    subject: Subject, tokens: Tokens, tmp_path: Path
) -> None:
    states = pictured(subject, tokens, ["the", "a"], 0)
    labels = states.labels["words"]
    states = replace(states, labels={"words": labels})
    store = StateStore(tmp_path / "s.f16", 2, states.occurrences, 5)
    store.open()
    draw = np.random.default_rng(2)
    noise = draw.normal(size=(len(states.occurrences), 5))
    numbers = np.arange(len(noise))
    store.numbers[0, numbers] = noise
    noise[: len(labels), 0] += 30 * (np.array(labels) == "the")
    store.numbers[1, numbers] = noise
    words = list(picture_points(subject, store, states, 0))
    apart, mixed = (
        beside_same([point for point in words if point.layer == layer]) for layer in (1, 0)
    )
    chance = sum((labels.count(word) / len(labels)) ** 2 for word in ("the", "a"))
    assert apart > 0.98 and abs(mixed - chance) < 0.15
    assert textbook([point for point in words if point.layer == 0]) == pytest.approx(mixed)


def textbook(points: list[EvolutionPoint]) -> float:
    """The share of the nearest points with the same label, point by point."""
    same = []
    for one in points:
        others = [other for other in points if other is not one]
        others.sort(key=lambda other: (one.x - other.x) ** 2 + (one.y - other.y) ** 2)
        same += [other.label == one.label for other in others[:BESIDE]]
    return sum(same) / len(same)


def test_pictures_have_a_store_of_their_own(subject: Subject, tmp_path: Path) -> None:
    options = EvolutionOptions(measure=("pictures",), words=("the", "a"), occurrences=10**6)
    stores = Stores([subject], Corpus(SAMPLE, limit=60), options, tmp_path, lambda *_: None)
    assert [each.view for each in stores.facts] == ["pictures"]
