"""The record holds every warning that the terminal, the document and the page show, each once."""

import json
import re
from html import unescape
from pathlib import Path
from shutil import copytree

import pytest

from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.commands.command_line import command_class
from tests import saved
from tests.commanding import SAMPLE, headcount

MASKED = ("--task", "masked-lm", "--data", "text")
LEARN = (*MASKED, "--dev", "text", "--test", "text")
PRUNE = (*LEARN, "--no-fold", "--no-rescale")
JOBS = {
    "analyze": ("bert", "text"),
    "importance": ("bert", *MASKED, "--methods", "ablation"),
    "sensitivity": ("bert", *MASKED, "--samples", 20),
    "evaluate": ("bert", *MASKED),
    "cluster": ("bert", SAMPLE, "--limit", 4, "--permutations", 20),
    "align": ("marian", "pairs", "--gold", "gold"),
    "coreference": ("bert", "documents"),
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
    "prune": ("bert", *PRUNE, "--keep", 3, "--method", "norm"),
    "finetune": ("bert", *LEARN, "--set", "updates=1", "batch_tokens=100"),
    "curve": (
        *("bert", *LEARN, "--keep", 3, "--methods", "norm", "random", "--seeds", 1),
        *("--no-control", "--no-scores"),
    ),
    "follow": ("bert", "copy", *MASKED, "--method", "norm", "--no-scores"),
    "evolve": ("bert", "text", "--measure", "distance"),
    "speed": ("bert", "bert", "--batch", 1, "--length", 8, 999, "--rounds", 2),
}
"""Small runs that have something to warn of."""
QUIET = {
    "compact": "keeps what a plan names, and refuses what differs; its certificate has no warnings",
    "export": "its certificate has no warnings: what it lacks follows from its comparisons",
    "train": "counts in its record what it leaves out of its data",
    "serve": "writes no folder",
    "report": "measures nothing: its documents are those of the commands that did",
    "atlas": "measures nothing: it shows runs, each with its warnings, on their pages",
    "cite": "has no record: it writes for a paper what records say",
    "compare": "has no record: terminal and page read the same comparison",
    "doctor": "writes no folder",
    "demo": "analyses and scores as `analyze` and `importance` do, and prints their story alone",
    "reproduce": "analyses and scores as `analyze` and `importance` do",
    "sample": "measures nothing",
    "check": "writes no folder",
}
"""Why the other commands are not compared."""


def test_every_command_is_compared_or_says_why_not() -> None:
    assert {*JOBS} | {*QUIET} == {*COMMANDS} and not {*JOBS} & {*QUIET}


@pytest.fixture(scope="module")
def places(bert: Path, marian: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models and texts by the words of `JOBS`: a text is too long for the encoder."""
    from tests.coreference.test_command import TEXT

    folder = tmp_path_factory.mktemp("places")
    names = ("text.txt", "a.conll", "pairs.tsv", "gold")
    text, documents, pairs, gold = (folder / name for name in names)
    text.write_text(f"The old dog barked. {'Again. ' * 70}\nA cat slept.\nThe dog ran home.\n")
    documents.write_text(TEXT.format(0) + TEXT.format(1))
    pairs.write_text("A dog barked.\tEin Hund bellte.\nHe sleeps.\tEr bellte.\n")
    gold.write_text("0-0 1-1\n0-0\n")
    return {
        "bert": bert,
        "copy": Path(copytree(bert, folder / "copy")),
        "marian": marian,
        "llama": saved.llama(folder / "llama"),
        "text": text,
        "documents": documents,
        "pairs": pairs,
        "gold": gold,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_all_of_them_say_the_same(
    name: str, places: dict[str, Path], tmp_path: Path, page: None
) -> None:
    out = tmp_path / "out"
    words = [places.get(str(word), word) for word in JOBS[name]]
    status, output, errors = headcount(name, *words, "--out", out)
    assert status == 0, errors
    _check_all_same(out / str(command_class(name).record_name()), output)


def _check_all_same(record: Path, output: str) -> None:
    """Check that a command warned, and that its record and its pages say the same."""
    held = json.loads(record.read_text(encoding="utf-8"))["warnings"]
    assert held, "nothing to compare"
    assert sorted(_warned(output)) == sorted(map(_plain, held))
    for page in {*record.parent.glob("*.md"), *record.parent.glob("*.html")}:
        shown = _plain(unescape(page.read_text(encoding="utf-8")))
        for each in held:
            assert _plain(each) in shown, (page.name, each)


def _warned(output: str) -> list[str]:
    return [_plain(each) for each in re.findall(r"^warning: (.*)$", output, re.M)]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
