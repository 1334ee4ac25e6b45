"""The treebank reader against the conllu library, and every way a treebank can be broken."""

import re
from itertools import pairwise
from pathlib import Path

import conllu
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.core import CorpusError
from headcount.corpora import Sentence
from headcount.corpora.conllu import read_conllu

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "bank.conllu"
    path.write_text(content, encoding="utf-8")
    return path


def rows(*heads: str) -> str:
    """A sentence with one word per head."""
    lines = [f"{i}\tw{i}\t_\tX\t_\t_\t{head}\tdep\t_\t_\n" for i, head in enumerate(heads, start=1)]
    return "".join(lines) + "\n"


def parts(sentence: Sentence) -> list[str]:
    """What is written where each word stands."""
    assert sentence.spans is not None
    return [sentence.text[start:end] for start, end in sentence.spans]


def test_words_heads_relations_tags(tmp_path: Path, treebank: str) -> None:
    english, german, russian = read_conllu(write(tmp_path, treebank))
    assert english.text == "The dogs didn't bark."
    assert parts(english) == ["The", "dogs", "did", "n't", "bark", "."]
    assert parts(german) == ["Im", "Im", "Dorf", "schläft", "Großvater", "."]
    assert parts(russian) == ["Он", "заплатил", "10 000", "рублей", "!"]
    assert english.words == ("The", "dogs", "did", "n't", "bark", ".")
    assert english.tree is not None
    assert english.tree.heads == (1, 4, 4, 4, -1, 4)
    assert english.tree.relations == ("det", "nsubj", "aux", "advmod:neg", "root", "punct")
    assert english.tree.tags == ("DET", "NOUN", "AUX", "PART", "VERB", "PUNCT")
    assert german.words == ("In", "dem", "Dorf", "schläft", "Großvater", ".")
    assert russian.words == ("Он", "заплатил", "10 000", "рублей", "!")


def test_without_a_text_the_forms_give_it(tmp_path: Path, treebank: str) -> None:
    """`SpaceAfter=No` and the forms of multiword tokens say what is written."""
    expected = [(each.text, each.spans) for each in read_conllu(write(tmp_path, treebank))]
    bare = "".join(line for line in treebank.splitlines(True) if not line.startswith("# text"))
    found = list(read_conllu(write(tmp_path, bare)))
    assert [(each.text, each.spans) for each in found] == expected
    assert not any(each.differs for each in found)


def test_spaces_are_those_of_the_text(tmp_path: Path, treebank: str) -> None:
    path = write(tmp_path, broken(treebank, "= The dogs didn't", "=   The  dogs\u00a0didn't"))
    sentence = next(read_conllu(path))
    assert sentence.text == "The  dogs\u00a0didn't bark."
    assert parts(sentence) == ["The", "dogs", "did", "n't", "bark", "."] and not sentence.differs


def test_a_text_of_other_letters_is_not_read(tmp_path: Path, treebank: str) -> None:
    """The forms say what is written, and the sentence that it does not agree."""
    for text in ("The dogs did not bark.", "The dogs didn't bark", "The dogs didn't bark. No"):
        path = write(tmp_path, broken(treebank, "The dogs didn't bark.", text))
        english, german, _ = read_conllu(path)
        assert english.text == "The dogs didn't bark." and english.differs
        assert not german.differs


@pytest.mark.parametrize(
    ("old", "new"),
    [("3-4\tdidn't", "3-9\tdidn't"), ("3-4\tdidn't", "4-3\tdidn't"), ("1-2\tIm", "0-2\tIm")],
)
def test_a_range_of_words_that_there_are_not(
    tmp_path: Path, treebank: str, old: str, new: str
) -> None:
    path = write(tmp_path, broken(treebank, old, new))
    with pytest.raises(CorpusError, match=f"expected a range of the words up to 6, got {new[:3]}"):
        list(read_conllu(path))


def test_origin_is_the_line_of_the_first_word(tmp_path: Path, treebank: str) -> None:
    path = write(tmp_path, treebank)
    assert [sentence.origin for sentence in read_conllu(path)] == [
        f"{path}:3",
        f"{path}:14",
        f"{path}:22",
    ]


def test_windows_line_ends_and_a_missing_last_blank_line(tmp_path: Path, treebank: str) -> None:
    plain = [sentence.tree for sentence in read_conllu(write(tmp_path, treebank))]
    path = tmp_path / "windows.conllu"
    path.write_bytes(treebank.rstrip("\n").replace("\n", "\r\n").encode())
    assert [sentence.tree for sentence in read_conllu(path)] == plain


def broken(treebank: str, old: str, new: str) -> str:
    assert treebank.count(old) == 1
    return treebank.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("5\taux\t_\t_", "5\taux\t_", ":6: expected 10 columns separated by tabs, got 9. Fix"),
        ("5\taux\t_\t_", "5\taux\t_\t_\t_", ":6: expected 10 columns separated by tabs, got 11"),
        (
            "\t5\taux",
            "\t_\taux",
            ":6: expected the number of the word's head in column 7, "
            "got '_'. A treebank needs a head for every word.",
        ),
        ("\t5\taux", "\t-1\taux", ":6: expected the number of the word's head in column 7, got"),
        (
            "\t5\taux",
            "\t7\taux",
            ":6: the head 7 points nowhere, since the sentence has 6 words. Fix",
        ),
        ("3\tdid\t", "4\tdid\t", ":6: expected word number 3, got 4. Number the words"),
        ("3\tdid\t", "3\t\t", ":6: expected a word in column 2, got nothing. Fix"),
        (
            "3\tdid\t",
            "c\tdid\t",
            ":6: expected a word's number, a range like 3-4 or an empty "
            "node like 5.1 in column 1, got 'c'. Fix",
        ),
        ("\t2\tdet", "\t1\tdet", ":3: the heads form a cycle, 1 -> 1. Fix column 7"),
        ("VB\t_\t0", "VB\t_\t3", ":8: the heads form a cycle, 5 -> 3 -> 5. Fix column 7"),
        (
            "\t5\taux",
            "\t0\taux",
            ":3: expected one root (head 0) in a sentence, got 2, on lines 6, 8. Fix",
        ),
    ],
)
def test_what_is_broken_is_named(
    tmp_path: Path, treebank: str, old: str, new: str, message: str
) -> None:
    path = write(tmp_path, broken(treebank, old, new))
    with pytest.raises(CorpusError, match=re.escape(f"{path}{message}")):
        list(read_conllu(path))


def test_sentences_before_the_broken_one_are_read(tmp_path: Path, treebank: str) -> None:
    reader = read_conllu(write(tmp_path, broken(treebank, "\t4\tobl", "\tx\tobl")))
    assert next(reader).text == "The dogs didn't bark."
    with pytest.raises(CorpusError, match=":16: .* got 'x'"):
        list(reader)
    strict = read_conllu(tmp_path / "bank.conllu", strict=True)
    assert next(strict).text == "The dogs didn't bark."
    with pytest.raises(CorpusError, match=":16: .* got 'x'"):
        next(strict)


def test_comments_alone_are_no_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, "# global.columns = ID FORM\n\n" + rows("0") + "\n\n# end\n")
    assert [sentence.text for sentence in read_conllu(path)] == ["w1"]


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=7))
def test_a_cycle_is_found_where_a_walk_to_the_root_never_ends(
    tmp_path_factory: pytest.TempPathFactory, heads: list[int]
) -> None:
    heads = [min(head, len(heads) - 1) for head in heads]

    def reaches_root(word: int) -> bool:
        for _ in heads:
            word = heads[word]
            if word < 0:
                return True
        return False

    path = tmp_path_factory.mktemp("cycles") / "bank.conllu"
    path.write_text(rows(*(str(head + 1) for head in heads)), encoding="utf-8")
    try:
        list(read_conllu(path))
        refusal = ""
    except CorpusError as error:
        refusal = str(error)
    found = re.search(r":(\d+): the heads form a cycle, ([\d >-]+)\.", refusal)
    assert bool(found) is not all(reaches_root(word) for word in range(len(heads)))
    if found:
        line, cycle = int(found[1]), [int(word) - 1 for word in found[2].split(" -> ")]
        assert line == cycle[0] + 1 and cycle[0] == cycle[-1] and len({*cycle}) == len(cycle) - 1
        assert all(heads[here] == there for here, there in pairwise(cycle))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "UD_English-EWT/en_ewt-ud-dev.conllu",
        "UD_German-GSD/de_gsd-ud-dev.conllu",
        "UD_Russian-Taiga/ru_taiga-ud-dev.conllu",
    ],
)
def test_agrees_with_the_conllu_library(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name} in ../shared/data")
    read = list(read_conllu(path))
    ours = [(sentence.words, sentence.tree) for sentence in read]
    with path.open(encoding="utf-8") as file:
        blocks = list(conllu.parse_incr(file))
    assert len(ours) == len(blocks)
    for (words, tree), block in zip(ours, blocks, strict=True):
        theirs = [token for token in block if isinstance(token["id"], int)]
        assert tree is not None
        assert words == tuple(token["form"] for token in theirs)
        assert tree.heads == tuple(token["head"] - 1 for token in theirs)
        assert tree.relations == tuple(token["deprel"] for token in theirs)
        assert tree.tags == tuple(token["upos"] for token in theirs)
    texts = [block.metadata["text"] for block in blocks]
    assert [sentence.text for sentence in read] == [text.strip() for text in texts]
    assert not any(sentence.differs for sentence in read)


def test_an_unfinished_sentence_is_left_out_of_many(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.conllu", "1\tDogs\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    path.write_text(99 * whole + whole[:9])
    with pytest.warns(UserWarning, match=r"1 sentence of .*left out: .*a.conllu:199: expected 10"):
        assert len([*read_conllu(path)]) == 99
    path.write_text(98 * whole + whole[:9])
    with pytest.raises(CorpusError, match="a.conllu:197: expected 10 columns"):
        list(read_conllu(path))
