"""Links whose key is chosen among some words: the numbers of loops, from a function to the page."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

import headcount
from headcount import Link, Sentence
from headcount.analysis import profiles
from headcount.analysis.profile_cells import Cells, ProfileRow, profile_rows
from headcount.analysis.syntax_section import links_document
from headcount.core import CorpusError, LayerId
from headcount.corpora import EncodedPair, Encoder, take_census
from headcount.corpora.corpus import number_of_links
from headcount.corpora.halves import is_in_second_half
from headcount.corpora.word_links import links_of_rows
from headcount.models import Loaded
from headcount.results import Analysis
from tests import saved, tiny_tokenizers
from tests.textbook import syntactic

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
Found = tuple[int, list[int], list[int]]
DIRECTIONS, REACH = ("query->key", "key->query", "key<-query"), 8
LOW = headcount.Options(
    thresholds=headcount.Thresholds(test_cases=5, syntactic_cases=5), null=False, induction=False
)


class Thirds(headcount.Relation):
    """Every second word looks at a third word."""

    name, query, key, candidate = "thirds", "fourth", "third", "second"

    def links(self, sentence: Sentence) -> Iterator[Found]:
        count = len(sentence.words or ())
        for word in range(0, count, 2):
            steps = [(word * a + count) % (2 * b + 1) - b for a, b in ((7, 10), (5, 8), (11, 14))]
            if keys := [word + step for step in steps if step and 0 <= word + step < count]:
                yield word, keys, [each for each in range(count) if each % 5 != 1]


def near(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
    """Without candidates: a name that is sorted before, and one that is sorted after the other."""
    for word in range(2, len(sentence.words or ()), 5):
        yield word, [word - 2, word - 1]


def zebra(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
    """As above."""
    yield from near(sentence)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.gpt2(tmp_path_factory.mktemp("gpt2")))


def _maps(copy: Loaded, pair: EncodedPair) -> Iterator[tuple[str, np.ndarray]]:
    """The map between words of every head."""
    ids = torch.tensor([pair.source.ids])
    with torch.no_grad():
        maps = copy.model(input_ids=ids, output_attentions=True).attentions
    for head in copy.heads:
        word_HWW = syntactic.word_map(maps[head.layer][0].numpy(), pair.source.word_of)
        yield str(head), word_HWW[head.index]


def _most(weights: list[float], own: int, field: list[int]) -> int | None:
    """The word of the field with the largest weight, but for its own."""
    others = [word for word in field if word != own]
    best = max(others, key=lambda word: (weights[word], -word), default=None)
    return best if best is not None and weights[best] > 0 else None


class Counted:
    """Hits, and at which offsets in its field a head looks, counted with loops."""

    def __init__(self) -> None:
        self.hits = Counter[str]()
        self.looks = {direction: Counter[int]() for direction in DIRECTIONS}

    def add(self, map_WW: np.ndarray, link: Link, field: list[int]) -> None:
        """Count one link on one sentence."""
        rows, columns, query = map_WW.tolist(), map_WW.T.tolist(), link.query
        at_key, of_column = _most(rows[query], query, field), _most(columns[query], query, field)
        from_keys = [(key, _most(rows[key], key, field)) for key in link.keys]
        self.hits["query->key"] += at_key in link.keys
        self.hits["key->query"] += any(at == query for _, at in from_keys)
        self.hits["key<-query"] += of_column in link.keys
        looked = {"query->key": [(query, at_key)], "key->query": from_keys}
        for direction, pairs in (looked | {"key<-query": [(query, of_column)]}).items():
            for own, at in pairs:
                if at is not None:
                    self.looks[direction][field.index(at) - field.index(own)] += 1


class Fields:
    """The links of a corpus with their fields, and what position alone predicts."""

    def __init__(self, model: Loaded, corpus: headcount.Corpus) -> None:
        self.found = list[tuple[bool, Link, list[int]]]()
        self.of_heads = dict[str, Counted]()
        copy = headcount.load(model.name)  # a run may not change what it measures
        copy.model.set_attn_implementation("eager")
        for sentence in corpus:
            [pair] = model.encoder().encode([sentence])
            links = [each for each in pair.links() if each.name == "thirds"]
            fields = [sorted({each.query, *each.keys, *each.candidates}) for each in links]
            is_second = is_in_second_half(sentence)
            self.found += [(is_second, *its) for its in zip(links, fields, strict=True)]
            for head, map_WW in _maps(copy, pair):
                counted = self.of_heads.setdefault(head, Counted())
                for link, field in zip(links, fields, strict=True):
                    counted.add(map_WW, link, field)

    def offsets(self, only: bool | None = None) -> Counter[int]:
        """Offsets of keys in their fields, of all texts or of one half."""
        return Counter(
            field.index(key) - field.index(link.query)
            for is_second, link, field in self.found
            if only in (None, is_second)
            for key in link.keys
        )

    def exists(self, direction: str, offsets: Collection[int]) -> int:
        """Number of words, and of offsets from each, with a word of the field there."""
        owns = [
            (own, field)
            for _, link, field in self.found
            for own in (link.keys if direction == "key->query" else [link.query])
        ]
        places = [(field.index(own), len(field)) for own, field in owns]
        return sum(0 <= own + offset < size for own, size in places for offset in offsets)

    def habit(self, head: str, direction: str, offset: int, is_causal: bool) -> float:
        """How often a head looks at an offset that exists; all offsets beyond 8 are one."""
        looks = self.of_heads[head].looks[direction]
        offset = -offset if direction == "key->query" else offset
        if abs(offset) <= REACH:
            return looks[offset] / max(1, self.exists(direction, [offset]))
        before, after = range(-99, -REACH), range(REACH + 1, 99)
        beyond = [*before, *after]
        if is_causal:
            beyond = [*(after if direction == "key<-query" else before)]
        looked = sum(number for each, number in looks.items() if abs(each) > REACH)
        return looked / max(1, self.exists(direction, beyond))


@pytest.mark.parametrize("name", ["loaded", "causal"])
def test_a_key_is_chosen_among_candidates(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hits, baselines and the null of every head, beside links that name no candidates."""
    model: Loaded = request.getfixturevalue(name)
    corpus = headcount.Corpus(SAMPLE, links=[near, Thirds, zebra], limit=24)
    measured = dict[tuple[int, str], Cells]()

    def kept(place: LayerId, entry: Any, cells: Cells, **more: Any) -> Iterator[ProfileRow]:
        if more.get("relation") == "thirds":
            measured[place.layer, more["direction"]] = cells
        return profile_rows(place, entry, cells, **more)

    monkeypatch.setattr(profiles, "profile_rows", kept)
    analysis = headcount.analyze(model, corpus, LOW)
    assert [*analysis.record.links] == ["near", "zebra", "thirds"]
    fields = Fields(model, corpus)
    cases, offsets, second = len(fields.found), fields.offsets(), fields.offsets(True)
    in_second = sum(is_second for is_second, *_ in fields.found)
    best, first = (_commonest(each) for each in (offsets, fields.offsets(False)))
    rows = [each for each in _rows(analysis.links) if each["relation"] == "thirds"]
    assert len(rows) == 3 * len(fields.of_heads) and max(map(abs, offsets)) > REACH
    for row in rows:
        right = fields.of_heads[row["head"]].hits[row["direction"]]
        assert (row["cases"], row["correct"]) == (cases, right), row
        assert row["baseline"] == offsets[best] / cases
        assert row["baseline_offset"] == best * (-1 if row["direction"] == "key->query" else 1)
    assert 0 < max(int(row["correct"]) for row in rows) < cases
    fixed = max(second[first], second[_commonest(second)]) / in_second
    for head in map(headcount.Head.parse, fields.of_heads):
        for direction in DIRECTIONS:
            cells = measured[head.layer, direction]
            assert (cells.chance, cells.cases) == (fixed, in_second)
            assert cells.first_null == fields.offsets(False)[first] / (cases - in_second)
            habits = (
                number * fields.habit(str(head), direction, offset, name == "causal")
                for offset, number in second.items()
            )
            position = sum(habits) / in_second
            by_position_H = np.asarray(cells.position_null)
            assert by_position_H[head.index] == pytest.approx(position) and position > 0


def _commonest(offsets: Counter[int]) -> int:
    return min(offsets, key=lambda each: (-offsets[each], abs(each), each))


def _rows(table: pd.DataFrame | None) -> list[dict[str, Any]]:
    assert table is not None
    return cast(list[dict[str, Any]], table.to_dict("records"))


def test_every_word_as_candidate_changes_no_hit(loaded: Loaded) -> None:
    def open_near(sentence: Sentence) -> Iterator[Found]:
        for word, keys in near(sentence):
            yield word, keys, [*range(len(sentence.words or ()))]

    corpus = headcount.Corpus(SAMPLE, links=[near, open_near], limit=12)
    table = headcount.analyze(loaded, corpus, LOW).links
    assert table is not None
    one, other = (each.drop(columns="relation") for _, each in table.groupby("relation"))
    pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True))


def test_the_page_names_candidates_and_windows_leave_some_out(
    loaded: Loaded, tmp_path: Path
) -> None:
    options = replace(LOW, window=12)
    corpus = headcount.Corpus(SAMPLE, links=Thirds, limit=30)
    headcount.analyze(loaded, corpus, options).write(tmp_path)
    shown = links_document(Analysis.read(tmp_path))
    assert shown is not None
    said = "a key is compared with every second, not with every word."
    assert said in shown.markdown()


def test_candidates_of_rows_and_of_links() -> None:
    words = ("a", "b", "c", "d", "e", "f")
    sentence = Sentence("a b c d e f", words)
    row = {"name": "x", "query": 3, "keys": [0], "candidates": [0, [4, 5], 3]}
    [link] = links_of_rows([row], sentence).links
    assert link == Link("x", 3, (0,), (0, 5, 3)) and link.compared == (0, 3, 5)
    assert link.offset(0) == -1 and replace(link, candidates=()).offset(0) == -3
    [pair] = Encoder(tiny_tokenizers.wordpiece()).encode([replace(sentence, links=(link,))])
    assert [each.compared for each in pair.links()] == [(0, 3, 5)]
    hashes = {
        number_of_links(replace(sentence, links=(each,))) for each in (link, Link("x", 3, (0,)))
    }
    assert len(hashes) == 2
    with pytest.raises(CorpusError, match="between words 0 to 5, got 9"):
        links_of_rows([row | {"candidates": [9]}], sentence)


def test_links_of_one_name_have_candidates_or_have_none() -> None:
    def mixed(sentence: Sentence) -> Iterator[Any]:
        yield 0, [1], [1, 2]
        yield 1, 2

    corpus = headcount.Corpus(["the dog barked", "no dog barked"], links=mixed)
    with pytest.raises(CorpusError, match="candidates with every link of mixed or with none"):
        take_census(corpus, Encoder(tiny_tokenizers.wordpiece()))
