"""`headcount train`: killed and resumed, on two processes, refused, and its output."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.cli.test_long_work import wait_for
from tests.commanding import COLUMNS, DATA, PARALLEL, TINY, headcount
from tests.forked import Forked, ranks

pytestmark = pytest.mark.usefixtures("quick")


def _weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model.safetensors")


def _losses(out: Path) -> list[float]:
    history = json.loads((out / "result.json").read_text())["history"]
    return [row["loss"] for row in history if "loss" in row]


@pytest.mark.slow
def test_translation(tmp_path: Path) -> None:
    """Training turns files into a model that the other commands accept."""
    out = tmp_path / "out"
    arguments = ("train", "translation", *DATA, *TINY, "--hold-out", 9, 8, "--save-every", 10)
    status, output, errors = headcount(*arguments, "--out", out)
    assert status == 0, errors
    assert "loss" in errors and "tokens/s" in errors and ":0" in errors and " left" in errors
    assert "dev BLEU" in errors and "Model: " in output and str(out) in output
    table = ("--data", out / "test.tsv", "--limit", 4)
    status, output, errors = headcount("evaluate", out, "--task", "translation", *table)
    assert status == 0 and "bleu signature" in output, errors
    status, _, errors = headcount("train", "translation", *DATA, *TINY, "--out", out)
    assert status == 2 and "holds an earlier training" in errors


def test_left_out(tmp_path: Path) -> None:
    """Unusable rows are counted in one line."""
    lines = PARALLEL.read_text(encoding="utf-8").splitlines()
    table = tmp_path / "some.tsv"
    table.write_text(
        "\n".join([*lines, "a\t ", f"{' '.join('abcdefgh' * 12)}\tc"]) + "\n", encoding="utf-8"
    )
    data = ("--data", table, *COLUMNS)
    text = ("--data", table, "--columns", "text=0", *TINY, "max_length=90")
    status, output, errors = headcount("train", "causal-lm", *text, "--out", tmp_path / "lm")
    assert status == 0 and "Left out: 1 example that are too long" in output, errors
    status, output, errors = headcount(
        "train", "translation", *data, *TINY, "--out", tmp_path / "mt"
    )
    assert status == 0 and "Left out: 1 example that have an empty side" in output, errors


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--set", "epoch=2"), "Expected NAME=VALUE"),
        (("--set", "pieces=90000"), "Expected text for a vocabulary of 90,000 pieces"),
        (("--hold-out", 400), "Expected 400 rows to hold out that share no side"),
        (("--patience", 1), "Expected a development set for early stopping"),
        (("--set", "max_length=2"), "Set the recipe's max_length higher"),
        (("--set", "batch_tokens=100000", "accumulate=8"), "Expected at least 8 batches"),
    ],
)
def test_refusals(arguments: tuple[object, ...], reported: str, tmp_path: Path) -> None:
    out = ("--recipe", "tiny", "--out", tmp_path / "out")
    status, _, errors = headcount("train", "translation", *DATA, *out, *arguments)
    assert status == 2 and reported in errors


def test_files_of_different_length(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    files = ("--data", tmp_path / "a", tmp_path / "b")
    status, _, errors = headcount("train", "translation", *files, "--out", tmp_path / "out")
    assert status == 2 and "got 1 and 2. Line i of one file must translate line i" in errors


UNBROKEN = ("train", "translation", *DATA, *TINY, "layers=2", "--save-every", 5)
"""Long enough to be killed before its end."""


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that was not killed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert headcount(*UNBROKEN, "--out", out)[0] == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_resumed(dense: Path, tmp_path: Path, how: signal.Signals) -> None:
    """A process killed in the middle, and resumed by another, ends with an unbroken one's model."""
    arguments, broken = UNBROKEN, tmp_path / "broken"
    process = Forked("headcount", *arguments, "--out", broken)
    wait_for(broken / "checkpoints" / "checkpoint-10" / "whole")
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and not (broken / "result.json").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130 and "--resume" in errors
    status, _, errors = headcount(*arguments, "--out", broken, "--resume", "--seed", 2)
    assert status == 2 and "was begun with seed 1, and this command has 2" in errors
    status, _, errors = headcount(*arguments, "--out", broken, "--resume")
    assert status == 0 and "step 5/" not in errors, errors
    assert _losses(broken) == _losses(dense)
    for name, weight in _weights(dense).items():
        assert torch.equal(weight, _weights(broken)[name]), name


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    """Two processes take the same steps as one with two accumulated batches."""
    one, two = tmp_path / "one", tmp_path / "two"
    steps = ("--set", "layers=1", "pieces=150", "batch_tokens=300", "epochs=1", "dropout=0")
    arguments = ("train", "translation", *DATA, "--recipe", "tiny", "--save-every", 4)
    status, _, errors = headcount(*arguments, *steps, "accumulate=2", "--out", one)
    assert status == 0, errors
    outputs = []
    for process in ranks("headcount", *arguments, *steps, "--out", two):
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        outputs.append(output.count("Trained on"))
    assert outputs == [1, 0], "the first process alone speaks"
    assert _losses(two) == pytest.approx(_losses(one), rel=1e-4)
    for name, weight in _weights(one).items():
        torch.testing.assert_close(_weights(two)[name], weight, rtol=1e-3, atol=1e-4)
