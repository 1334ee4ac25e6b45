"""The shipped treebank sample is well formed and follows Universal Dependencies v2."""

from collections import Counter
from pathlib import Path

import conllu
import pytest
from conllu import Token, TokenList

from headcount.corpora import Corpus, pairs_of_words, read_links

DATA = Path(__file__).parent.parent / "headcount" / "data"

TAGS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
RELATIONS = set(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse "
    "dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis "
    "punct reparandum root vocative xcomp".split()
)
MAJOR = (
    "nsubj obj obl nmod nmod:poss amod advmod det case mark aux cop conj cc compound acl advcl "
    "ccomp xcomp nummod punct root".split()
)
FUNCTION = set("det case aux cop mark cc punct".split())
ARGUMENTS = set("nsubj obj iobj csubj ccomp xcomp obl advcl acl nmod amod".split())


def universal(relation: str) -> str:
    """Return the relation without its subtype: "nmod:poss" -> "nmod"."""
    return relation.split(":")[0]


def words(sentence: TokenList) -> list[Token]:
    """Return the syntactic words: no multiword ranges ("3-4"), no empty nodes ("5.1")."""
    return [token for token in sentence if isinstance(token["id"], int)]


def surface(sentence: TokenList) -> str:
    """Write the running text back from the forms and `SpaceAfter=No`."""
    text, covered = "", 0
    for token in sentence:
        number = token["id"]
        if isinstance(number, tuple) and number[1] == ".":
            continue
        start, end = (number, number) if isinstance(number, int) else (number[0], number[2])
        if start <= covered:
            continue
        covered = end
        spaced = (token["misc"] or {}).get("SpaceAfter") != "No"
        text += token["form"] + (" " if spaced else "")
    return text.rstrip(" ")


def load() -> list[TokenList]:
    """Read every sentence of the sample."""
    return conllu.parse((DATA / "sample.conllu").read_text(encoding="utf-8"))


SENTENCES = load()
each = pytest.mark.parametrize("sentence", SENTENCES, ids=lambda s: s.metadata["sent_id"])


def name(sentence: TokenList) -> str:
    """Return the name of a sentence for assertion messages."""
    return f"{sentence.metadata['sent_id']} ({sentence.metadata['text']})"


def test_has_enough_different_sentences():
    texts = [sentence.metadata["text"] for sentence in SENTENCES]
    repeated = [text for text, times in Counter(texts).items() if times > 1]
    assert len(texts) >= 120, f"expected at least 120 sentences, found {len(texts)}"
    assert not repeated, f"these sentences occur twice: {repeated}"


def test_sentence_ids_are_consecutive():
    ids = [sentence.metadata["sent_id"] for sentence in SENTENCES]
    assert ids == [f"headcount-{i}" for i in range(1, len(ids) + 1)]


def test_every_line_has_ten_columns():
    text = (DATA / "sample.conllu").read_text(encoding="utf-8")
    assert text.endswith("\n\n"), "the last sentence of sample.conllu must end with an empty line"
    for number, line in enumerate(text.splitlines(), start=1):
        if line and not line.startswith("#"):
            cells = line.split("\t")
            assert len(cells) == 10 and all(cells), f"sample.conllu:{number} is not 10 full columns"
            assert line.isascii(), f"sample.conllu:{number} has a letter outside ASCII: {line}"


@each
def test_words_are_numbered_and_filled(sentence: TokenList):
    found = words(sentence)
    assert [w["id"] for w in found] == list(range(1, len(found) + 1)), name(sentence)
    assert 5 <= len(found) <= 30, f"{name(sentence)} has {len(found)} words"
    for word in found:
        where = f"{name(sentence)}, word {word['id']} {word['form']!r}"
        assert word["lemma"] not in (None, "", "_"), f"{where} has no lemma"
        assert word["upos"] in TAGS, f"{where} has the unknown tag {word['upos']}"
        assert universal(word["deprel"]) in RELATIONS, f"{where} has {word['deprel']}"


@each
def test_is_one_tree(sentence: TokenList):
    heads = {word["id"]: word["head"] for word in words(sentence)}
    roots = [word for word in words(sentence) if word["head"] == 0]
    assert len(roots) == 1, f"{name(sentence)} has {len(roots)} roots"
    for word in words(sentence):
        is_root = word["head"] == 0
        assert is_root == (word["deprel"] == "root"), f"{name(sentence)}: {word['form']!r}"
        node, steps = word["id"], 0
        while node != 0:
            assert node in heads, f"{name(sentence)}: head {node} is not a word"
            node, steps = heads[node], steps + 1
            assert steps <= len(heads), f"{name(sentence)}: a cycle through {word['form']!r}"


@each
def test_text_is_made_of_the_words(sentence: TokenList):
    assert surface(sentence) == sentence.metadata["text"], name(sentence)


@each
def test_multiword_ranges_spell_their_words(sentence: TokenList):
    forms = {word["id"]: word["form"] for word in words(sentence)}
    for token in sentence:
        if isinstance(token["id"], tuple) and token["id"][1] == "-":
            parts = "".join(forms[i] for i in range(token["id"][0], token["id"][2] + 1))
            assert token["form"] == parts, f"{name(sentence)}: {token['form']!r} is not {parts!r}"
            rest = [token[column] for column in ("upos", "head", "deprel")]
            assert set(rest) <= {None, "_"}, f"{name(sentence)}: range {token['form']!r} has {rest}"


@each
def test_tags_fit_relations(sentence: TokenList):
    fits = {"punct": "PUNCT", "det": "DET", "cc": "CCONJ", "nummod": "NUM", "cop": "AUX"}
    heads = {word["head"] for word in words(sentence) if word["deprel"] == "fixed"}
    for word in words(sentence):
        relation = universal(word["deprel"])
        if word["id"] in heads:
            continue
        where = f"{name(sentence)}: {word['form']!r} is {word['upos']} and {relation}"
        assert word["upos"] == fits.get(relation, word["upos"]), where
        assert (word["upos"] == "PUNCT") == (relation == "punct"), where
        assert relation != "aux" or word["upos"] == "AUX", where


@each
def test_function_words_are_leaves(sentence: TokenList):
    relation_of = {word["id"]: universal(word["deprel"]) for word in words(sentence)}
    for word in words(sentence):
        if relation_of.get(word["head"]) in FUNCTION:
            assert universal(word["deprel"]) not in ARGUMENTS, (
                f"{name(sentence)}: {word['form']!r} is {word['deprel']} of a function word"
            )


@each
def test_first_of_a_pair_is_the_head(sentence: TokenList):
    for word in words(sentence):
        if universal(word["deprel"]) in {"conj", "flat", "fixed", "appos"}:
            assert word["head"] < word["id"], (
                f"{name(sentence)}: {word['form']!r} precedes its head"
            )


@pytest.mark.parametrize("relation", MAJOR)
def test_major_relations_are_frequent(relation: str):
    found = [word["deprel"] for sentence in SENTENCES for word in words(sentence)]
    times = sum(relation in (deprel, universal(deprel)) for deprel in found)
    assert times >= 20, f"{relation} occurs {times} times, expected at least 20"


def test_unusual_rows_of_the_format_occur():
    rows = [token["id"] for sentence in SENTENCES for token in sentence]
    kinds = Counter(row[1] for row in rows if isinstance(row, tuple))
    assert kinds["-"] >= 6, f"expected at least 6 multiword ranges, found {kinds['-']}"
    assert kinds["."] >= 1, "expected at least one empty node"


def test_translations_match_the_table():
    lines = (DATA / "sample.tsv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(SENTENCES), f"{len(lines)} lines, {len(SENTENCES)} sentences"
    for sentence, line in zip(SENTENCES, lines, strict=True):
        english, tab, german = line.partition("\t")
        assert tab and german.strip() == german != "", f"{name(sentence)} has no translation"
        assert english == sentence.metadata["text"], f"{name(sentence)}: the table has {english!r}"
        assert german == sentence.metadata["text_de"], f"{name(sentence)}: the table has {german!r}"
    german_lines = (DATA / "sample.de").read_text(encoding="utf-8").splitlines()
    assert german_lines == [line.partition("\t")[2] for line in lines]


def test_word_alignments_join_words_of_the_pairs() -> None:
    pairs = pairs_of_words(Corpus(DATA / "sample.tsv"), split_punctuation=True)
    gold = read_links(DATA / "sample.links", len(pairs))
    for pair, links in zip(pairs, gold, strict=True):
        links.check(len(pair.source.words), len(pair.target.words))
        linked = {target for _, target in links.possible}
        alone = [word for place, word in enumerate(pair.target.words) if place not in linked]
        assert set(alone) <= {","}, f"{pair.origin}: {alone}"
    sure = sum(len(links.sure) for links in gold)
    assert (sure, sum(len(links.possible) for links in gold)) == (2058, 2058 + 238)
