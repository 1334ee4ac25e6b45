"""A format of one's own: files with its ending are read, and what goes wrong names the plug-in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headcount import Corpus, CorpusError, register
from headcount.core import Origin, PluginError, plugins
from headcount.corpora import FORMATS, Format, read_data
from headcount.tasks import columns_of


def rows(file: Any, _: int | None) -> Iterator[tuple[str, Any]]:
    """A text and its label between two bars."""
    for number, line in enumerate(file.path.read_text().splitlines(), 1):
        text, label = line.split("||")
        yield f"{file}:{number}", {"text": text, "label": label}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(Format(".bars", rows))
    yield
    FORMATS.remove(".bars")


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    path = tmp_path / "texts.bars"
    path.write_text("a dog||0\na cat||1\n")
    table = read_data(str(path), None, columns_of("classification"))
    assert (list(table["text"]), list(table["label"])) == (["a dog", "a cat"], ["0", "1"])
    assert [each.text for each in Corpus([path])] == ["a dog", "a cat"]
    assert [each.text for each in Corpus(str(path))] == ["a dog", "a cat"]


def test_what_goes_wrong_names_the_plug_in(tmp_path: Path) -> None:
    path = tmp_path / "texts.bars"
    path.write_text("a dog||0\na cat\n")
    expected = r"the plug-in .bars to read .*bars, got ValueError: not enough .*, line 18"
    with pytest.raises(PluginError, match=expected):
        read_data(str(path), None, columns_of("classification"))
    with pytest.raises(PluginError, match="name for a format of .*, got .csv, which headcount 0"):
        register(Format(".csv", rows))
    register(Format(".bars", lambda file, _: iter([(f"{file}:1", {"text": 3})])))  # made again
    with pytest.raises(CorpusError, match=r"texts.bars:1 .by the plug-in .bars.: .*, got 3"):
        next(iter(Corpus([path])))
    (tmp_path / "texts.none").write_text("a")
    with pytest.raises(CorpusError, match="expected a .tsv, .csv, .jsonl, .parquet, .tar, .bars"):
        read_data(str(tmp_path / "texts.none"), None, columns_of("classification"))


def test_one_of_another_file_is_refused() -> None:
    """Though both are objects of one class."""
    token = plugins._loading.set(Origin("other.py"))
    try:
        with pytest.raises(PluginError, match="a format of other.py, got .bars, which .bars has"):
            register(Format(".bars", lambda file, number: iter(())))
    finally:
        plugins._loading.reset(token)
