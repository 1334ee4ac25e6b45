"""Every line of the table of formats in docs/files.md runs, on files as it names them."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from headcount.core import DATA
from headcount.corpora import Corpus
from tests.corpora.test_pictures import PIXELS, archive, metadata, png
from tests.corpora.test_told import CHAT

DOCS = Path(__file__).parents[2] / "docs" / "files.md"
LINES = re.findall(r"^\| .* \| `(Corpus\(.*\))` \|$", DOCS.read_text(encoding="utf-8"), re.M)
FRAME = pd.DataFrame({"review": ["A dog barked.", "Nobody slept."], "stars": [1, 0]})


def split(folder: Path) -> None:
    """A folder with two configs, one of which has its own split."""
    for name in ("german", "other"):
        (folder / name).mkdir(parents=True)
        (folder / name / "train.jsonl").write_text('{"text": "Ein Hund."}\n')
    names = [f"- config_name: {name}\n  data_files: {name}/*" for name in ("german", "other")]
    (folder / "README.md").write_text("---\nconfigs:\n" + "\n".join(names) + "\n---\n")


FILES: dict[str, Callable[[Path], Any]] = {
    "texts.txt": lambda path: path.write_text("A dog barked.\n"),
    "en.txt": lambda path: path.write_text("A dog.\n"),
    "de.txt": lambda path: path.write_text("Ein Hund.\n"),
    "part-1.txt": lambda path: path.write_text("A dog.\n"),
    "pairs.tsv": lambda path: path.write_text("A dog.\tEin Hund.\n"),
    "rows.tsv": lambda path: path.write_text("1\tA dog.\n"),
    "reviews.csv": lambda path: FRAME.to_csv(path, index=False, sep=";"),
    "reviews.csv.gz": lambda path: path.write_bytes(gzip.compress(FRAME.to_csv().encode())),
    "texts.jsonl": lambda path: path.write_text('{"meta": {"body": "A dog."}}\n'),
    "texts.parquet": lambda path: FRAME.rename(columns={"review": "text"}).to_parquet(path),
    "treebank.conllu": lambda path: path.write_bytes((DATA / "sample.conllu").read_bytes()),
    "chats.jsonl": lambda path: path.write_text(json.dumps({"messages": CHAT}) + "\n"),
    "pairs.tar": lambda path: archive(path, ("0.png", png(PIXELS[0])), ("0.txt", b"A dog.")),
    "images": lambda path: (path.mkdir(), metadata(path)),
    "folder?split": lambda path: datasets.Dataset.from_dict({"text": ["A dog."]}).save_to_disk(
        path.parent / "folder"
    ),
    "folder?config": lambda path: split(path.parent / "folder"),
}
"""What makes the files, by how their names begin."""


@pytest.mark.filterwarnings("ignore:.*semicolons separate")
@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_table_runs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "hf://" in line:
        monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: [{"text": "A dog."}])
    for name in re.findall(r'"([^"]*)"', line):
        for start, make in FILES.items():
            if name == start or name.startswith(f"{start}="):
                make(tmp_path / start)
    if "part-*" in line:
        FILES["part-1.txt"](tmp_path / "part-1.txt")
    corpus = eval(line, {"Corpus": Corpus})  # a line of ours
    assert [*corpus]


def test_the_table_has_every_ending() -> None:
    from headcount.corpora.formats import FORMATS

    assert len(LINES) > 15 and all(any(end in line for line in LINES) for end in FORMATS)
