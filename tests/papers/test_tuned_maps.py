"""Maps before and after fine-tuning: patterns, cosines and words equal their definitions."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headcount import Corpus, Loaded, load
from headcount.core import CorpusError, ModelError
from headcount.corpora import Batches, Sentence, Tree, take_census
from headcount.measures import Patterns
from headcount.measures.streaming import run
from headcount.papers import compare_maps, map_rows
from headcount.papers.pattern_classifier import (
    PATTERNS,
    PatternClassifier,
    generated_map,
    train_pattern_classifier,
)
from headcount.papers.tuned_maps import WORD_CLASSES, attention_to_words, classes_of, kappa
from headcount.statistics import Bootstrap
from tests import saved, tiny
from tests.commanding import SAMPLE
from tests.textbook import tuned_maps as textbook


@pytest.fixture(scope="module")
def classifier() -> PatternClassifier:
    return train_pattern_classifier(num_maps=1200, epochs=6)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, Loaded]:
    """A tiny model, and the same with other weights."""
    found = [load(saved.bert(tmp_path_factory.mktemp(name))) for name in ("before", "after")]
    tiny.seeded(found[0].model)
    tiny.seeded(found[1].model, seed=8)
    return found[0], found[1]


def test_planted_patterns_are_found_and_noise_is_not(classifier: PatternClassifier) -> None:
    assert classifier.accuracy > 0.85
    rng = np.random.default_rng(11)
    for number, name in enumerate(PATTERNS):
        maps = [
            torch.from_numpy(generated_map(rng, number, n)) for n in (9, 17, 33) for _ in "abcd"
        ]
        found = [int(classifier(each[None])[0]) for each in maps]
        assert found.count(number) >= 9, (name, found)
    noise = torch.softmax(torch.randn(20, 13, 13, generator=torch.manual_seed(0)), -1)
    assert (classifier(noise) == PATTERNS.index("heterogeneous")).double().mean() > 0.9


def test_generated_maps_are_maps() -> None:
    rng = np.random.default_rng(0)
    for number in range(len(PATTERNS)):
        each = generated_map(rng, number)
        assert each.sum(1) == pytest.approx(1) and (each >= 0).all()


@pytest.mark.slow
def test_textbook(models: tuple[Loaded, Loaded], classifier: PatternClassifier) -> None:
    corpus = Corpus([SAMPLE], limit=5)
    encoder = models[0].encoder()
    census = take_census(corpus, encoder)
    found = compare_maps(*models, Batches(corpus, encoder, census), classifier)
    (batch,) = Batches(corpus, encoder, census)
    old, new = (tiny.attention_maps(each.model, batch.inputs)["encoder.self"] for each in models)
    assert [place.layer for place in found] == list(range(len(old)))
    for (_, layer), each in found.items():
        for row in range(len(batch.sentences)):
            n = int(batch.source.is_token_BN[row].sum())
            for head in range(3):
                pair = [maps[layer][row, head, :n, :n].numpy() for maps in (old, new)]
                assert each.cosine_SH[row, head] == pytest.approx(textbook.cosine(*pair), rel=1e-4)
                one = classifier(torch.from_numpy(pair[1])[None])
                assert each.trained_SH[row, head] == int(one)
    for loaded, name in zip(models, ("before_SH", "after_SH"), strict=True):
        work = Batches(corpus, encoder, census)
        for (_, place), sums in run(loaded.model, loaded.anatomy, work, [Patterns]).sums.items():
            assert isinstance(sums, Patterns)
            label_SH = getattr(found[place], name)
            counts = [(label_SH == number).sum(0).tolist() for number in range(len(PATTERNS))]
            assert sums.maps.T.tolist() == counts


def test_a_model_compared_with_itself(
    models: tuple[Loaded, Loaded], classifier: PatternClassifier
) -> None:
    corpus = Corpus.from_sentences(["the old man sleeps", "a cat"])
    encoder = models[0].encoder()
    work = Batches(corpus, encoder, take_census(corpus, encoder))
    rows = [*map_rows(compare_maps(models[0], models[0], work, classifier), Bootstrap(2, 20, 0))]
    cosines = [row.value for row in rows if row.metric == "cosine"]
    assert len(cosines) == 2 * (1 + 3) + 1 and cosines == pytest.approx([1] * len(cosines))
    for metric in ("before", "after", "trained"):
        shares = [row.value for row in rows if (row.metric, row.layer) == (metric, -1)]
        assert sum(shares) == pytest.approx(1)


def test_kappa_is_the_textbook() -> None:
    rng = np.random.default_rng(1)
    a_SH = rng.integers(5, size=(30, 4))
    b_SH = np.where(rng.random((30, 4)) < 0.6, a_SH, rng.integers(5, size=(30, 4)))
    found = kappa(a_SH, b_SH, Bootstrap(30, 200, 0))
    assert found.value == pytest.approx(
        textbook.kappa(a_SH.ravel().tolist(), b_SH.ravel().tolist())
    )
    assert found.low < found.value < found.high
    noise = kappa(a_SH, rng.integers(5, size=(30, 4)), Bootstrap(30, 200, 0))
    assert noise.low < 0 < noise.high


def test_a_word_has_the_classes_of_its_tag_relation_and_form() -> None:
    words = ("Nobody", "told", "him", "nothing", "not", "Rome")
    tags = ("PRON", "VERB", "PRON", "PRON", "PART", "PROPN")
    relations = ("nsubj:outer", "root", "iobj", "obj", "advmod", "obl")
    tree = Tree((1, -1, 1, 1, 1, 1), relations, tags)
    found_WC = classes_of(Sentence(" ".join(words), words, tree))
    named = [{WORD_CLASSES[c] for c in np.flatnonzero(row_C)} for row_C in found_WC]
    assert named == [
        {"pronoun", "subject"},
        {"verb"},
        {"pronoun", "object"},
        {"pronoun", "object", "negation"},
        {"negation"},
        {"noun"},
    ]
    untagged = Sentence("dogs bark", ("dogs", "bark"), Tree((1, -1), ("nsubj", "root"), ("_", "_")))
    for lacking in (untagged, Sentence("dogs bark", ("dogs", "bark"))):
        with pytest.raises(CorpusError, match="expected words with tags and relations"):
            classes_of(lacking)


def test_words_are_the_textbook(models: tuple[Loaded, Loaded]) -> None:
    spans = ((0, 3), (4, 8), (4, 8), (9, 15))  # "can" and "not" are one multiword token
    tree = Tree((1, 3, 3, -1), ("nsubj", "aux", "advmod", "root"), ("PRON", "AUX", "PART", "VERB"))
    words = ("she", "can", "not", "sleeps")
    merged = Sentence("she cant sleeps", words, tree, spans=spans)
    sample = list(Corpus([SAMPLE], limit=4))
    corpus, loaded = Corpus.from_sentences([*sample, merged]), models[0]
    encoder = loaded.encoder()
    census = take_census(corpus, encoder)
    found = attention_to_words(loaded, Batches(corpus, encoder, census, max_tokens=1))
    maps = [
        (batch, tiny.attention_maps(loaded.model, batch.inputs)["encoder.self"])
        for batch in Batches(corpus, encoder, census, max_tokens=1)
    ]
    assert [place.layer for place in found] == list(range(len(maps[0][1])))
    for (_, layer), each in found.items():
        for s, (batch, A) in enumerate(maps):
            classes_WC = classes_of(batch.sentences[0])
            word_N = batch.source.word_BN[0].tolist()
            words = batch.words_at(0)  # a piece of several words is of the classes of all
            for c in range(len(WORD_CLASSES)):
                is_of_class = [any(classes_WC[w, c] for w in words.get(at, ())) for at in word_N]
                expected = textbook.attention_to(A[layer][0].numpy(), is_of_class)
                assert each.weight_SHC[s, :, c] == pytest.approx(expected, rel=1e-4, abs=1e-6)
                assert each.tokens_SC[s, c] == sum(is_of_class)


@pytest.mark.slow
def test_refusals(
    models: tuple[Loaded, Loaded], tmp_path: Path, classifier: PatternClassifier
) -> None:
    other = load(saved.gpt2(tmp_path / "gpt2"))
    with pytest.raises(ModelError, match="Expected a model and the same model after fine-tuning"):
        compare_maps(models[0], other, [], classifier)
    corpus = Corpus.from_sentences(["no tags here"])
    encoder = models[0].encoder()
    with pytest.raises(CorpusError, match="expected words with tags and relations"):
        attention_to_words(models[0], Batches(corpus, encoder, take_census(corpus, encoder)))
