"""Running text, line by line, and the errors of bad lines."""

import re
from pathlib import Path

import pytest

from headcount.core import CorpusError
from headcount.corpora import Corpus
from headcount.corpora.formats import File
from headcount.corpora.records import read_rows


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def test_one_example_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\ufeffThe dog.\r\n\n  \nÜber uns \nСобака.")
    found = [(sentence.text, sentence.origin) for sentence in read_rows(File(path))]
    assert found == [("The dog.", f"{path}:1"), ("Über uns", f"{path}:4"), ("Собака.", f"{path}:5")]


def test_text_has_neither_words_nor_tree_nor_target(tmp_path: Path) -> None:
    (sentence,) = Corpus(write(tmp_path / "a.txt", "The dog."))
    assert (sentence.words, sentence.tree, sentence.target) == (None, None, None)


def test_jsonl_takes_the_field_text(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", '{"id": 1, "text": "Ein Hund."}\n\n{"text": "\\u041e\\u043d"}\n'
    )
    found = [(sentence.text, sentence.origin) for sentence in read_rows(File(path))]
    assert found == [("Ein Hund.", f"{path}:1"), ("Он", f"{path}:3")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            '{"text": "a"',
            ":2: expected one JSON object on the line, but it breaks off at column 13",
        ),
        ("[1]", ":2: expected a JSON object with a field 'text', got a list. Write"),
        ('{"Text": "a"}', ":2: expected a field 'text', got the fields: 'Text'. Rename"),
        ("{}", ":2: expected a field 'text', got the fields: none"),
        ('{"text": 3}', ":2: expected the field 'text' to hold some text, got 3. Fix"),
        ('{"text": " "}', ":2: expected the field 'text' to hold some text, got ' '"),
        ('{"text": "\\ud800"}', ":2: expected the field 'text' to hold some text"),
    ],
)
def test_a_broken_row_names_file_and_line(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n' + row)
    with pytest.raises(CorpusError, match=re.escape(f"{path}{message}")):
        list(read_rows(File(path)))
