"""Files as other programs write them: quotes, delimiters, compression, patterns, damage."""

import bz2
import csv
import gzip
import lzma
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pytest

from headcount.core import CorpusError
from headcount.corpora import Corpus, HowRead, ReadAs, numbered_lines
from headcount.corpora import lines as reading_lines
from headcount.corpora.formats import File
from headcount.tasks import build, read_examples
from tests.tasks.loaded import loaded

FRAME = pd.DataFrame({"text": ["A dog; it barked.", 'She said "no".'], "label": ["1", "0"]})
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


def texts(path: Any, **how: Any) -> list[str]:
    return [each.text for each in Corpus(path, **how)]


def test_quotes_around_every_cell_of_a_column_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    FRAME.to_csv(path, sep="\t", index=False, quoting=1)
    named = {"text": "text"}
    with pytest.warns(UserWarning, match=r"a.tsv: quotes around cells are .*--as-is keeps"):
        assert texts(path, columns=named) == [*FRAME["text"]]
    table = read_examples("classification", path)
    assert table["text"] == [*FRAME["text"]] and table["label"] == ["1", "0"]
    found = Corpus(path, columns=named).sha256()
    as_is = ReadAs(path, HowRead(as_is=True))
    kept = Corpus(as_is, columns={"text": 0})
    assert [each.text for each in kept][0] == '"text"' and kept.sha256() != found
    assert texts(as_is, columns=named)[0] == '"A dog; it barked."', "names are no texts"
    assert read_examples("classification", as_is)["text"][0] == '"A dog; it barked."'
    path.write_text('"A dog."\tHund\n"B."\tnein\n')
    pairs = [("A dog.", "Hund"), ("B.", "nein")]
    assert [(each.text, each.target) for each in Corpus(path)] == pairs
    path.write_text('"A dog."\tHund\nB.\t"ja"\n')
    assert [each.text for each in Corpus(path)] == ['"A dog."', "B."], "not every cell has quotes"


@pytest.mark.filterwarnings("ignore:.*(quotes around cells|first line is read as a text)")
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_cells_that_need_their_quotes_in_a_tsv_are_read_as_they_were(
    tmp_path: Path, quoting: Any
) -> None:
    """As a spreadsheet or pandas writes tabs, quotes and line ends."""
    path, odd = (
        tmp_path / "a.tsv",
        ["A\tdog", 'Said "no"', "Two\nlines", '"Yes."', 'Plain, 5" wide'],
    )
    frame = pd.DataFrame({"text": odd * 40, "label": range(200)})
    frame.to_csv(path, sep="\t", index=False, quoting=quoting)
    assert texts(path, columns={"text": "text"}) == odd * 40
    assert read_examples("classification", path)["text"] == odd * 40


def test_the_quotes_of_a_dialogue_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    for lines in ('"Yes."\tJa.\n"No," he said.\tNein.\n', 'A 5" dog\tHund\nNo\t"Nein"\n'):
        path.write_text(lines)
        assert [f"{each.text}\t{each.target}" for each in Corpus(path)] == lines.splitlines()


def test_a_tsv_with_a_header_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("sentence\tlabel\nA dog.\t1\n")
    with pytest.warns(UserWarning, match="first line is read as a text.*--columns text=NAME"):
        Corpus(path)
    path.write_text("sentence\tlabel\tid\n")
    with pytest.raises(CorpusError, match="got 3 columns.*or name that of the text: --columns"):
        Corpus(path)


@pytest.mark.parametrize(
    ("name", "content", "way"),
    [
        ("a.csv", "text\nÜber\n".encode("cp1252"), "iconv -f WINDOWS-1252 -t UTF-8 .*a.csv > NEW"),
        ("a.csv", "text\nÜber\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8 .*a.csv > NEW"),
        ("a.jsonl", b'{\n  "text": "A dog."\n}\n', "each object on one line: jq -c . FILE"),
        ("a.jsonl", b'[{"text": "A dog."}]\n', r"got a list. Write a line for each: jq -c '.\[\]'"),
        ("a.csv", b"A dog.,1\nA cat.,0\n", "has no header, number it from 0: text=0"),
    ],
)
def test_what_other_programs_write_is_refused_with_a_way_out(
    tmp_path: Path, name: str, content: bytes, way: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=way):
        Corpus(tmp_path / name)


@pytest.mark.parametrize(("sign", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_the_delimiter_of_a_csv_is_found(tmp_path: Path, sign: str, word: str) -> None:
    path = tmp_path / "a.csv"
    FRAME.to_csv(path, sep=sign, index=False)
    with pytest.warns(UserWarning, match=f"{word} separate its columns"):
        assert texts(path) == [*FRAME["text"]]
    FRAME.to_csv(path, index=False)
    assert texts(path) == [*FRAME["text"]]
    path.write_text("text\nA dog; it barked.\nNo.\n")
    assert texts(path) == ["A dog; it barked.", "No."]
    path.write_text(f"sep={sign}\n{FRAME.to_csv(sep=sign, index=False)}")
    assert texts(path) == [*FRAME["text"]], "as spreadsheets state it"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("a.json", "Write a row on each line: jq -c"),
        ("a.csv.zip", "Unpack it: unzip .*a.csv.zip"),
        ("a.xlsx", "Save it as .csv"),
        ("a.parquet.zst", "compressed inside: unpack the file"),
    ],
)
def test_files_that_another_program_turns_into_ours_name_it(
    tmp_path: Path, name: str, way: str
) -> None:
    path = tmp_path / name
    path.write_text("[]")
    with pytest.raises(CorpusError, match=way):
        Corpus(path)
    with pytest.raises(CorpusError, match=way):
        read_examples("causal-lm", path)


@pytest.mark.parametrize("more", COMPRESS)
@pytest.mark.parametrize("suffix", [".txt", ".tsv", ".csv", ".jsonl", ".conllu"])
def test_a_compressed_file_is_read_as_the_plain_one(tmp_path: Path, suffix: str, more: str) -> None:
    plain = tmp_path / f"a{suffix}"
    if suffix == ".conllu":
        plain.write_text("1\tDogs\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    elif suffix == ".jsonl":
        FRAME.to_json(plain, orient="records", lines=True)
    else:
        sign = {".csv": ",", ".tsv": "\t"}.get(suffix, "\x07")
        FRAME.to_csv(plain, sep=sign, index=False, header=suffix != ".tsv", quotechar="'")
    path = tmp_path / f"a{suffix}{more}"
    path.write_bytes(COMPRESS[more](plain.read_bytes()))
    found, expected = ([*Corpus(str(each))] for each in (path, plain))
    assert [each.text for each in found] == [each.text for each in expected]
    assert found[0].tree == expected[0].tree and found[0].target == expected[0].target


def test_an_endless_line_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_lines, "LONGEST", 1000)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "A dog."}\n' + b"0" * 10_000_000))
    assert path.stat().st_size < 20_000
    lines = numbered_lines(path)
    assert next(lines) == (1, '{"text": "A dog."}')
    tracemalloc.start()
    with pytest.raises(CorpusError, match=r"a.jsonl.gz:2: expected a line of at most 1,000 bytes"):
        next(lines)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000, "not after all of it was decompressed"


def test_a_pattern_stands_for_its_files(tmp_path: Path) -> None:

    for name in "ba":
        (tmp_path / f"part-{name}.txt").write_text(f"{name} dog.\n")
    assert texts(f"{tmp_path}/part-*.txt") == ["a dog.", "b dog."]
    assert texts(tmp_path / "part-?.txt") == ["a dog.", "b dog."]
    task = build("causal-lm", loaded("GPT2LMHeadModel"), f"{tmp_path}/part-*.txt")
    assert task.num_examples == 2
    with pytest.raises(CorpusError, match=r"match .*none-\*.txt, got none. Check the pattern"):
        Corpus(tmp_path / "none-*.txt")
    odd = tmp_path / "a[1].txt"
    odd.write_text("A file.\n")
    assert texts(str(odd)) == ["A file."]


def test_no_note_where_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    FRAME.to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len([*File(path).rows()]) == 2
