"""The results in docs/gallery, measured again; `make docs` draws their pages.

HF_HUB_OFFLINE=1 python benchmarks/gallery.py en_ewt-ud-dev.conllu stsb-en-dev.csv
"""

import re
import subprocess
import sys
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import tyro

DOCS = Path(__file__).resolve().parents[1] / "docs"
KEPT = (".parquet", ".json")
"""Endings of the files of results."""
ABOUT = "about.json"
"""What benchmarks/atlas.py writes beside them."""
GUESSED = ("Then, Mary and John went to the store. John gave a drink to", "--target", " Mary")
AGAINST = ("--against", " John")


@dataclass(frozen=True)
class Arguments:
    """Measure the models of the gallery."""

    treebank: tyro.conf.Positional[Path]
    """UD English-EWT, its development part."""
    pairs: tyro.conf.Positional[Path]
    """STS-B, its development part."""
    encoder: str = "sentence-transformers/all-MiniLM-L6-v2"
    """The sentence encoder."""
    language_model: str = "HuggingFaceTB/SmolLM2-135M-Instruct"
    """The language model."""
    only: tuple[str, ...] = ()
    """Names of some results; all by default."""


def commands(arguments: Arguments) -> dict[str, list[list[str]]]:
    """What makes each result, in a folder with our sample and the digits."""
    encoder, model = arguments.encoder, arguments.language_model
    pairs = ["--task", "similarity", "--data", str(arguments.pairs.resolve()), "--limit", "500"]
    pairs += ["--columns", "sentence1=0", "sentence2=1", "score=2"]
    treebank, digits = str(arguments.treebank.resolve()), ["digits/vit", "digits/test"]
    labels = ["--task", "image-classification", "--data", "digits/test"]
    return {
        "minilm": [
            ["analyze", encoder, treebank, "--as-words", "--null"],
            ["importance", encoder, *pairs],
        ],
        "smollm2": [["analyze", model, "sample/sample.conllu"]],
        "explanation": [["explain", model, *GUESSED, *AGAINST]],
        "plan": [["cache", model]],
        "en-de": [["analyze", "headcount:en-de", "sample/sample.tsv"]],
        "vit": [["analyze", *digits, "--null"], ["importance", "digits/vit", *labels]],
    }


def train_digits() -> None:
    """Train the model of the how-to by its own lines."""
    block = re.search(r"```python\n(from pathlib.*?)```", (DOCS / "howto/vit.md").read_text(), re.S)
    assert block is not None
    subprocess.run([sys.executable, "-c", block[1]], check=True)


def main(arguments: Arguments) -> None:
    """Measure, and keep tables and records."""
    headcount = [sys.executable, "-m", "headcount"]
    subprocess.run([*headcount, "sample", "sample"], check=True)
    for name, made in commands(arguments).items():
        if arguments.only and name not in arguments.only:
            continue
        if name == "vit":
            train_digits()
        for command in made:
            subprocess.run([*headcount, *command, "--out", name], check=True)
        (DOCS / "gallery" / name).mkdir(exist_ok=True)
        for path in (DOCS / "gallery" / name).iterdir():
            if path.name != ABOUT:
                path.unlink()
        # The page of an explanation draws the model's attention: it can't be drawn from tables.
        drawn = [Path(name, "explanation.html")] * (name == "explanation")
        for path in [*filter(lambda path: path.suffix in KEPT, Path(name).iterdir()), *drawn]:
            copy(path, DOCS / "gallery" / name)


if __name__ == "__main__":
    given = tyro.cli(Arguments)
    with TemporaryDirectory() as folder, chdir(folder):
        main(given)
