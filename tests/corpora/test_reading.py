"""Files of every kind, and the errors of their bad lines."""

import ast
import csv
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headcount.core import CorpusError, InputError
from headcount.corpora import Column, Table, check_columns, named_columns, read_data, read_parallel
from headcount.corpora.table import choose
from headcount.tasks import COLUMNS

ROLES = {
    "text": Column(("sentence",)),
    "other": Column(("sentence2",), needed=False),
    "label": Column(("class",)),
}
CLASSES = COLUMNS["classification"]
TEXT = {"text": Column(("sentence",))}
SIDES = {"source": Column(()), "target": Column(())}
NUMBERS = {"label": 0, "text": 1}


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def rows(table: Table) -> list[tuple[str, ...]]:
    return list(zip(*table.columns.values(), strict=True))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'label\tid\tsentence\r\n1\t7\tA "dog.\n\n0\t8\tÜber\n'),
        ("a.csv", 'label,id,sentence\n1,7,"A ""dog."\n\n0,8,Über\n'),
        (
            "a.jsonl",
            '{"label": 1, "sentence": "A \\"dog."}\n\n{"label": false, "text": "", '
            '"sentence": " \\u00dcber "}',
        ),
    ],
)
def test_columns_by_name(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, "\ufeff" + content)
    table = read_data([path], {"text": "sentence"}, ROLES)
    assert table.columns == {"text": ['A "dog.', "Über"], "label": ["1", "0"]}
    assert table.origins == [f"{path}:{line}" for line in ((1, 3) if "json" in name else (2, 4))]
    if "json" not in name:  # "text" would be taken first if it exists, even if empty
        assert read_data([path], None, ROLES) == table


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "1\tA dog.\t\n0\tNo  dog\t\n"),
        ("a.csv", "1,A dog.,\n0,No  dog,\n"),
        ("a.txt", "1 A dog.\n0 No  dog\n"),
        ("stsa.binary.dev", "1 A dog.\n0 No  dog\n"),
        ("TREC", "1\tA dog.\n0\tNo  dog\n"),
    ],
)
@pytest.mark.parametrize("columns", [NUMBERS, {"label": "0", "text": "1"}])
def test_columns_by_number(tmp_path: Path, name: str, content: str, columns: Any) -> None:
    path = write(tmp_path / name, content)
    table = read_data([path], columns, ROLES)
    assert table.columns == {"text": ["A dog.", "No  dog"], "label": ["1", "0"]}
    assert table.origins == [f"{path}:1", f"{path}:2"]


def test_a_line_of_text_is_an_example_in_any_file_that_is_called_text(tmp_path: Path) -> None:
    content = "One line.\n\n  \nAnother line \n"
    txt, raw = write(tmp_path / "a.txt", content), write(tmp_path / "wiki.raw", content)
    assert read_data(txt, None, TEXT)["text"] == ["One line.", "Another line"]
    assert read_data(str(raw), {"text": 0}, TEXT)["text"] == ["One line.", "Another line"]
    both = read_data([txt, raw], {"text": 0}, TEXT)
    assert len(both) == 4 and both.origins[1::2] == [f"{txt}:4", f"{raw}:4"]


def test_a_cell_of_a_csv_may_have_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\n"A\ndog",1\nB,0\n')
    table = read_data(path, None, ROLES)
    assert rows(table) == [("A\ndog", "1"), ("B", "0")]
    assert table.origins == [f"{path}:2", f"{path}:4"]


def test_objects_in_objects_have_names_with_dots(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"translation": {"en": "dog", "de": "Hund"}}')
    table = read_data([path], {"source": "translation.en", "target": "translation.de"}, SIDES)
    assert rows(table) == [("dog", "Hund")]


def test_columns_between_tabs_in_any_file(tmp_path: Path) -> None:
    """The format of Tatoeba's pairs: two sentences with blanks, and a credit."""
    path = write(tmp_path / "deu.txt", "I am here.\tIch bin hier.\tCC-BY\nGo on.\tLos!\tCC-BY\n")
    table = read_data(path, {"text": 0, "label": 1}, ROLES)
    assert table.columns == {"text": ["I am here.", "Go on."], "label": ["Ich bin hier.", "Los!"]}


def test_columns_in_memory() -> None:
    table = read_data({"sentence": ["a", " b "], "class": [1, True]}, None, ROLES)
    assert table == Table({"text": ["a", "b"], "label": ["1", "1"]}, ["row 1", "row 2"])
    named = read_data({"x": ["a"], "other": ["b"], "y": [3.5]}, {"text": "x", "label": "y"}, ROLES)
    assert named.columns == {"text": ["a"], "label": ["3.5"]}
    assert read_data({"text": ["a"], "other": ["b"], "label": [0]}, None, ROLES)["other"] == ["b"]


def test_a_second_text_is_found_where_other_columns_are_named(tmp_path: Path) -> None:
    """The format of Quora's questions; if the first text is named, so must be the second."""
    path = write(tmp_path / "a.tsv", "question1\tquestion2\tis_duplicate\nA\tB\t1\n")
    table = read_data(path, {"label": "is_duplicate"}, CLASSES)
    assert table.columns == {"text": ["A"], "second": ["B"], "label": ["1"]}
    table = read_data(path, {"text": "question1", "label": "is_duplicate"}, CLASSES)
    assert table.columns == {"text": ["A"], "label": ["1"]}


@pytest.mark.parametrize("gap", [float("nan"), np.float64("nan")])
def test_a_gap_in_memory_is_no_text(gap: float) -> None:
    with pytest.raises(CorpusError, match="row 2: expected some text in column 'text', got 'nan'"):
        read_data({"text": ["a", gap], "label": [0, 1]}, None, ROLES)


@pytest.mark.parametrize("comma", [",", "\t"])
def test_empty_cells_at_the_end_are_nothing(tmp_path: Path, comma: str) -> None:
    """A spreadsheet writes them for columns that had cells once."""
    path = tmp_path / ("a.csv" if comma == "," else "a.tsv")
    for lines in (
        ["text,label,,", "A dog.,1,,", "A cat.,0,,"],
        ["text,label", "A dog.,1,,", "A cat.,0"],
        ["text,label,", "A dog.,1,note", "A cat.,0,, "],
        [",text,label", "0,A dog.,1", "1,A cat.,0"],
    ):
        write(path, "\n".join(lines).replace(",", comma))
        table = read_data(path, None, ROLES)
        assert table.columns == {"text": ["A dog.", "A cat."], "label": ["1", "0"]}


def test_a_cell_may_be_a_book(tmp_path: Path) -> None:
    limit, book = csv.field_size_limit(), "word " * 40_000
    table = read_data(write(tmp_path / "a.csv", f'text,label\n"{book}",1\n'), None, ROLES)
    assert table["text"] == [book.strip()] and csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "text\tlabel\nA\t1\nB\n",
            ":3: expected 2 columns as in line 1, got 1. Fix the line",
        ),
        ("a.tsv", "text\tlabel\nA\t\n", ":2: expected some text in column 'label', got ''"),
        ("a.tsv", "text\ttext\nA\t1\n", ":1: expected a header with distinct names, got 'text'"),
        (
            "a.tsv",
            "A dog.\t1\nA cat.\t0\n",
            ": expected a column 'text' or 'sentence' for 'text'; the columns are 'A dog.', '1'. "
            "Name the column (text=NAME), or, if the file has no header, number all columns from "
            "0 (text=0 label=1)",
        ),
        ("a.tsv", "", ": expected at least one example, got none"),
        ("a.tsv", "text\tlabel\n\n", ": expected at least one example, got none"),
        (
            "a.csv",
            'text,label\nA,1\n"B,0\n',
            ":3: expected comma-separated columns, but unexpected end of data. Fix the quotes",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a"',
            ":2: expected one JSON object on the line, but it breaks off at column 13",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a"}',
            ":2: expected a field 'label', got the fields: 'text'",
        ),
        ("a.jsonl", "[1]", ":1: expected a JSON object, got a list"),
        (
            "a.jsonl",
            '{"text": "a", "label": null}',
            ":1: expected text or a number in column 'label', got NoneType",
        ),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}', ":1: expected some text in column 'text'"),
        (
            "a.txt",
            "A dog.\n",
            ": expected a column 'label' or 'class' for 'label'; the columns are 'text'.",
        ),
        (
            "a.binary.dev",
            "1 A dog.\n",
            ": expected a .tsv, .csv, .jsonl, .parquet, .tar or .txt file, got the ending '.dev'. "
            "Rename the file, or, if one blank separates its columns, number them from 0: label=0 "
            "text=1",
        ),
    ],
)
def test_what_is_wrong_names_file_and_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(CorpusError, match=re.escape(f"{path}{message}")):
        read_data(path, None, ROLES)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.dev", "1 A dog.\n0\n", ":2: expected 2 columns separated by a blank, got 1"),
        ("a.txt", "1\tA dog.\n0 A\n", ":2: expected 2 columns separated by a tab, got 1"),
        ("a.tsv", "1\n0\n", ":1: expected a column 1 (counted from 0), got 1 column"),
        ("a.jsonl", "{}", ": expected names for fields of a .jsonl, got column 0"),
    ],
)
def test_what_is_wrong_with_numbers(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=re.escape(f"{path}{message}")):
        read_data(path, NUMBERS, ROLES)


def test_what_is_wrong_with_the_file_or_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    with pytest.raises(CorpusError, match="cannot be read: No such file or directory. Give a file"):
        read_data(path, None, ROLES)
    path.write_bytes(b"text\tlabel\nA\t1\n\xf0B\t0\n")
    with pytest.raises(CorpusError, match="a.tsv:3: expected UTF-8, got byte 0xf0"):
        read_data(path, None, ROLES)
    write(path, "text\tlabel\nA\t1\n")
    for columns, message in [
        ({"txt": "text"}, "a column of this task .text, other, label., got 'txt'"),
        ({"text": 0, "label": "label"}, "by number from 0 .*, got 0, label"),
        ({"text": 0}, "column 'label' has no number"),
        ({"text": "1" * 4400}, "expected a column '1{4400}' for 'text'; the columns are 'text', "),
        ({"text": "tex"}, "expected a column 'tex' for 'text'; the columns are 'text', 'label'"),
    ]:
        with pytest.raises(InputError, match=message):
            read_data(path, columns, ROLES)
    with pytest.raises(CorpusError, match="got no file"):
        read_data([], None, ROLES)
    more = write(tmp_path / "b.tsv", "text\tother\tlabel\nA\tB\t1\n")
    with pytest.raises(CorpusError, match="a column for 'other' in all files, got it in some"):
        read_data([path, more], None, ROLES)


def test_what_is_wrong_in_memory() -> None:
    with pytest.raises(CorpusError, match="Expected columns of one length, got .*2.*1"):
        read_data({"text": ["a", "b"], "label": [1]}, None, ROLES)
    with pytest.raises(CorpusError, match="the data: expected at least one example, got none"):
        read_data({"text": [], "label": []}, None, ROLES)
    with pytest.raises(CorpusError, match="row 2: expected some text in column 'text'"):
        read_data({"text": ["a", " "], "label": [1, 1]}, None, ROLES)
    with pytest.raises(CorpusError, match="row 2: expected a finite number for 'label', got 'x'"):
        read_data({"text": ["a", "b"], "label": [1, "x"]}, None, ROLES).numbers("label")
    with pytest.raises(CorpusError, match="row 1: expected some text .* got 'nan'"):
        read_data({"text": ["a"], "label": [float("nan")]}, None, ROLES).numbers("label")


def test_parallel_text_is_a_table_or_two_files(tmp_path: Path) -> None:
    source = write(tmp_path / "val.en", "A dog.\n\nA cat.\n")
    target = write(tmp_path / "val.de", "Ein Hund.\n\nEine Katze.\n")
    pairs = [("A dog.", "Ein Hund."), ("A cat.", "Eine Katze.")]
    assert rows(read_parallel([source, target], None, SIDES)) == pairs
    table = write(tmp_path / "val.tsv", "A dog.\tEin Hund.\nA cat.\tEine Katze.\n")
    columns = {"source": 0, "target": 1}
    assert rows(read_parallel([table], columns, SIDES)) == pairs
    assert rows(read_parallel([table, table], columns, SIDES)) == 2 * pairs
    with pytest.raises(CorpusError, match="as many lines in .* got 1 and 3"):
        read_parallel([source, write(tmp_path / "short.de", "Ein Hund.\n")], None, SIDES)


class FakeDatasets(SimpleNamespace):
    """The part of `datasets` in use: a function that loads one data set by one or two names."""

    known: tuple[tuple[str, ...], str]

    def load_dataset(self, *names: str, split: str) -> list[dict[str, Any]]:
        if names == self.known[0] and split != self.known[1]:
            raise ValueError(f"Unknown split {split!r}")
        if (names, split) != self.known:
            raise FileNotFoundError(f"Dataset {names} doesn't exist\nsecond line")
        return [{"sentence": "a dog", "class": 1}, {"sentence": "a cat", "class": 0}]


def made_by_a_script(*names: str, split: str) -> None:
    raise RuntimeError(f"Dataset scripts are no longer supported, but found {names[0]}.py")


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("hf://glue/sst2?split=test", ("glue", "sst2")),
        ("hf://owner/name?split=test", ("owner/name",)),
        ("hf://owner/name/config?split=test", ("owner/name", "config")),
        ("hf://imdb?split=test", ("imdb",)),
    ],
)
def test_data_sets_of_the_hub(monkeypatch: Any, url: str, names: tuple[str, ...]) -> None:
    monkeypatch.setitem(sys.modules, "datasets", FakeDatasets(known=(names, "test")))
    table = read_data(url, None, ROLES)
    assert rows(table) == [("a dog", "1"), ("a cat", "0")]
    assert table.origins == [f"{url} row 1", f"{url} row 2"]


class Named(list[dict[str, Any]]):
    """Rows of a data set with numbered classes, like those of `datasets`."""

    features = {"class": SimpleNamespace(names=["entailment", "neutral"]), "sentence": None}


def test_names_that_a_data_set_of_the_hub_gives_its_classes(monkeypatch: Any) -> None:
    named = SimpleNamespace(load_dataset=lambda *_, split: Named([{"sentence": "x", "class": 1}]))
    monkeypatch.setitem(sys.modules, "datasets", named)
    table = read_data("hf://a?split=test", None, ROLES)
    assert rows(table) == [("x", "1")]
    assert table.class_names == table.first(1).class_names == {"label": ["entailment", "neutral"]}


def test_rows_without_a_text_are_blank_lines(monkeypatch: Any, tmp_path: Path) -> None:
    """WikiText has blank rows; in a row with more than a text they are an error."""
    texts = [{"sentence": text} for text in ("", " = Title = ", "\n", "A dog.")]
    given = SimpleNamespace(load_dataset=lambda *_, split: texts)
    monkeypatch.setitem(sys.modules, "datasets", given)
    table = read_data("hf://a?split=test", None, TEXT)
    assert rows(table) == [("= Title =",), ("A dog.",)]
    assert table.origins == ["hf://a?split=test row 2", "hf://a?split=test row 4"]
    path = write(tmp_path / "a.jsonl", '{"sentence": "", "class": 1}\n')
    with pytest.raises(CorpusError, match="expected some text in column 'sentence', got ''"):
        read_data(path, None, ROLES)


@pytest.mark.parametrize(
    ("found", "first", "second"),
    [
        (["question", "sentence", "label"], "question", "sentence"),  # QNLI
        (["question", "passage", "label"], "question", "passage"),  # BoolQ
        (["question", "label"], "question", None),
        (["sentence", "context", "label"], "sentence", None),
        (["sentence1", "sentence2", "label"], "sentence1", "sentence2"),
        (["premise", "hypothesis", "label"], "premise", "hypothesis"),
    ],
)
def test_both_texts_of_a_pair_are_found(found: list[str], first: str, second: str | None) -> None:
    chosen = choose(found, None, CLASSES, "here")
    assert (chosen["text"], chosen.get("second")) == (first, second)


TRANSLATIONS = COLUMNS["translation"]
BARE = "The dog.\tDer Hund.\n\nOld dogs\tAlte Hunde\n"
HEADED = "src\ttgt\nThe dog.\tDer Hund.\nOld dogs\tAlte Hunde\n"


def test_two_sides_need_no_header(tmp_path: Path) -> None:
    """As in `analyze`; files with and without one may be mixed."""
    bare, headed = write(tmp_path / "bare.tsv", BARE), write(tmp_path / "headed.tsv", HEADED)
    table = read_parallel(bare, None, TRANSLATIONS)
    assert rows(table) == [("The dog.", "Der Hund."), ("Old dogs", "Alte Hunde")]
    assert table.origins == [f"{bare}:1", f"{bare}:3"]
    assert table.columns == read_parallel(headed, None, TRANSLATIONS).columns
    assert table == read_parallel([bare], {"source": 0, "target": 1}, TRANSLATIONS)
    assert rows(read_parallel([headed, bare], None, TRANSLATIONS)) == 2 * rows(table)
    check_columns([headed, bare], None, TRANSLATIONS, pairs=True)


@pytest.mark.parametrize(
    "text",
    ["en\tde\nThe dog.\tDer Hund.\n", "source\tGerman side\na\tb\n", "a b\tc d\te f\n", "EN\tDE\n"],
)
def test_a_header_of_other_names_is_no_pair(tmp_path: Path, text: str) -> None:
    """Nor are three columns; the error says how to name or number them."""
    path = write(tmp_path / "a.tsv", text)
    expected = r"a\.tsv: expected (a column|at least one).*"
    for read in (read_parallel, partial(check_columns, pairs=True)):
        with pytest.raises(CorpusError, match=expected):
            read([path], None, TRANSLATIONS)


@pytest.mark.parametrize("task", ["translation", "similarity", "classification"])
def test_first_rows_are_checked(tmp_path: Path, task: str) -> None:
    """Without reading on: the last line here is broken."""
    roles = COLUMNS[task]
    path = write(tmp_path / "a.csv", f"{','.join(roles)}\n{','.join('x' for _ in roles)}\nbroken\n")
    check_columns([path, "hf://is/not?asked"], None, roles)
    path = write(tmp_path / "b.csv", "a b,c d\n1,2\n")
    first = next(iter(roles))
    with pytest.raises(CorpusError, match=rf"for '{first}'; .* from 0 \({first}=0 \w+=1"):
        check_columns([path], None, roles)
    with pytest.raises(CorpusError, match="expected a column 7"):
        check_columns([path], {role: 7 for role in roles}, roles)
    with pytest.raises(CorpusError, match="expected at least one example, got none"):
        check_columns([write(tmp_path / "c.csv", "a,b\n")], None, roles)


def test_two_text_files_have_no_columns(tmp_path: Path) -> None:
    sides = [write(tmp_path / name, "The dog.\n") for name in ("a.en", "a.de")]
    check_columns(sides, None, TRANSLATIONS, pairs=True)
    with pytest.raises(
        CorpusError,
        match="expected a .tsv, .csv, .jsonl, .parquet, .tar or .txt file, got the ending",
    ):
        check_columns(sides, None, COLUMNS["causal-lm"])


def test_what_is_wrong_with_the_hub(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if not installed
    with pytest.raises(InputError, match=r"needs the package datasets: pip install headcount\[dat"):
        read_data("hf://glue/sst2?split=test", None, ROLES)
    with pytest.raises(InputError, match="Expected hf://dataset/config.split=validation"):
        read_data("hf://glue/sst2", None, ROLES)
    known = (("owner/name",), "test")
    monkeypatch.setitem(sys.modules, "datasets", FakeDatasets(known=known))
    with pytest.raises(CorpusError, match="can't be loaded: Unknown split 'dev'. Check"):
        read_data("hf://owner/name?split=dev", None, ROLES)
    scripts = FakeDatasets(known=known)
    monkeypatch.setattr(scripts, "load_dataset", made_by_a_script)
    monkeypatch.setitem(sys.modules, "datasets", scripts)
    with pytest.raises(CorpusError, match="can't be loaded: Dataset scripts are no longer suppo"):
        read_data("hf://owner/name?split=test", None, ROLES)
    monkeypatch.setitem(sys.modules, "datasets", FakeDatasets(known=((), "")))
    with pytest.raises(CorpusError, match="hf://a/b.split=x can't be loaded: Dataset .* exist. Ch"):
        read_data("hf://a/b?split=x", None, ROLES)


@pytest.mark.slow
def test_a_data_set_as_the_library_loads_it(tmp_path: Path) -> None:
    """The real library on a folder laid out like a hub data set."""
    folder = tmp_path / "owner" / "name"
    folder.mkdir(parents=True)
    for split in ("train", "validation"):
        lines = [json.dumps({"sentence": f"{split} {n}", "class": n}) for n in (0, 1)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    script = (
        "from headcount.core.errors import CorpusError\n"
        "from headcount.corpora import Corpus\n"
        "from headcount.corpora.held import hub_data\n"
        "print(list(hub_data('hf://owner/name?split=validation').rows()))\n"
        "corpus = Corpus('hf://owner/name?split=train', columns={'text': 'sentence'})\n"
        "print([each.text for each in corpus])\n"
        "try: hub_data('hf://owner/name?split=test')\n"
        "except CorpusError as error: print(error)\n"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, texts, refusal = done.stdout.strip().splitlines()
    assert ast.literal_eval(texts) == ["train 0", "train 1"]
    origin = "hf://owner/name?split=validation row"
    assert ast.literal_eval(rows) == [
        (f"{origin} {n + 1}", {"sentence": f"validation {n}", "class": n}) for n in (0, 1)
    ]
    assert "hf://owner/name?split=test can't be loaded: " in refusal


@pytest.mark.parametrize("column", ["", "text", "=review", "text=", "="])
def test_a_column_without_a_role_or_a_name(column: str) -> None:
    with pytest.raises(InputError, match=f"Expected columns as ROLE=NAME, got {column!r}"):
        named_columns(["second=b", column])
