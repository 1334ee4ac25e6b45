"""The record holds every warning that the terminal, the document and the page show, each once.

The page of one explained prompt draws the text alone: its warnings are in the document.
"""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from tests import saved
from tests.cli.conftest import SAMPLE, headcount

FEW = ("--task", "masked-lm", "--data")
JOBS = {
    "importance": ("bert", *FEW, "text", "--methods", "ablation"),
    "sensitivity": ("bert", *FEW, "text", "--samples", 20),
    "evaluate": ("bert", *FEW, "text"),
    "cluster": ("bert", SAMPLE, "--limit", 4, "--permutations", 20),
    "probe": (
        *("bert", "--train", SAMPLE, "--test", SAMPLE, "--allow-overlap"),
        *("--samples", 20, "--train-limit", 4, "--test-limit", 4),
    ),
    "explain": ("llama", "A dog", "--target", "zzzzzzzz", "--effects", "attribution"),
    "skills": (
        *("llama", SAMPLE, "--lengths", 150, "--depths", 0.5, "--needles", 1),
        *("--draws", 1),
    ),
    "cache": ("llama", "--lengths", 300, "--per-length", 2, "--needles", 1),
}
"""Small runs that have something to warn of."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.llama(tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("name", JOBS)
def test_all_of_them_say_the_same(name: str, bert: Path, llama: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text(f"The old dog barked. {'Again. ' * 70}\nA cat slept.\nThe dog ran home.\n")
    places = {"bert": bert, "llama": llama, "text": text}
    words = [places.get(str(word), word) for word in JOBS[name]]
    status, output, errors = headcount(name, *words, "--out", out)
    assert status == 0, errors
    (record,) = [path for path in out.glob("*.json") if "sha256" in path.read_text()]
    held = json.loads(record.read_text(encoding="utf-8"))["warnings"]
    assert held, "nothing to compare"
    assert sorted(_warned(output)) == sorted(map(_plain, held))
    for page in {*out.glob("*.md"), *out.glob("*.html")} - {out / "explanation.html"}:
        shown = _plain(unescape(page.read_text(encoding="utf-8")))
        for each in held:
            assert _plain(each) in shown, (page.name, each)


def _warned(output: str) -> list[str]:
    return [_plain(each) for each in re.findall(r"^warning: (.*)$", output, re.M)]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
