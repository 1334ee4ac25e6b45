"""Links of one's own: where they come from, which words they join, and what can be no link."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headcount.core import CorpusError, InputError, PluginError
from headcount.corpora import RELATIONS, Batches, Corpus, Encoder, Link, Relation, Sentence, Tree
from headcount.corpora import take_census as census_of
from headcount.corpora.word_links import head_word
from headcount.measures.links import Linked
from headcount.measures.reductions import Sides
from tests import tiny_tokenizers

SLEPT = Sentence(
    "She did n't sleep",
    ("She", "did", "n't", "sleep"),
    Tree((3, 3, 3, -1), ("nsubj", "aux", "advmod", "root"), ("PRON", "AUX", "PART", "VERB")),
)


class Negation(Relation):
    """From a verb to its negation."""

    name, query, key = "negation", "verb", "negation"

    def links(self, sentence: Sentence) -> Iterator[tuple[int, int]]:
        assert sentence.tree is not None and sentence.words is not None
        for word, head in enumerate(sentence.tree.heads):
            if sentence.words[word] == "n't":
                yield head, word


def again(sentence: Sentence) -> Iterator[tuple[int, list[int]]]:
    """From a word to all earlier copies."""
    words = [word.lower() for word in sentence.words or ()]
    for word, text in enumerate(words):
        if earlier := [other for other in range(word) if words[other] == text and text.isalpha()]:
            yield word, earlier


def only(corpus: Corpus) -> Sentence:
    (sentence,) = corpus
    return sentence


def test_links_come_from_a_function_a_relation_or_its_name() -> None:
    found = (Link("negation", 3, (2,)),)
    RELATIONS.add(Negation)
    try:
        for given in (Negation, Negation(), "negation", ["negation"]):
            corpus = Corpus([SLEPT], links=given)
            assert only(corpus).links == found
            words = corpus.link_words["negation"]
            assert (words.query, words.key) == ("verb", "negation")
            assert words.about == "From a verb to its negation."
            assert words.origin == __name__
    finally:
        RELATIONS.remove("negation")
    with pytest.raises(InputError, match="Expected a relation .*got 'negation'"):
        Corpus([SLEPT], links="negation")


def test_a_plain_text_is_split_into_words_and_read_as_before() -> None:
    text = "The dog barked; the old dog didn't."
    sentence = only(Corpus([text], links=again))
    assert sentence.words == ("The", "dog", "barked", ";", "the", "old", "dog", "didn", "'t", ".")
    assert sentence.links == (Link("again", 4, (0,)), Link("again", 6, (1,)))
    encoder = Encoder(tiny_tokenizers.wordpiece())
    plain, split = (encoder.encode([each])[0].source for each in (Sentence(text), sentence))
    assert plain.ids == split.ids and max(split.word_of) > 0


def test_a_row_has_links_and_other_fields_of_that_name_are_none(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    words = ["the", "tall", "man", "saw", "him", "again"]
    links = [{"name": "means", "query": 4, "keys": [[0, 2]]}, {"name": "x", "query": 5, "keys": 3}]
    rows = [
        {"words": words, "links": links},
        {"text": "It rains.", "links": ["https://example.org"]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    first, second = Corpus(path)
    assert first.links == (Link("means", 4, (2,)), Link("x", 5, (3,)))
    assert second.links == () and second.words is None
    for bad in ({"query": 1, "keys": [0]}, {"name": "x", "query": 1, "keys": [9]}, "x"):
        path.write_text(json.dumps({"text": "It rains.", "far": [bad]}), encoding="utf-8")
        with pytest.raises(CorpusError, match=r"links.jsonl:1: expected links such as .*Fix the"):
            list(Corpus(path, columns={"text": "text", "links": "far"}))


def test_a_key_of_column_10_links_words_of_a_treebank(tmp_path: Path) -> None:
    rows = (
        "1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t_\t_",
        "2\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\t_",
        "3\tthe\tthe\tDET\t_\t_\t4\tdet\t_\tTo=1,2|SpaceAfter=No",
        "4\tman\tman\tNOUN\t_\t_\t2\tobj\t_\tTo=4|Span=3-4",
        "5\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\tSpan=3-4",
    )
    path = tmp_path / "a.conllu"
    path.write_text("\n".join(rows) + "\n\n", encoding="utf-8")
    assert only(Corpus(path)).links == ()
    corpus = Corpus(path, links=["misc.To", "misc.Span"])
    assert only(corpus).links == (Link("To", 2, (0, 1)), Link("Span", 4, (3,)))
    assert corpus.link_words["To"].key == "To"
    path.write_text(path.read_text().replace("To=1,2", "To=x"), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a.conllu:3: expected To= in column 10 to be numbers"):
        list(Corpus(path, links="misc.To"))


def test_a_span_counts_by_its_head_word() -> None:
    assert head_word(range(0, 3), SLEPT) == 0, "the first whose head is outside"
    assert head_word(range(1, 4), SLEPT) == 3
    boat = Sentence("", tuple("the tall man in the boat".split()))
    assert head_word(range(0, 6), boat) == 2
    for span in (range(2, 9), range(2, 2), range(0, 4, 2)):
        with pytest.raises(InputError, match="Expected a span inside the 4 words"):
            head_word(span, SLEPT)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((3, 4), "expected a link bad between words 0 to 3, got 4"),
        ((3, []), "no key"),
        (3, "words' numbers, .*, got 3"),
        (Link("x", -1, (2,)), "got -1"),
    ],
)
def test_what_is_no_link_names_the_function_that_found_it(found: object, said: str) -> None:
    def bad(sentence: Sentence) -> list:
        return [found]

    with pytest.raises(PluginError, match=f"could not link words of .* as bad. .*{said}"):
        list(Corpus([SLEPT], links=bad))


def test_names_that_no_kind_of_link_may_have() -> None:
    for name in ("", "all"):
        with pytest.raises(InputError, match="Expected a link with a name other than 'all'"):
            Link(name, 0, (1,))


def test_pairs_and_chats_have_no_links() -> None:
    with pytest.raises(CorpusError, match="expected a text to link words of, got a pair"):
        list(Corpus([Sentence("a", second="b")], links=again))


def test_links_are_hashed_whatever_their_order_and_number_of_parts() -> None:
    encoder = Encoder(tiny_tokenizers.wordpiece())
    none = replace(SLEPT, text="She slept", words=("She", "slept"), tree=None)
    some = replace(SLEPT, links=(Link("negation", 3, (2,)),))
    other = replace(SLEPT, links=(Link("negation", 3, (1,)),))
    hashes = [census_of(Corpus([none, each]), encoder).links_sha256 for each in (none, some, other)]
    assert hashes[0] is None and hashes[1] != hashes[2]
    assert census_of(Corpus([some, none]), encoder).links_sha256 == hashes[1]


def test_a_text_that_is_cut_keeps_links_of_which_a_key_is_left() -> None:
    """In windows it is lost with its last word, which another window measures."""
    words = "the dog and the cat and the cow".split()
    links = (Link("near", 1, (0, 7)), Link("far", 1, (7,)), Link("here", 3, (1,)))
    for windows, names in ((False, ["near", "here"]), (True, ["here"])):
        encoder = Encoder(tiny_tokenizers.wordpiece(), max_length=6, windows=windows)
        first, *_ = encoder.encode([Sentence(" ".join(words), tuple(words), links=links)])
        assert [link.name for link in first.links()] == names
        assert all(link.keys in ((0,), (1,)) for link in first.links())


def test_a_batch_has_an_arc_for_each_key_and_knows_its_link() -> None:
    """Of links with several keys, baseline offsets are those of any key."""
    encoder = Encoder(tiny_tokenizers.wordpiece())
    texts = ["the dog and the cat and the cow", "no dog", "dog dog dog dog"]
    corpus = Corpus(texts, links=again)
    census = census_of(corpus, encoder)
    assert census.relations == () and census.links == ("again",)
    (batch,) = Batches(corpus, encoder, census)
    arcs = batch.arcs
    assert arcs is not None and arcs.link_A is not None
    rows = {sentence.text: row for row, sentence in enumerate(batch.sentences)}
    ends = [
        (rows[text], query, key)
        for text, links in (
            (texts[0], ((3, [0]), (5, [2]), (6, [0, 3]))),
            (texts[2], ((1, [0]), (2, [0, 1]), (3, [0, 1, 2]))),
        )
        for query, keys in links
        for key in keys
    ]
    found = zip(arcs.sentence_A, arcs.dependent_A, arcs.head_A, strict=True)
    assert sorted(tuple(map(int, each)) for each in found) == sorted(ends)
    linked = Linked.of(Sides(batch.source, batch.source, arcs, False))
    assert len(linked.relation_L) == 6
    later = linked.further_A
    assert int(later.sum()) == len(ends) - 6
    assert torch.equal(linked.any(~later), torch.ones(6, dtype=torch.bool))
    assert linked.largest(arcs.head_A - arcs.dependent_A).tolist().count(-1) == 3


def test_a_relation_that_reads_trees_refuses_a_text_without_one() -> None:
    class OfTrees(Relation):
        name, needs_tree = "of-trees", True

        def links(self, sentence: Sentence) -> list[tuple[int, int]]:
            assert sentence.tree is not None
            return [(0, 1)]

    with pytest.raises(CorpusError, match="expected a treebank .* for links of of-trees"):
        list(Corpus(["The dog barked."], links=OfTrees))
