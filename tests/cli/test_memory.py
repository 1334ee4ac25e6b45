"""Every command that loads a model plans its memory, and advises what it has an option for."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.commands.command_line import command_class
from headcount.commands.completion import completion
from headcount.commands.stopping import advice
from tests import saved, tiny_tokenizers
from tests.commanding import PARALLEL, SAMPLE, headcount

LM = ("--task", "causal-lm", "--data", PARALLEL, "--columns", "text=0", "--limit", 8)
RUNS: dict[str, tuple[object, ...]] = {
    "analyze": ("bloom", SAMPLE, "--limit", 4),
    "cluster": ("llama", SAMPLE, "--limit", 9),
    "align": ("marian", "pairs.tsv", "--gold", "gold"),
    "coreference": ("bert", "mentions.conll"),
    "probe": ("bert", "--train", SAMPLE, "--test", SAMPLE, "--allow-overlap"),
    "evolve": ("llama", SAMPLE, "--occurrences", 5, "--types", 8, "--clusters", 6),
    "explain": ("llama", "A dog", "--target", " ran"),
    "skills": ("llama", SAMPLE, "--lengths", 150, "--needles", 1),
    "importance": ("llama", *LM, "--methods", "gradient"),
    "sensitivity": ("llama", *LM),
    "evaluate": ("llama", *LM),
    "cache": ("llama", SAMPLE, "--lengths", 300, "--per-length", 2, "--needles", 1),
    "prune": ("llama", *LM, "--dev", PARALLEL, "--keep", 4, "--method", "random"),
    "curve": ("llama", *LM, "--dev", PARALLEL, "--keep", 4, "--methods", "random"),
    "compact": ("llama", "--plan", "plan.json"),
    "speed": ("bloom", "bloom", "--length", 16, "--batch", 1),
    "finetune": ("llama", *LM, "--dev", PARALLEL),
    "follow": ("checkpoint-5", "checkpoint-10", *LM, "--method", "norm"),
}
"""Arguments with which attention takes some bytes: a mask, a bias, or weights of its own."""

ELSEWHERE = {
    "export": "compares as compact does, after the model was written",
    "serve": "reads 160 tokens at most",
    "train": "makes its model, of rows that the recipe limits",
    "doctor": "reads a few tokens, or says that it lacks the memory",
    "reproduce": "calls what the others do",
    "demo": "runs the others on what comes along",
    "sample": "loads no model",
    "report": "loads no model",
    "cite": "loads no model",
    "atlas": "loads no model",
    "compare": "loads no model",
    "check": "makes tiny models of its own",
}
"""Commands that need no plan of their own, and why."""


@pytest.fixture(scope="module")
def inputs(bert: Path, marian: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and data, by the names that `RUNS` gives them."""
    from tests.coreference.test_command import TEXT

    folder = tmp_path_factory.mktemp("inputs")
    saved.llama(folder / "llama")
    config = hf.BloomConfig(vocab_size=1000, hidden_size=16, n_layer=2, n_head=4)
    saved.save(folder / "bloom", hf.BloomForCausalLM, config, tiny_tokenizers.wordpiece())
    for name, source in {"bert": bert, "marian": marian}.items():
        shutil.copytree(source, folder / name)
    for step in (5, 10):
        shutil.copytree(folder / "llama", folder / f"checkpoint-{step}")
    (folder / "pairs.tsv").write_text("A dog barked.\tEin Hund bellte.\n")
    (folder / "gold").write_text("0-0 1-1 2-2\n")
    (folder / "mentions.conll").write_text(TEXT.format(0) + TEXT.format(1))
    (folder / "plan.json").write_text(json.dumps({"version": 1, "kept": {}}))
    return folder


def test_every_command_is_asked() -> None:
    assert {*RUNS} | {*ELSEWHERE} == {*COMMANDS} and not {*RUNS} & {*ELSEWHERE}


@pytest.mark.once
@pytest.mark.parametrize("name", RUNS)
def test_memory_is_planned_and_the_advice_can_be_followed(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is free all refuse; what they name are options of theirs."""
    monkeypatch.setattr("headcount.models.memory.free_memory", lambda: 0)
    monkeypatch.chdir(inputs)
    status, _, errors = headcount(name, *RUNS[name], "--out", tmp_path / "out")
    assert status == 2 and re.search(r"of (free )?memory", errors), errors
    assert "Traceback" not in errors
    assert {*re.findall(r"--[a-z-]+", errors)} <= options_of(name), errors


def options_of(name: str) -> set[str]:
    """The options that a command has."""
    script = completion("bash", {name: command_class(name)}, {})
    return {*re.findall(r"--[a-z-]+", script)}


FULL = torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("name", RUNS)
def test_the_advice_for_a_full_device_can_be_followed(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise FULL

    monkeypatch.setattr(command_class(name), "run", fail)
    status, _, errors = headcount(name, *RUNS[name], "--out", tmp_path / "out")
    assert status == 2 and "The device is out of memory (CUDA out of memory). " in errors
    named = {*re.findall(r"--[a-z-]+", errors)}
    assert named and named <= options_of(name), errors


def test_without_such_options_there_is_other_advice() -> None:
    assert str(advice(FULL)).endswith(" Give shorter texts, or a smaller model.")
