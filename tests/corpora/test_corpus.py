"""A corpus of any files, read again and again."""

import hashlib
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from headcount.core import CorpusError
from headcount.corpora import Corpus, Sentence, Tree, check_is_corpus


@pytest.fixture
def files(tmp_path: Path, treebank: str) -> dict[str, Path]:
    """One file of every kind."""
    contents = {
        "a.txt": "Ein Hund.\nОн спит.\n",
        "b.jsonl": '{"text": "A dog."}\n',
        "c.conllu": treebank,
        "d.tsv": "A cat.\tEine Katze.\n",
        "e.txt": "eins\nzwei\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return {name[0]: tmp_path / name for name in contents}


def test_files_of_any_kind_in_order_and_again(files: dict[str, Path]) -> None:
    corpus = Corpus([files["c"], str(files["a"]), files["b"], files["d"]])
    texts = [sentence.text for sentence in corpus]
    assert texts[3:] == ["Ein Hund.", "Он спит.", "A dog.", "A cat."]
    assert [sentence.tree is not None for sentence in corpus] == [True] * 3 + [False] * 4
    assert [sentence.text for sentence in corpus] == texts


def test_source_and_target_files(files: dict[str, Path]) -> None:
    corpus = Corpus(source=files["a"], target=files["e"])
    assert [(item.text, item.target) for item in corpus] == [
        ("Ein Hund.", "eins"),
        ("Он спит.", "zwei"),
    ]
    assert corpus.names == (files["a"].name, files["e"].name)


def test_sources_alone_have_no_target(files: dict[str, Path]) -> None:
    assert [item.target for item in Corpus(source=files["a"])] == [None, None]
    assert all(item.tree for item in Corpus(source=files["c"]))


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_limit_counts_sentences_over_all_files(files: dict[str, Path], limit: int) -> None:
    paths = [files["c"], files["a"]]
    assert list(Corpus(paths, limit=limit)) == list(Corpus(paths))[:limit]


def test_it_streams(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nfine\n\xff\n")
    assert len(list(islice(Corpus(path), 2))) == 2
    with pytest.raises(CorpusError, match=":3: expected UTF-8"):
        list(Corpus(path))


def test_sentences_held_in_memory() -> None:
    tree = Tree((1, -1), ("nsubj", "root"), ("PRON", "VERB"))
    given = Sentence("Он спит", ("Он", "спит"), tree)
    corpus = Corpus.from_sentences([" Ein Hund. ", given], limit=2)
    spans = ((0, 2), (3, 7))
    assert list(corpus) == [Sentence("Ein Hund.", origin="row 1"), replace(given, spans=spans)]
    assert corpus.names == ()


def test_hash_is_of_the_bytes(files: dict[str, Path], tmp_path: Path) -> None:
    expected = hashlib.sha256(files["a"].read_bytes() + files["c"].read_bytes()).hexdigest()
    assert Corpus([files["a"], files["c"]], limit=1).sha256() == expected
    renamed = tmp_path / "renamed.txt"
    renamed.write_bytes(files["a"].read_bytes())
    assert Corpus(renamed).sha256() == Corpus(files["a"]).sha256()
    pair = Corpus(source=files["a"], target=files["e"]).sha256()
    assert pair != Corpus(source=files["a"]).sha256()


def test_hash_of_held_sentences_sees_target_and_tree() -> None:
    variants = [Sentence("a b"), Sentence("a b", ("a", "b")), Sentence("a b", target="c")]
    hashes = {Corpus.from_sentences([variant]).sha256() for variant in variants}
    assert len(hashes) == 3


def test_what_cannot_be_a_corpus_is_refused_at_once(files: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "a.xml"
    other.touch()
    missing = tmp_path / "no.txt"
    cases = [
        ({"paths": missing}, f"Expected a corpus at {missing}, got nothing. Check"),
        ({"paths": tmp_path}, f"Expected images in the folder {tmp_path} (.png, .jpg, "),
        (
            {"paths": other},
            "Expected a file ending in .txt, .tsv, .csv, .jsonl, .parquet, .tar, .conllu, got "
            f"{other}",
        ),
        ({"source": files["d"]}, f"Expected a file ending in .txt, .conllu, got {files['d']}. "),
        ({"source": files["a"], "target": missing}, f"Expected a corpus at {missing}, got"),
        ({"target": files["a"]}, f"Expected a source beside the target {files['a']}, got none"),
        ({}, "Expected a corpus, got nothing. Give at least one file."),
        ({"paths": files["a"], "limit": 0}, "Expected a limit of at least 1 sentence, got 0."),
    ]
    for arguments, message in cases:
        with pytest.raises(CorpusError, match=re.escape(message)):
            Corpus(**arguments)


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n \n")
    message = f"Expected sentences in {path}, got none. Give a corpus with at least one"
    with pytest.raises(CorpusError, match=re.escape(message)):
        list(Corpus(path))


def test_bad_sentences_in_memory_are_refused() -> None:
    tree = Tree((1, -1), ("nsubj", "root"), ("PRON", "VERB"))
    with pytest.raises(CorpusError, match="got no sentence. Give at least one"):
        Corpus.from_sentences([])
    with pytest.raises(CorpusError, match="row 2: expected some text, got none"):
        Corpus.from_sentences(["a", " "])
    message = "row 1: expected a head and a relation for every word, got 1 word, 2 heads"
    with pytest.raises(CorpusError, match=message):
        Corpus.from_sentences([Sentence("a", ("a",), tree)])


@pytest.mark.parametrize("given", ["corpus.txt", None, 3])
def test_what_is_no_corpus_is_refused(given: object) -> None:
    with pytest.raises(CorpusError, match="Expected a Corpus, got .*Pass headcount.Corpus"):
        check_is_corpus(given)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"txt": "a"}\n', "a.jsonl:1: expected a field 'text'"),
        ("a.tsv", "a\tb\tc\n", "a.tsv:1: expected source<TAB>target, got 3 columns"),
        ("a.conllu", "a b c\n", "a.conllu:1: expected 10 columns"),
    ],
)
def test_a_wrong_first_row_is_refused_before_anything_is_loaded(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    """Of every file, when the corpus is made."""
    fine, wrong = tmp_path / "fine.txt", tmp_path / name
    fine.write_text("A dog.\n")
    wrong.write_text(content)
    with pytest.raises(CorpusError, match=message):
        Corpus([fine, wrong])
    with pytest.raises(CorpusError, match="expected a pair of sentences, got one sentence"):
        Corpus(fine, pairs=True)
