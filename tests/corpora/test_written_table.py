"""The table of formats in docs/files.md: every line of it runs."""

import gzip
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

from headcount.corpora import Corpus
from tests.corpora.test_pictures import PIXELS, archive, png

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
LINES = re.findall(r"\| `(Corpus\(.*\))` \|", PAGE.read_text())
FRAME = pd.DataFrame({"text": ["A dog.", "No."]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    for name in ("texts.txt", "en.txt", "de.txt", "part-1.txt"):
        (folder / name).write_text("A dog.\nNo.\n")
    (folder / "pairs.tsv").write_text("A dog.\tEin Hund.\n")
    (folder / "rows.tsv").write_text("1\tA dog.\n")
    reviews = FRAME.rename(columns={"text": "review"}).to_csv(index=False)
    (folder / "reviews.csv").write_text(reviews)
    (folder / "reviews.csv.gz").write_bytes(gzip.compress(reviews.encode()))
    (folder / "texts.jsonl").write_text(json.dumps({"meta": {"body": "A dog."}}))
    chat = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]
    (folder / "chats.jsonl").write_text(json.dumps({"conversations": chat}))
    FRAME.to_parquet(folder / "texts.parquet")
    (folder / "treebank.conllu").write_text("1\tDogs\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    DatasetDict({"train": Dataset.from_pandas(FRAME)}).save_to_disk(folder / "folder")
    (folder / "images").mkdir()
    (folder / "images" / "a.png").write_bytes(png(PIXELS[0]))
    archive(folder / "pairs.tar", ("0.png", png(PIXELS[0])), ("0.txt", b"A dog."))
    return folder


def test_there_are_lines() -> None:
    assert len(LINES) > 14


@pytest.mark.parametrize("line", [each for each in LINES if "hf://" not in each])
def test_every_line_reads_something(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert [*eval(line, {"Corpus": Corpus})]
