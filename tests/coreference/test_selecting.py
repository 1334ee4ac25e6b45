"""Antecedent selection: windows, baselines, planted antecedents, and every head by the book."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headcount.core import CorpusError, InputError
from headcount.coreference import (
    Coreference,
    CoreferenceOptions,
    forget_coreference,
    select_antecedents,
)
from headcount.coreference.antecedents import Window, are_right, baseline_choices, windows_of
from headcount.corpora import Corpus, Document, Mention, NameQuestion, Sentence, in_one_line
from headcount.corpora.mentions import head_without_parse, kind_without_parse
from headcount.models import Loaded
from headcount.tap import FunctionListener, Tap
from tests.tasks.loaded import loaded
from tests.textbook import coreference as textbook


def document(name: str, *sentences: str) -> Document:
    """A document of sentences in which `a:the_dog` is a mention of entity a."""
    found, words = list[tuple[str, ...]](), list[str]()
    mentions = list[Mention]()
    for sentence in sentences:
        begin = len(words)
        for token in sentence.split():
            entity, colon, text = token.rpartition(":")
            its = text.split("_")
            start = len(words)
            words += its
            if colon:
                head = start + head_without_parse(its)
                kind = kind_without_parse(its, words[head], head == begin, set())
                mentions.append(Mention(start, len(words) - 1, head, entity, kind))
        found.append(tuple(words[begin:]))
    return Document(name, tuple(found), tuple(mentions), name)


DOCUMENTS = [
    document("d0", "a:The_old_dog barked at b:the_moon .", "b:It moved and a:it slept ."),
    document("d1", "a:The_tired_children ran to b:the_river .", "c:Sie saw a:them near b:it ."),
    document("d2", "a:A_painter from b:Bremen bought c:chairs for a:his d:kitchen in b:Bremen ."),
]
SMALL = CoreferenceOptions(samples=20)


def one_window(each: Document) -> Window:
    return windows_of([each], [[len(s) for s in each.sentences]], 1000).windows[0]


@pytest.mark.once
@pytest.mark.parametrize("name", ["BertModel", "MarianMTModel", "LlamaForCausalLM"])
def test_every_head_by_the_book(name: str) -> None:
    model = loaded(name)
    found = select_antecedents(model, DOCUMENTS, SMALL)
    expected = by_the_book(model)
    accuracies = {row.head: row.accuracy for row in found.rows if row.kind == "all"}
    assert accuracies == pytest.approx(expected)
    assert len(set(expected.values())) > 1
    batched = select_antecedents(model, DOCUMENTS, CoreferenceOptions(samples=20, max_tokens=1))
    assert batched.rows == found.rows


def by_the_book(model: Loaded, documents: Sequence[Document] = DOCUMENTS) -> dict[str, float]:
    """Accuracy of every head, document by document, without padding."""
    encoder = model.source_encoder()
    right: dict[str, list[bool]] = {}
    for each in documents:
        encoded = encoder.sources([in_one_line(each.read())])[0]
        maps: dict[str, np.ndarray] = {}

        def keep(block, maps=maps) -> None:
            short = {"encoder.self": "enc", "decoder.self": "dec"}[block.layer.site]
            for head, weights in enumerate(block.weights_BHQK[0].numpy()):
                maps[f"{short}.{block.layer.layer}.{head}"] = weights.copy()

        body = model.model.base_model
        if model.model.config.is_encoder_decoder:
            body = model.model.get_encoder()
        listener = FunctionListener(keep)
        with torch.inference_mode(), Tap(model.model, model.anatomy, listener, block=2**62):
            body(input_ids=torch.tensor([encoded.ids]))
        for place, mention in enumerate(each.mentions):
            before = [m for m in each.mentions[:place] if m.head < mention.head]
            heads = {m.head for m in before if m.entity == mention.entity}
            if heads:
                place = encoded.place
                candidates = [place(m.head) for m in before]
                for head, weights in maps.items():
                    its = place(mention.head)
                    chosen = textbook.choice(weights, encoded.word_of, its, candidates)
                    right.setdefault(head, []).append(chosen in set(map(place, heads)))
    return {head: float(np.mean(each)) for head, each in right.items()}


def test_planted_antecedents_are_found_and_noise_is_not() -> None:
    """One head of four looks at a mention of the entity; the others look at random."""
    rng = np.random.default_rng(0)
    hits, chance = [], []
    for number in range(60):
        entities = [*"abcde", *rng.permutation(list("abcde")).tolist()]
        window = one_window(document("d", " ".join(f"{entity}:w{number}" for entity in entities)))
        size = len(window.mentions)
        weights = rng.dirichlet(np.ones(size), size=(4, size))
        for place in range(5, 10):
            weights[0, place, entities.index(entities[place])] += 1
        hits.append(are_right(torch.tensor(weights, dtype=torch.float32), window))
        chance += [1 / window.is_candidate_MM[place].sum() for place in range(5, 10)]
    accuracy = np.concatenate(hits, 1).mean(1)
    assert accuracy[0] == 1
    assert accuracy[1:] == pytest.approx(np.mean(chance), abs=0.06)


def test_baselines() -> None:
    """Every baseline chooses another mention."""
    text = (
        "m:The_king and f:The_lady and p:kings and q:the_guests saw f:Jane ; f:the_old_lady , m:he"
    )
    each = document("d", text)
    window = one_window(each)
    heads = [mention.head for mention in each.mentions]
    assert window.is_case_M.tolist() == [False] * 4 + [True] * 3
    chosen = baseline_choices(window, each.words)
    assert chosen["nearest"] == [3, 4, 5]
    assert chosen["head_match"] == [3, 1, 5]
    # Jane is singular, so not the guests; the old lady has the lady's head; he is no lady
    assert chosen["rules"] == [1, 1, 4]
    assert [each.words[heads[place]] for place in chosen["rules"]] == ["lady", "lady", "Jane"]


def test_the_same_words_come_before_the_same_head() -> None:
    each = document("d", "a:the_old_man met b:a_young_man , then a:the_old_man slept")
    chosen = baseline_choices(one_window(each), each.words)
    assert chosen == {"nearest": [1], "head_match": [1], "rules": [0]}


def test_a_shared_head_is_as_good() -> None:
    """Two mentions with one head word: choosing the other is choosing the antecedent."""
    words = ("the", "king", "saw", "him")
    mentions = (
        Mention(0, 1, 1, "a", "nominal"),
        Mention(1, 1, 1, "b", "nominal"),
        Mention(3, 3, 3, "a", "pronoun"),
    )
    window = one_window(Document("d", (words,), mentions, "d"))
    assert window.is_candidate_MM.tolist() == [[False] * 3] * 2 + [[True, True, False]]
    assert window.is_right_MM[2].tolist() == [True, True, False]


def test_windows_overlap_and_count_what_is_out_of_reach() -> None:
    """Every mention is resolved once, in the window with the most text before it."""
    sentences = ["a:it x x x", "b:it x x x", "c:it x x x", "a:it x x x", "c:it x x b:it"]
    each = document("d", *sentences)
    cut = windows_of([each], [[4] * 5], 12)
    assert [(window.first, window.sentences) for window in cut.windows] == [
        (0, range(3)),
        (8, range(2, 5)),
    ]
    cases = [
        [window.mentions[place].start for place in np.flatnonzero(window.is_case_M)]
        for window in cut.windows
    ]
    assert cases == [[], [16]]
    assert (cut.anaphoric, cut.out_of_reach) == (3, 2)
    whole = windows_of([each], [[4] * 5], 20)
    assert len(whole.windows) == 1 and whole.out_of_reach == 0
    long = windows_of([each], [[4, 99, 4, 4, 4]], 20)
    assert long.too_long == 1
    assert all(1 not in window.sentences for window in long.windows)


@pytest.mark.once
@pytest.mark.parametrize("name", ["BertModel", "MarianMTModel", "LlamaForCausalLM"])
def test_documents_are_read_as_they_are_written(name: str) -> None:
    """Words in the text, of which some share pieces, against the definition; or joined."""
    model, read = loaded(name), list[Document]()
    for each in DOCUMENTS:
        texts = [" ".join(words).replace(" .", ".") for words in each.sentences]
        pairs = zip(texts, each.sentences, strict=True)
        written = Corpus.from_sentences([Sentence(text, words) for text, words in pairs])
        read.append(replace(each, written=tuple(written)))
    found = select_antecedents(model, read, SMALL)
    expected = by_the_book(model, read)
    assert {row.head: row.accuracy for row in found.rows if row.kind == "all"} == pytest.approx(
        expected
    )
    assert "|treebank:as-written|" in found.record.signature
    joined = select_antecedents(model, read, replace(SMALL, as_words=True))
    assert joined.rows == select_antecedents(model, DOCUMENTS, SMALL).rows
    assert "|treebank:as-words|" in joined.record.signature
    assert "treebank" not in select_antecedents(model, DOCUMENTS, SMALL).record.signature


def test_the_best_head_is_chosen_on_the_other_half() -> None:
    documents = DOCUMENTS * 3
    found = select_antecedents(loaded("BertModel"), documents, SMALL)
    again = select_antecedents(loaded("BertModel"), documents, SMALL)
    assert found.record.best == again.record.best and found.record.best
    for each in found.record.best:
        assert each.low <= each.accuracy <= each.high or each.cases == 1
    (best,) = (each for each in found.record.warnings if "wide or missing" in each)
    the_other_half = "intervals of the best heads, chosen on the other documents, from 5 documents"
    assert best.startswith(the_other_half)
    cases = {row.kind: row.cases for row in found.rows}
    assert cases["all"] == sum(cases[kind] for kind in cases if kind != "all") == 3 * 6


def test_records_are_read_back(tmp_path: Path) -> None:
    found = select_antecedents(loaded("BertModel"), DOCUMENTS, SMALL)
    found.write(tmp_path)
    assert Coreference.read(tmp_path) == found
    ranked = found.ranked()
    assert ranked[0].accuracy == max(row.accuracy for row in ranked)
    (tmp_path / "coreference.parquet").write_text("no table")
    with pytest.raises(InputError, match="as coreference.json describes it, got other contents"):
        Coreference.read(tmp_path)


def test_bad_input_is_refused() -> None:
    model = loaded("BertModel")
    with pytest.raises(CorpusError, match="Expected a mention with an antecedent in a window of"):
        select_antecedents(model, [document("d", "a:it b:it c:it")], SMALL)
    with pytest.raises(InputError, match="Expected window of at least 8, got 7"):
        CoreferenceOptions(window=7)
    easy = select_antecedents(model, [document("d", "a:dogs saw a:it")], SMALL).record
    assert easy.single == easy.cases == 1
    assert "in 1 of 1 case there is one candidate only" in easy.warnings[0]


class Killed(Exception):
    """Stands for a signal."""


def test_a_run_that_was_killed_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    model, question = loaded("BertModel"), NameQuestion(2, (0, 1), (True, False))
    asked = replace(DOCUMENTS[0], question=question)
    documents = [asked, *DOCUMENTS[1:], asked]
    options = CoreferenceOptions(samples=20, max_tokens=1)
    plain = select_antecedents(model, documents, options)

    def die(stage: str, done: int, total: int) -> None:
        if done == 3:
            raise Killed

    with pytest.raises(Killed):
        select_antecedents(model, documents, options, die, out=tmp_path)
    file = tmp_path / "state" / "coreference" / "windows.json"
    before = json.loads(file.read_text())["done"]
    assert len(before) == 3, "three of four windows were done"
    again = select_antecedents(model, documents, options, out=tmp_path)
    after = json.loads(file.read_text())["done"]
    assert len(after) == 4 and after.items() > before.items()
    assert (again.rows, again.names) == (plain.rows, plain.names) and again.names
    assert replace(again.record, timings={}) == replace(plain.record, timings={})
    with pytest.raises(InputError):
        select_antecedents(model, documents, replace(options, seed=1), out=tmp_path)
    forget_coreference(tmp_path)
    assert not (tmp_path / "state" / "coreference").exists()
