"""Budgets of a cache: how many groups stream for a share of the bytes, or for a largest drop."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import headcount
from headcount.cache import CacheOptions, CachePlan, plan_cache, plan_of
from headcount.cache.judging import Answered
from headcount.cache.questions import AskedText
from headcount.cache.result import CacheSize
from headcount.core import InputError, silent_steps
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.pages import document_of
from headcount.results import CachePart
from tests import saved

WORDS = "old new red big small dark tall quiet empty narrow wide".split()
TEXTS = [
    f"The {one} garden was full of {other} people and dogs ." for one in WORDS for other in WORDS
]
OPTIONS = CacheOptions(
    lengths=(300,), per_length=8, needles=4, sentences=1, recent=40, score="distance", draws=1
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A model of four groups."""
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each streaming group loses one of the four needles of each text, and no next sentence."""

    def answered(
        loaded: Loaded,
        texts: Sequence[AskedText],
        plan: CachePlan | None = None,
        steps: Any = silent_steps,
    ) -> Answered:
        lost = 0 if plan is None else len(plan.streaming)
        right = []
        for text in texts:
            places = [*range(len(text.questions))]
            needles = [n for n in places if len(text.questions[n].answers) == 1]
            right += [n not in needles[:lost] for n in places]
        return Answered(tuple(right), (0.0,) * len(right))

    monkeypatch.setattr("headcount.cache.planning.answered", answered)


@pytest.mark.usefixtures("answers")
def test_as_few_groups_stream_as_the_bytes_need(loaded: Loaded) -> None:
    shares = {}
    for wanted in ("90%", "60%", "20%"):
        found = plan_cache(loaded, Corpus(TEXTS), replace(OPTIONS, bytes=wanted))
        streaming, size = len(plan_of(found).streaming), found.record.size
        assert size is not None
        kept, whole = OPTIONS.sink + OPTIONS.recent, size.of(size.far)
        shares[wanted] = [
            size.of(size.far, number / 4, kept) / whole for number in (streaming, streaming - 1)
        ]
        said = document_of(found).markdown()
        assert f"--bytes {wanted} streams {streaming} of the 4 groups that can stream" in said
        assert f"bytes:{wanted}" in found.record.signature.replace("%25", "%")
    for wanted, (within, before) in shares.items():
        assert within <= float(wanted[:-1]) / 100 < before
    with pytest.raises(InputError, match="at least .*with all 4 groups streaming, got 1%"):
        plan_cache(loaded, Corpus(TEXTS), replace(OPTIONS, bytes="1%"))


@pytest.mark.usefixtures("answers")
def test_as_many_groups_stream_as_the_drop_allows(loaded: Loaded) -> None:
    """All texts lose alike, so that the interval's end is the drop itself: 25 points a group."""
    for most, streaming in (("25%", 1), ("60%", 2), ("0.99", 3)):
        found = plan_cache(loaded, Corpus(TEXTS), replace(OPTIONS, max_drop=most))
        assert len(plan_of(found).streaming) == streaming
        tried = {each.streaming: each.drop for each in found.record.tried}
        assert streaming in tried and tried[streaming] == pytest.approx(streaming / 4)
        said = document_of(found).markdown()
        assert f"--max-drop {most} streams {streaming} of the 4" in said
        assert f"{streaming} lose up to {25 * streaming}" in said
    with pytest.raises(InputError, match="at least 8 texts for --max-drop, .* got 4"):
        plan_cache(loaded, Corpus(TEXTS), replace(OPTIONS, per_length=4, max_drop="25%"))
    with pytest.raises(InputError, match="got up to 25.% with 1 group streaming. Ask more needles"):
        plan_cache(loaded, Corpus(TEXTS), replace(OPTIONS, max_drop="2%"))


def test_one_budget_is_taken() -> None:
    """By default half of the groups stream."""
    assert CacheOptions().share == 0.5 and CacheOptions().budget == "--stream 0.5"
    pairs: list[dict[str, Any]] = [
        {"stream": 0.5, "bytes": "60%"},
        {"bytes": "60%", "max_drop": "2%"},
    ]
    for given in pairs:
        with pytest.raises(InputError, match="Expected one budget out of --stream, --bytes and"):
            CacheOptions(**given)


@pytest.mark.usefixtures("answers")
def test_the_cache_of_a_batch_stands_beside_the_weights(loaded: Loaded) -> None:
    """A token takes 16 kB here, and half of it under the plan behind the 44 that are kept."""
    found = plan_cache(loaded, Corpus(TEXTS), OPTIONS)
    half = len(plan_of(found).streaming) / 4
    assert half == 0.5

    def said(weights: int, longest: int | None) -> str:
        parts = (CachePart("decoder.self", None, 16_000),)
        size = CacheSize("float32", weights, parts, longest)
        record = replace(found.record, size=size)
        return re.sub(" +", " ", document_of(replace(found, record=record)).markdown())

    text = said(128_000_000, 4000)
    # 8 * 16 * n > 128,000 kB, and 8 * 16 * (n + 44) / 2 > 128,000 kB
    assert (
        "The cache of 8 texts outgrows them from 1,001 tokens on, under the plan from 1,957" in text
    )
    assert "up to the 4,000 tokens that it takes. Its weights take 128.0 MB" in text
    assert "| 4,000 | 64.0 MB | 32.4 MB | 31.6 MB | 51 % | 512.0 MB | 258.8 MB |" in text
    assert "8 texts outgrows them from 1,001 tokens on, under the plan never." in said(
        128_000_000, 1500
    )
    assert "The cache of 8 texts never outgrows them." in said(128_000_000, 900)
