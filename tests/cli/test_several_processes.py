"""Commands share their work under torchrun; the others are refused at once, with a sentence."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from headcount.commands.command_line import main
from headcount.core import capabilities
from tests.cli.test_long_work import SMALL, until
from tests.commanding import DATA, PARALLEL, ROOT, SAMPLE, headcount
from tests.forked import Forked, ranks

SENTENCE = "headcount: Expected one process, got 2. Run it without torchrun, which works with"


def ends(both: list[Forked]) -> list[tuple[int | None, str, str]]:
    """Status, output and errors of two processes."""
    texts = [process.communicate(timeout=200) for process in both]
    return [(process.returncode, *each) for process, each in zip(both, texts, strict=True)]


@pytest.mark.parametrize("name", [each.name for each in capabilities() if not each.shares_work])
def test_one_sentence_of_the_main_process(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of the command runs, and no process waits for another one."""

    @dataclass
    class Never:
        def run(self) -> int:
            raise AssertionError(f"{name} ran")

    monkeypatch.setattr("headcount.commands.command_line.parse", lambda words: Never())
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, times in (("0", 1), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        assert main([name]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and " ".join(printed.err.split()).count(SENTENCE) == times


@pytest.mark.parametrize("foreseen", [True, False])
def test_torchrun_repeats_why_a_process_ended(
    foreseen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from the file that torchrun names, as torchrun itself reads it."""
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    if foreseen:
        status, _, errors = headcount("analyze", tmp_path / "none", SAMPLE, "--out", tmp_path / "o")
        assert status == 2
        why = " ".join(errors.removeprefix("headcount: ").split())
        assert why.startswith("Expected a Hugging Face name or a folder")
    else:
        monkeypatch.setattr("headcount.commands.command_line.parse", lambda words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["analyze"])
        why = "ZeroDivisionError: division by zero"
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(file))
    shown = ChildFailedError("headcount", {0: failure}).format_msg()
    assert why in " ".join(shown.split()) and "To enable traceback" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compact", "report"])
def test_real_processes(name: str, bert: Path, tmp_path: Path) -> None:
    """A folder and a report were written by both processes, or one blamed the other."""
    out = tmp_path / "out"
    arguments = (bert, "--plan", "plan.json", "--out", out) if name == "compact" else (out,)
    (first, second) = ends(ranks("headcount", name, *arguments))
    assert first[:2] == (2, "") and " ".join(first[2].split()).startswith(SENTENCE)
    assert second == (2, "", "") and not out.exists()


@pytest.mark.slow
def test_hosts_without_a_shared_disk_start_over(bert: Path, tmp_path: Path) -> None:
    """Every host keeps the sums of its own processes, which --overwrite deletes there."""
    outs, others = [tmp_path / "0", tmp_path / "1"], [tmp_path / "2", tmp_path / "3"]
    analyze = ("analyze", bert, SAMPLE, *SMALL)
    for status, _, errors in ends(ranks("headcount", *analyze, "--limit=9", "--out", last=outs)):
        assert status == 0, errors
    first, second = ends(
        ranks("headcount", *analyze, "--limit=8", "--out", last=[others[0], outs[1]])
    )
    assert first[0] == 2 and "Another process of this run ended" in first[2]
    assert second[0] == 2 and f"but {outs[1]} holds an earlier run" in " ".join(second[2].split())
    again = (*analyze, "--limit=8", "--overwrite", "--out")
    for status, _, errors in ends(ranks("headcount", *again, last=outs)):
        assert status == 0, errors
    assert (outs[0] / "run.json").exists() and not (outs[1] / "run.json").exists()


@pytest.mark.slow
def test_importance_has_the_same_bits(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """Two processes, each with a disk of its own, are killed in the sweep; three resume."""
    one, outs = tmp_path / "one", [tmp_path / "0", tmp_path / "1", tmp_path / "2"]
    methods = ("--methods", "gradient", "fisher", "relevance", "norm", "sink", "ablation")
    how = (*methods, "--instead", "mean", "--max-tokens", 24, "--samples", 20, "--out")
    arguments = ("importance", bert, "--task", "masked-lm", "--data", data[0], *how)
    assert headcount(*arguments, one)[0] == 0
    killed = ranks("headcount", *arguments, last=outs)
    for process, out in zip(killed, outs, strict=False):
        until(lambda out=out: [*(out / "state").glob("sweep-*.safetensors")])
        process.send_signal(signal.SIGKILL)
    for process in killed:
        process.communicate(timeout=60)
    again = (*arguments[:-1], "--resume", "--out")
    for status, _, errors in ends(ranks("headcount", *again, last=outs, number=3)):
        assert status == 0, errors
    parts = [{path.name for path in (out / "state").glob("sweep-*")} for out in outs]
    assert sum(map(len, parts)) == len(set().union(*parts)) > 3
    left, right = (pd.read_parquet(out / "heads.parquet") for out in (one, outs[0]))
    pd.testing.assert_frame_equal(left, right, rtol=0, atol=0)
    assert not (outs[1] / "heads.parquet").exists()


@pytest.mark.slow
def test_an_evaluation_is_shared(marian: Path, tmp_path: Path) -> None:
    """Losses and beam searches; the main process writes."""
    task = ("evaluate", marian, "--task", "translation", "--data", PARALLEL, "--limit", 9)
    arguments = (*task, "--max-tokens", 60, "--out")
    assert headcount(*arguments, tmp_path / "one")[0] == 0
    outs = [tmp_path / "0", tmp_path / "1"]
    for status, _, errors in ends(ranks("headcount", *arguments, last=outs)):
        assert status == 0, errors
    other = {"arguments": {}, "files": {}, "sha256": ""}  # they hold the folder's name
    one, two = (
        json.loads((out / "evaluation.json").read_text()) | other
        for out in (tmp_path / "one", outs[0])
    )
    assert one == two and one["bleu"] >= 0
    texts = [(out / "translations.txt").read_text() for out in (tmp_path / "one", outs[0])]
    assert texts[0] == texts[1]
    assert not outs[1].exists()


@pytest.mark.slow
def test_other_arguments_are_refused_by_all(bert: Path, data: list[Path], tmp_path: Path) -> None:
    evaluate = ("evaluate", bert, "--task", "masked-lm", "--data", data[0], "--limit")
    for status, output, errors in ends(ranks("headcount", *evaluate, last=[3, 4])):
        assert (status, output) == (2, "")
        assert "same arguments in all processes, got" in " ".join(errors.split())


@pytest.mark.slow
def test_training_needs_one_folder(tmp_path: Path) -> None:
    """Checkpoints are written by the main process and read by all."""
    train = ("train", "translation", *DATA, "--recipe", "tiny", "--set", "layers=1", "pieces=150")
    outs = [tmp_path / "0", tmp_path / "1"]
    first, second = ends(ranks("headcount", *train, "--out", last=outs))
    assert second[0] == 2 and f"main process's {outs[1]} is another folder" in " ".join(
        second[2].split()
    )
    assert first[0] == 2 and "Another process of this run ended" in first[2]
    assert not [*outs[0].glob(".seen-*")]


@pytest.mark.slow
def test_a_plug_in_reaches_other_processes(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """A score of one's own has the same bits from two processes, each with its share of batches."""
    shown = ROOT / "docs" / "extending" / "headcount-example" / "src" / "headcount_example"
    how = ("--methods", "dimmed", "--max-tokens", 24, "--plugin", shown / "dimmed.py", "--out")
    arguments = ("importance", bert, "--task", "masked-lm", "--data", data[0], *how)
    outs = [tmp_path / "0", tmp_path / "1"]
    alone = ranks("headcount", *arguments, last=[tmp_path / "one"], number=1)
    for status, _, errors in (*ends(ranks("headcount", *arguments, last=outs)), *ends(alone)):
        assert status == 0, errors
    left, right = (pd.read_parquet(out / "heads.parquet") for out in (tmp_path / "one", outs[0]))
    pd.testing.assert_frame_equal(left, right, rtol=0, atol=0)
    assert (left["dimmed"].to_numpy() != 0).all()
