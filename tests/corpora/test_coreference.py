"""Documents with coreference in every format, heads and kinds of mentions, and broken lines."""

import re
from pathlib import Path

import pytest

from headcount.core import CorpusError
from headcount.corpora.coreference import Document, NameQuestion, read_documents
from headcount.corpora.mentions import head_without_parse, kind_without_parse

GUM = """\
# newdoc id = first
# global.Entity = GRP-etype-infstat
# text = The queen of Sweden saw her.
1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\tEntity=(1-person-new
2\tqueen\tqueen\tNOUN\t_\t_\t5\tnsubj\t_\t_
3\tof\tof\tADP\t_\t_\t4\tcase\t_\t_
4\tSweden\tSweden\tPROPN\t_\t_\t2\tnmod\t_\tEntity=(2-place)1)
5\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\t_
6\ther\tshe\tPRON\t_\t_\t5\tobj\t_\tEntity=(3-person)|SpaceAfter=No
7\t.\t.\tPUNCT\t_\t_\t5\tpunct\t_\t_

# text = Did she?
1\tDid\tdo\tAUX\t_\t_\t0\troot\t_\t_
1.1\t_\t_\tPRON\t_\t_\t_\t_\t1:nsubj\tEntity=(4-person)
2\tshe\tshe\tPRON\t_\t_\t1\tnsubj\t_\tEntity=(1-person)|SpaceAfter=No
3\t?\t?\tPUNCT\t_\t_\t1\tpunct\t_\t_

# newdoc id = second
# text = Her sister, her own.
1\tHer\tshe\tPRON\t_\t_\t2\tnmod:poss\t_\tEntity=(e9--1(e8
2\tsister\tsister\tNOUN\t_\t_\t0\troot\t_\tEntity=e8)e9)
3\t,\t,\tPUNCT\t_\t_\t2\tpunct\t_\tEntity=(e5[1/3]--1)
4\ther\tshe\tPRON\t_\t_\t5\tnmod:poss\t_\tEntity=(e5[2/3])
5\town\town\tADJ\t_\t_\t2\tappos\t_\tEntity=(e5[3/3])
"""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def told(document: Document) -> list[tuple[str, str, str, str]]:
    """Entity, kind, head and words of every mention."""
    words = document.words
    return [
        (each.entity, each.kind, words[each.head], " ".join(words[each.start : each.end + 1]))
        for each in document.mentions
    ]


def test_entities_in_conllu(tmp_path: Path) -> None:
    first, second = read_documents([write(tmp_path / "a.conllu", GUM)])
    assert (first.name, second.name) == ("first", "second")
    assert list(map(len, first.sentences)) == [7, 3]
    assert told(first) == [
        ("1", "nominal", "queen", "The queen of Sweden"),
        ("2", "proper", "Sweden", "Sweden"),
        ("3", "pronoun", "her", "her"),
        ("1", "pronoun", "she", "she"),
    ]
    assert told(second)[:2] == [
        ("e8", "nominal", "sister", "Her sister"),
        ("e9", "nominal", "sister", "Her sister"),
    ]
    assert told(second)[2][::3] == ("e5", ", her own")  # from its first part to its last
    assert [each.words for each in first.read()] == [*first.sentences]
    assert first.written is not None and all(each.spans for each in first.written)
    assert [each.text for each in first.read(True)] == [" ".join(s) for s in first.sentences]


def test_conll_2012(tmp_path: Path) -> None:
    rows = [
        "The DT (1",
        "old JJ -",
        "judge NN 1)|(3)",
        "",
        "He PRP (1)",
        "met VBD -",
        "Ann NNP (2)",
    ]
    text = "#begin document (nw/a); part 000\n"
    for number, row in enumerate(rows):
        word, tag, entity = (*row.split(), "", "", "")[:3]
        text += f"nw/a 0 {number} {word} {tag} * - {entity}\n" if row else "\n"
    text += "#end document\n"
    (document,) = read_documents([write(tmp_path / "a.v4_auto_conll", text)])
    assert [each.text for each in document.read()] == ["The old judge", "He met Ann"]
    assert document.name == "(nw/a); part 000" and list(map(len, document.sentences)) == [3, 3]
    assert told(document) == [
        ("1", "nominal", "judge", "The old judge"),
        ("3", "nominal", "judge", "judge"),
        ("1", "pronoun", "He", "He"),
        ("2", "proper", "Ann", "Ann"),
    ]


def test_gap(tmp_path: Path) -> None:
    header = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL"
    text = "Ann Lee met Bo's aunt. She left."
    row = ["d-1", text, "She", "23", "Ann Lee", "0", "TRUE", "Bo", "12", "FALSE", "u"]
    content = "\t".join(header.split()) + "\n" + "\t".join(row) + "\n"
    (document,) = read_documents([write(tmp_path / "gap.tsv", content)])
    assert told(document) == [
        ("it", "proper", "Lee", "Ann Lee"),
        ("B", "proper", "Bo", "Bo"),
        ("it", "pronoun", "She", "She"),
    ]
    assert document.question == NameQuestion(2, (0, 1), (True, False))
    (read,) = document.read()
    assert read.text == text and read.form([3, 4]) == "Bo's"
    assert document.read(True)[0].text == "Ann Lee met Bo 's aunt . She left ."
    path = write(tmp_path / "b.tsv", content.replace("\t23\t", "\t22\t"))
    with pytest.raises(CorpusError, match=re.escape(f"{path}:2: expected 'She' at offset 22")):
        read_documents([path])
    path = write(tmp_path / "c.tsv", content.replace("\tu\n", "\n"))
    with pytest.raises(CorpusError, match=":2: expected 11 columns separated by tabs, got 10"):
        read_documents([path])
    with pytest.raises(CorpusError, match=":1: expected GAP's header"):
        read_documents([write(tmp_path / "d.tsv", "a dog\tein Hund\n")])


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("a.conllu", "(2-place)1)", "(2-place)", "a.conllu:4: the mention of entity 1 begins here"),
        ("a.conllu", "(3-person)|", "3)|", "a.conllu:9: the mention of entity 3 ends here but"),
        ("a.conllu", "(3-person)|", "x|", "a.conllu:9: expected (ENTITY-... or ENTITY)"),
        ("a.conllu", "Entity", "Other", "Expected mentions of entities in"),
        ("a.txt", "", "", "Expected a file ending in .conllu, .conll, _conll or .tsv (GAP), got"),
    ],
)
def test_broken_entities_name_the_line(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    content = GUM.replace(old, new) if old else GUM
    with pytest.raises(CorpusError, match=re.escape(message)):
        read_documents([write(tmp_path / name, content)])


def test_broken_columns_of_conll_2012(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "x 0 0 The DT (1)\nx 0 1 dog\n")
    with pytest.raises(CorpusError, match=":2: expected the columns of CoNLL-2012"):
        read_documents([path])
    path = write(tmp_path / "b.conll", "x 0 0 The DT 1\n")
    with pytest.raises(CorpusError, match=re.escape("b.conll:1: expected entities such as (3, 3)")):
        read_documents([path])
    with pytest.raises(CorpusError, match="Expected a file with documents, got"):
        read_documents([tmp_path / "none.conll"])


@pytest.mark.parametrize(
    ("mention", "head"),
    [
        ("the tall man", "man"),
        ("the man in the boat", "man"),
        ("a woman who sang", "woman"),
        ("Ann , his sister", "Ann"),
        ("the captain 's", "captain"),
        ("Lincoln 's Inn Hall", "Hall"),
        ("of", "of"),
    ],
)
def test_heads_without_a_parse(mention: str, head: str) -> None:
    words = mention.split()
    assert words[head_without_parse(words)] == head


def test_kinds_without_a_parse() -> None:
    assert kind_without_parse(["Her"], "Her", True, set()) == "pronoun"
    assert kind_without_parse(["Mr.", "Bo"], "Bo", False, set()) == "proper"
    assert kind_without_parse(["Dogs"], "Dogs", True, {"dogs"}) == "nominal"
    assert kind_without_parse(["Dogs"], "Dogs", True, set()) == "proper"
    assert kind_without_parse(["the", "dog"], "dog", False, set()) == "nominal"
