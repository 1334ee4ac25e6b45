"""Files of rows, read as a corpus and as a task's data: what both find, and what both refuse."""

import csv
import hashlib
import json
import re
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headcount.core import CorpusError, InputError
from headcount.corpora import Columns, Corpus, Sentence, read_data, read_parallel
from headcount.tasks import COLUMNS
from headcount.vocabulary import IMAGES

TEXTS = ["A dog.", "Über uns\nзвезда", "2", "No, never"]
ROWS: list[dict[str, Any]] = [{"review": text, "stars": 3} for text in TEXTS]
ROWS.insert(2, {"review": " ", "stars": 1})
"""Rows with a blank text, which is like a blank line."""
REVIEW = {"text": "review"}
CHATS = COLUMNS["causal-lm"]


def written(path: Path, rows: list[dict[str, Any]], group: int = 2) -> Path:
    """Rows in a file of the kind that its ending names; the lines of texts in one cell are one."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        flat = [[str(cell).replace("\n", " ") for cell in row.values()] for row in rows]
        lines = ["\t".join(row) for row in [[*rows[0]], *flat]]
        path.write_text("\n".join(lines), encoding="utf-8")
    return path


def both(data: Any, columns: Columns | None = None) -> tuple[list[str], list[str]]:
    """Texts and origins, which are the same in a corpus and in a task's data."""
    table, sentences = read_data(data, columns, CHATS), list(Corpus(data, columns=columns))
    assert table.columns["text"] == [sentence.text for sentence in sentences]
    assert table.origins == [sentence.origin for sentence in sentences]
    return table["text"], table.origins


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_corpus_reads_what_a_task_reads(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a{suffix}", ROWS)
    texts, origins = both(path, REVIEW)
    assert texts == [text.replace("\n", " ") if suffix == ".tsv" else text for text in TEXTS]
    expected = {".csv": [":2", ":3", ":6", ":7"], ".parquet": [" row 1", " row 2", " row 4"]}
    assert origins[:3] == [f"{path}{end}" for end in expected.get(suffix, [":2", ":3", ":5"])[:3]]
    corpus = Corpus(path, columns=REVIEW, limit=2)
    assert list(corpus) == list(corpus) and len(list(corpus)) == 2
    assert both([path, path], REVIEW)[0] == 2 * texts and corpus.names == (path.name,)


def test_names_that_are_known_need_no_columns(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"label": 1, "sentence": text} for text in TEXTS]
    for suffix in (".csv", ".parquet", ".jsonl"):
        assert both(written(tmp_path / f"a{suffix}", rows))[0] == TEXTS
    text = tmp_path / "a.txt"
    text.write_text("One line.\n\n Another\tline \n")
    assert both(text) == (["One line.", "Another\tline"], [f"{text}:1", f"{text}:3"])
    assert both([text, written(tmp_path / "b.parquet", rows)])[0][2:] == TEXTS


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("columns", [{"text": 1}, {"text": "1"}])
def test_columns_by_number(tmp_path: Path, name: str, columns: Any) -> None:
    path = tmp_path / name
    separator = "," if name == "a.csv" else "\t"
    path.write_text(f"7{separator}A dog.\n8{separator}A cat.\n")
    assert both(path, columns) == (["A dog.", "A cat."], [f"{path}:1", f"{path}:2"])
    assert Corpus(path, columns=columns).sha256() == Corpus(path, columns={"text": 1}).sha256()


def test_fields_of_objects_and_lists(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}]
    rows = [{"a": {"b": "A dog"}, "words": ["A", "dog"], "target": "Ein Hund", "messages": chat}]
    for suffix in (".parquet", ".jsonl"):
        path = written(tmp_path / f"a{suffix}", rows)
        (sentence,) = Corpus(path, columns={"text": "a.b"})
        assert (sentence.text, sentence.words) == ("A dog", ("A", "dog"))
        assert sentence.target == "Ein Hund"
        sides = read_parallel(path, {"source": "a.b", "target": "target"}, COLUMNS["translation"])
        assert sides.columns == {"source": ["A dog"], "target": ["Ein Hund"]}
        (talk,) = Corpus(path, columns={"text": "messages"})
        assert talk.messages == json.dumps(chat) and talk.text == "Hello! Hi."


def test_cells_without_types_are_no_second_side_unless_named(tmp_path: Path) -> None:
    """In many a .csv, `target` is a class; in other files its type says that it is none."""
    path = written(tmp_path / "a.csv", [{"text": "A dog.", "target": 1, "second": "A cat."}])
    assert list(Corpus(path)) == [Sentence("A dog.", origin=f"{path}:2")]
    (named,) = Corpus(path, columns={"target": "target", "second": "second"})
    assert (named.text, named.target, named.second) == ("A dog.", "1", "A cat.")
    (pair,) = Corpus(path, columns={"target": "second"}, pairs=True)
    assert (pair.text, pair.target, pair.second) == ("A dog.", None, "A cat.")


def test_a_tsv_has_a_header_if_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tde\nA dog.\tEin Hund.\n")
    with pytest.warns(UserWarning, match="first line is read as a text"):
        assert [(each.text, each.target) for each in Corpus(path)][0] == ("text", "de")
    (sentence,) = Corpus(path, columns={"target": "de"})
    assert (sentence.text, sentence.target) == ("A dog.", "Ein Hund.")


def test_hashes_are_of_bytes_and_columns(tmp_path: Path) -> None:
    for suffix in (".csv", ".tsv", ".parquet"):
        path = written(tmp_path / f"a{suffix}", ROWS)
        named = hashlib.sha256(path.read_bytes() + repr([("text", "review")]).encode())
        assert Corpus(path, columns=REVIEW, limit=1).sha256() == named.hexdigest()
    path = written(tmp_path / "b.csv", [{"text": "A dog."}])
    assert Corpus(path).sha256() == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_parquet_is_read_by_row_groups(tmp_path: Path) -> None:
    """The damage in the last of three groups is met there, not before."""
    rows = [{"text": f"{number} {'word ' * 300}"} for number in range(3000)]
    path = written(tmp_path / "a.parquet", rows, group=1000)
    assert both(path)[1][-1] == f"{path} row 3000"
    layout = pq.ParquetFile(path).metadata
    assert layout.num_row_groups == 3
    column = layout.row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    corpus = Corpus(path)
    assert len(list(islice(corpus, 1900))) == 1900 and len(list(Corpus(path, limit=1500))) == 1500
    message = rf"{path}: expected a Parquet file, but it can't be read after row \d+: .*Replace it"
    for read in (lambda: list(corpus), lambda: read_data(path, None, CHATS)):
        with pytest.raises(CorpusError, match=message):
            read()


def test_of_a_parquet_only_the_columns_needed_are_read(tmp_path: Path) -> None:
    """What is not needed is not even looked at: its bytes are damaged here."""
    rows = [
        {"pixels": f"{number:0>1000}", "review": {"body": f"Dog {number}.", "stars": 3}}
        for number in range(7)
    ]
    path = written(tmp_path / "a.parquet", rows)
    columns = {"text": "review.body"}
    expected = both(path, columns)
    assert expected[0] == [f"Dog {number}." for number in range(7)]
    for read in (lambda: Corpus(path), lambda: read_data(path, {"text": "no"}, CHATS)):
        with pytest.raises(CorpusError, match="pixels.*review.body.*review.stars"):
            read()
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert chunk.path_in_schema == "pixels"
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    assert both(path, columns) == expected
    with pytest.raises(CorpusError, match="expected a Parquet file, but it can't be read"):
        both(path, {"text": "pixels"})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".txt"])
def test_a_column_that_is_not_there_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a{suffix}", [{"text": "A dog.", "label": 1}])
    with pytest.raises(CorpusError) as refused:
        Corpus(path, columns=REVIEW)
    line = {".parquet": " row 1", ".jsonl": ":1", ".txt": ":1"}.get(suffix, ":2")
    fields = "'text'" if suffix == ".txt" else "'text', 'label'"
    assert str(refused.value).startswith(
        f"{path}{line}: expected a field 'review', got the fields: {fields}. Rename the field, or "
        "name it: --columns text=NAME"
    )
    with pytest.raises(CorpusError, match=f"{path}: expected a column 'review' for 'text'; the "):
        read_data(path, REVIEW, CHATS)
    if suffix == ".csv":
        with pytest.raises(CorpusError, match=re.escape(f"{path}:1: expected a column 7 (counted")):
            Corpus(path, columns={"text": 7})


def test_what_is_wrong_with_a_table(tmp_path: Path) -> None:
    parquet = written(tmp_path / "a.parquet", [{"text": "A dog."}])
    twice = tmp_path / "twice.parquet"
    columns = [pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["text", "text"]), twice)
    none, empty = tmp_path / "none.parquet", tmp_path / "empty.csv"
    none.write_text("text\nA dog.\n")
    empty.write_text("text,label\n")
    number = written(tmp_path / "number.parquet", [{"text": 3}])
    for path, given, message in [
        (parquet, {"text": 0}, "expected names for fields of a .parquet, got column 0"),
        (twice, None, "expected a header with distinct names, got 'text' twice. Rename a column."),
        (none, None, "expected a Parquet file, but it can't be read after row 0: "),
    ]:
        expected = re.escape(f"{path}: {message}")
        with pytest.raises(InputError, match=expected):
            Corpus(path, columns=given)
        with pytest.raises(InputError, match=expected):
            read_data(path, given, CHATS)
    with pytest.raises(CorpusError, match="row 1: expected the field 'text' to hold some text, go"):
        Corpus(number)
    with pytest.raises(CorpusError, match=f"Expected sentences in {empty}, got none"):
        list(Corpus(empty))
    with pytest.raises(InputError, match="Expected columns by name .* or by number"):
        Corpus(parquet, columns={"text": "text", "target": 1})


def test_columns_of_what_has_none_are_refused(tmp_path: Path, treebank: str) -> None:
    bank, text = tmp_path / "a.conllu", tmp_path / "a.txt"
    bank.write_text(treebank, encoding="utf-8")
    text.write_text("A dog.\n")
    cases: list[tuple[dict[str, Any], Path]] = [
        ({"paths": bank}, bank),
        ({"source": text, "target": text}, text),
    ]
    for given, place in cases:
        message = f"Expected columns of a table, got text for {place}. Leave the columns out."
        with pytest.raises(CorpusError, match=re.escape(message)):
            Corpus(**given, columns={"text": "text"})


def test_two_passes_over_a_csv_at_once_leave_its_limit(tmp_path: Path) -> None:
    """The limit of cells is that of the whole process."""
    limit, book = 131_072, "word " * 40_000
    csv.field_size_limit(limit)
    corpus = Corpus(written(tmp_path / "a.csv", [{"text": book}, {"text": "A dog."}] * 2))
    first, second = iter(corpus), iter(corpus)
    assert next(first) == next(second) and csv.field_size_limit() == limit
    assert len(list(second)) == 3 == len(list(first)) and csv.field_size_limit() == limit


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A hub that gives the rows for any name; the names that it was asked for."""
    asked: list[tuple[str, ...]] = []
    data_set = datasets.Dataset.from_list(ROWS)

    def load_dataset(*names: str, split: str) -> datasets.Dataset:
        asked.append((*names, split))
        return data_set

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_data_sets_of_the_hub(hub: list[tuple[str, ...]], tmp_path: Path) -> None:
    """They are loaded once, and signed as the same rows in memory are."""
    url = "hf://imdb?split=train"
    corpus = Corpus(url, columns=REVIEW)
    assert [each.text for each in corpus] == [each.text for each in corpus] == TEXTS
    assert hub == [("imdb", "train")] and corpus.names == (url,) and corpus.inputs is not IMAGES
    assert corpus.sha256() == Corpus(ROWS, columns=REVIEW).sha256() != Corpus(TEXTS[:1]).sha256()
    assert corpus.signed == {}
    texts, origins = both(url, REVIEW)
    assert origins == [f"{url} row {number}" for number in (1, 2, 4, 5)]
    path = written(tmp_path / "a.csv", ROWS)
    assert both([url, path, url], REVIEW)[0] == 3 * texts
    mixed = Corpus([path, url], columns=REVIEW)
    assert mixed.names == ("a.csv", url)
    assert len({each.sha256() for each in (mixed, corpus, Corpus(path, columns=REVIEW))}) == 3


def test_what_is_wrong_with_the_hub(hub: list[tuple[str, ...]], monkeypatch: Any) -> None:
    with pytest.raises(CorpusError, match="hf://a.split=b row 1: expected a field 'text', got the"):
        Corpus("hf://a?split=b")
    with pytest.raises(InputError, match="Expected hf://dataset/config.split=validation .*got 'hf"):
        Corpus("hf://a", columns=REVIEW)
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if not installed
    with pytest.raises(InputError, match=r"needs the package datasets: pip install headcount\[dat"):
        Corpus(["hf://a?split=b"], columns=REVIEW)
