"""A count with a few zeros too many ends in seconds with a sentence, in many commands."""

from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from headcount.cli.command import command_class
from tests import saved
from tests.cli.conftest import PARALLEL, SAMPLE, headcount
from tests.cli.test_coreference import TEXT

MANY = 10**9
"""More than any of these commands can do in a day, or hold."""

TASK = ("--task", "masked-lm", "--data", "{train}")
SPLITS = (*TASK, "--dev", "{dev}", "--test", "{test}")
SKILLS = ("skills", "{llama}", "--lengths", 150, "--depths", 0.5, "--prompts", 4, "--draws", 1)
CACHE = ("cache", "{llama}", "--lengths", 150, 200, "--per-length", 2, "--needles", 1)
CACHE = (*CACHE, "--recent", 40, "--score", "distance")
EXPLAIN = ("explain", "{llama}", "The old dog", "--target", " barked", "--together", 1)
EVOLVE = ("evolve", "{bert}", SAMPLE, "--occurrences", 5, "--types", 8, "--clusters", 6)
GATES = ("importance", "{bert}", *TASK, "--methods", "causal-gates")
TRAIN = ("train", "translation", "--data", PARALLEL, "--columns", "source=0", "target=1")
TRAIN = (*TRAIN, "--recipe", "tiny", "--set", "layers=1", "pieces=150", "batch_tokens=600")

DAY = "Expected work of at most a day, but "
MEMORY = " of free memory for "

COUNTS: dict[str, tuple[tuple[object, ...], str]] = {
    "cache how.draws": ((*CACHE, "--draws"), MEMORY),
    "cache how.per_length": ((*CACHE, "--per-length"), MEMORY),
    "cluster how.permutations": (
        ("cluster", "{bert}", SAMPLE, "--limit", 9, "--permutations"),
        MEMORY,
    ),
    "coreference how.samples": (("coreference", "{bert}", "{coreference}", "--samples"), MEMORY),
    "curve seeds": (
        ("curve", "{bert}", *SPLITS, "--keep", 3, "--methods", "random", "--seeds"),
        MEMORY,
    ),
    "evolve how.clusters": (
        (*EVOLVE, "--clusters"),
        "Expected at least as many states as clusters",
    ),
    "evolve how.occurrences": ((*EVOLVE, "--occurrences"), "Expected at least 2 tokens with"),
    "explain how.draws": ((*EXPLAIN, "--draws"), MEMORY),
    "importance how.samples": (("importance", "{bert}", *TASK, "--samples"), MEMORY),
    "importance how.starts": ((*GATES, "--starts"), MEMORY),
    "importance how.updates": ((*GATES, "--updates"), DAY),
    "probe how.samples": (
        ("probe", "{bert}", "--train", "{a}", "--test", "{b}", "--samples"),
        MEMORY,
    ),
    "prune compensation.recover": (
        ("prune", "{bert}", *SPLITS, "--keep", 3, "--method", "norm", "--recover"),
        DAY,
    ),
    "sensitivity samples": (("sensitivity", "{bert}", *TASK, "--samples"), MEMORY),
    "skills how.draws": ((*SKILLS, "--draws"), MEMORY),
    "skills how.needles": ((*SKILLS, "--needles"), MEMORY),
    "skills how.prompts": ((*SKILLS, "--prompts"), MEMORY),
    "skills how.removed": ((*SKILLS, "--removed"), "Expected numbers of removed heads of at most"),
    "speed how.rounds": (
        ("speed", "{bert}", "{bert}", "--batch", 1, "--length", 8, "--rounds"),
        MEMORY,
    ),
}
"""Commands to which a number is added, and what they answer."""


@pytest.fixture(scope="module")
def places(
    bert: Path, marian: Path, data: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Models and data by the names above."""
    folder = tmp_path_factory.mktemp("counts")
    sentences = SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")
    texts = {
        "a": "\n\n".join(sentences[:20]) + "\n\n",
        "b": "\n\n".join(sentences[20:30]) + "\n\n",
        "coreference": TEXT.format(0) + TEXT.format(1),
        "pairs": "A dog barked.\tEin Hund bellte.\nHe sleeps.\tEr bellte.\n",
        "gold": "0-0 1-1 2-2 3-3\n0-0 1p1\n",
    }
    ends = {"a": ".conllu", "b": ".conllu", "coreference": ".conll", "pairs": ".tsv"}
    found = {name: folder / f"{name}{ends.get(name, '')}" for name in texts}
    for name, text in texts.items():
        found[name].write_text(text, encoding="utf-8")
    named = zip(("train", "dev", "test"), data, strict=True)
    return {
        **found,
        **dict(named),
        "bert": bert,
        "marian": marian,
        "llama": saved.llama(folder / "m"),
    }


@pytest.mark.parametrize("name", COUNTS)
def test_a_billion_ends_in_a_sentence(
    name: str, places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with a gigabyte, whose clock goes on by a second whenever it is asked."""
    monkeypatch.setattr("headcount.core.memory.free_memory", lambda: 10**9)
    monkeypatch.setattr("headcount.core.pace.monotonic", count(0.0, 1.0).__next__)
    arguments, says = COUNTS[name]
    words = {**places, "out": tmp_path / "out", "many": MANY}
    given = [str(each).format(**words) for each in arguments]
    if not any("{many}" in str(each) for each in arguments):
        option, at = given.pop(), len(given)
        if option in given:
            first = at = given.index(option)
            end = first + 1
            while end < len(given) and not given[end].startswith("--"):
                end += 1
            del given[first:end]
        given[at:at] = [option, str(MANY)]
        if "out" in {each.name for each in fields(cast(Any, command_class(given[0])))}:
            given += ["--out", str(tmp_path / "out")]
    status, _, errors = headcount(*given)
    assert status == 2 and says in errors, errors
