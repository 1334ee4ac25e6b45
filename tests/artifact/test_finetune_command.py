"""`headcount finetune`: a folder with the model and the changes of its training."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headcount import load, numbers
from headcount.artifact import claim_artifact, save
from headcount.artifact.staging import COMPACT
from headcount.compaction import compact
from headcount.core import Plan, ResumePolicy
from headcount.results import Certificate, weights_sha256
from headcount.tasks import build, evaluate
from headcount.training import FinetuneConfig, FineTuned, TrainingRun, finetune
from tests.commanding import headcount, run

pytestmark = pytest.mark.usefixtures("quick")

SET = ("--set", "updates=6", "peak=3e-3", "warmup=1", "batch_tokens=100")


def test_finetune(bert: Path, data: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = run("finetune", bert, data, out, *SET)
    assert status == 0, errors
    record = json.loads((out / "finetune.json").read_text(encoding="utf-8"))
    trained, stock = load(out), load(bert)
    for name, file in zip(("dev", "test"), data[1:], strict=True):
        for when, loaded in (("before", stock), ("after", trained)):
            loss = evaluate(loaded.model, build("masked-lm", loaded, file)).loss
            assert record[name]["loss"][when] == pytest.approx(loss, rel=1e-5)
        assert f"{name}: perplexity" in output
    assert record["dev"]["loss"]["after"] < record["dev"]["loss"]["before"]
    train = build("masked-lm", stock, data[0])
    tuning = FinetuneConfig(updates=6, peak=3e-3, warmup=1, batch_tokens=100)
    expected = finetune(stock, train, tuning).loaded.model.state_dict()
    for name, weight in trained.model.state_dict().items():
        assert torch.equal(weight, expected[name]), name
    assert record["tuning"]["updates"] == 6 and len(record["history"]) > 0
    status, _, errors = run("finetune", bert, data, out, *SET)
    assert status == 2 and "--overwrite" in errors
    assert run("finetune", bert, data, out, *SET, "--overwrite")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"], "no state is left"


@pytest.mark.slow
def test_other_folders_are_left_alone(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """A model that this command did not make is not overwritten."""
    other = tmp_path / "other"
    load(bert).model.save_pretrained(other)
    status, _, errors = run("finetune", bert, data, other, *SET, "--overwrite")
    assert status == 2 and "holds files that are not a fine-tuned model's" in errors
    assert (other / "model.safetensors").exists()
    out = tmp_path / "out"
    assert run("finetune", bert, data, out, *SET)[0] == 0
    mine = [data[0], data[1], Path(shutil.copy(data[2], out / "test.txt"))]
    status, _, errors = run("finetune", bert, mine, out, *SET, "--overwrite")
    assert status == 2 and "test.txt, but would replace" in errors
    assert mine[2].exists() and not (tmp_path / "out.state").exists()


def test_an_interrupted_run_of_another_command_is_left_alone(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    claim_artifact(tmp_path / "out", ResumePolicy.REFUSE, kind=COMPACT)
    plan = tmp_path / "out.state" / "plan.json"
    plan.touch()
    for how in ("--resume", "--overwrite"):
        status, _, errors = run("finetune", bert, data, tmp_path / "out", *SET, how)
        assert status == 2 and "the interrupted run of a compact model" in errors
    assert plan.exists()


def test_a_run_that_was_refused_before_it_began_is_in_nobody_s_way(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    claim_artifact(tmp_path / "out", ResumePolicy.REFUSE, kind=COMPACT)
    status, _, errors = run("finetune", bert, data, tmp_path / "out", *SET)
    assert status == 0, errors


@pytest.mark.slow
def test_a_model_that_can_t_be_written_leaves_the_earlier_one(
    bert: Path, data: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a full disk, numbers and weights of the first training still match."""
    out = tmp_path / "out"
    assert run("finetune", bert, data, out, *SET)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

    def full(folder: Path, *model: object) -> None:
        (folder / "config.json").write_text("half of")
        raise OSError("no space left on device")

    monkeypatch.setattr("headcount.artifact.further_training.write_model", full)
    with pytest.raises(OSError, match="no space left"):
        run("finetune", bert, data, out, *SET, "--overwrite", "--seed", 5)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    steps = []

    def reported(*arguments: Any, run: TrainingRun, **options: Any) -> FineTuned:
        return finetune(*arguments, run=replace(run, tell=steps.append), **options)

    monkeypatch.setattr("headcount.artifact.further_training.finetune", reported)
    more = ("--resume", "--seed", 5)
    assert run("finetune", bert, data, out, *SET, *more)[0] == 0
    assert not steps, "with the updates that it had"
    assert (out / "finetune.json").read_bytes() != before["finetune.json"]


@pytest.mark.slow
def test_a_compact_model(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """The folder still loads."""
    loaded = load(bert)
    save(compact(loaded, Plan({"encoder.self": {0: (1,)}})), tmp_path / "small", loaded.tokenizer)
    status, _, errors = run("finetune", tmp_path / "small", data, tmp_path / "out", *SET)
    assert status == 0, errors
    assert load(tmp_path / "out").heads.counts == load(tmp_path / "small").heads.counts


@pytest.mark.slow
def test_a_teacher(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """The compact model learns the dense one's answers and is compared with it."""
    dense, out = load(bert), tmp_path / "out"
    save(compact(dense, Plan({"encoder.self": {0: (1,)}})), tmp_path / "small", dense.tokenizer)
    taught = (*SET, "distilled=0.5")
    status, output, errors = run(
        "finetune", tmp_path / "small", data, out, "--teacher", bert, *taught
    )
    assert status == 0, errors
    small = load(tmp_path / "small")
    train = build("masked-lm", small, data[0])
    tuning = FinetuneConfig(updates=6, peak=3e-3, warmup=1, batch_tokens=100, distilled=0.5)
    expected = finetune(small, train, tuning, teacher=dense.model).loaded.model.state_dict()
    trained = load(out)
    for name, weight in trained.model.state_dict().items():
        assert torch.equal(weight, expected[name]), name
    record = json.loads((out / "finetune.json").read_text(encoding="utf-8"))
    for name, file in zip(("dev", "test"), data[1:], strict=True):
        losses = {
            each: evaluate(each.model, build("masked-lm", each, file)).loss
            for each in (small, dense, trained)
        }
        assert record[name]["loss"]["before"] == pytest.approx(losses[small], rel=1e-5)
        found = record[name]["teacher"]["loss"]
        assert found["before"] == pytest.approx(losses[dense], rel=1e-5)
        assert found["after"] == record[name]["loss"]["after"]
        assert found["after"] == pytest.approx(losses[trained], rel=1e-5)
        assert f"{name}: perplexity of the teacher" in output
    assert "|teacher:" in record["signature"]
    certificate = Certificate.read(out)
    assert [each.what for each in certificate.comparisons] == [
        "compact and gated",
        "reloaded and gated",
    ]
    assert {each.data for each in certificate.comparisons} == {(data[1].name,)}
    assert certificate.weights_sha256 == weights_sha256(out) != weights_sha256(tmp_path / "small")
    assert Plan.read(out / "plan.json").of_layer(dense.heads, "encoder.self", 0) == (1,)
    card = (out / "README.md").read_text()
    assert "from a plan, then trained for 6 more updates with the dense model as teacher" in card
    before, after = (record["test"]["teacher"]["loss"][when] for when in ("before", "after"))
    assert all(f" {numbers.effect(each)} |" in card for each in (before, after))
    status, _, errors = run(
        "finetune", tmp_path / "small", data, bert, "--teacher", bert, *taught, "--overwrite"
    )
    assert status == 2 and f"This run reads {bert}, but" in errors


@pytest.mark.slow
def test_a_pruned_model_that_learns_on_keeps_its_card(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    """The card keeps the facts about the choice, and none about the earlier weights."""
    pruned, out = tmp_path / "pruned", tmp_path / "out"
    chosen = ("--method", "norm", "--keep", 2, "--recover", 1, "--tune", "warmup=0")
    assert run("prune", bert, data, pruned, *chosen)[0] == 0
    taught = taught_by = (*SET, "distilled=0.5", "--teacher", bert)
    assert run("finetune", pruned, data, out, *taught)[0] == 0
    card, earlier = ((each / "README.md").read_text() for each in (out, pruned))
    record = json.loads((pruned / "prune.json").read_text())
    compensated = ", ".join(gain["stage"] for gain in record["gains"] if gain["kept"])
    reported = f"by norm (budget: keep 2), compensated by {compensated}, then trained for"
    assert compensated and f"{reported} 6 more updates" in card
    assert Plan.read(out / "plan.json") == Plan.read(pruned / "plan.json")
    assert run("finetune", out, data, tmp_path / "twice", *taught)[0] == 0
    assert f"{reported} 12 more updates" in (tmp_path / "twice" / "README.md").read_text()
    for words in ("Score of every head", "Ceiling by FLOPs", "compact and gated"):
        assert words in card and words in earlier, words
    for words in ("Compensation for the pruned heads", "| control: loss"):
        assert words not in card and words in earlier, words
    status, output, _ = headcount("doctor", out)
    assert status == 0 and "certificate" in output
    assert (
        headcount("speed", bert, out, "--batch", 1, "--length", 8, "--rounds", 2, "--card")[0] == 0
    )
    other = tmp_path / "other"
    save(compact(load(out), Plan({"encoder.self": {0: ()}})), other, load(bert).tokenizer)
    for teacher, student in ((out, other), (out, bert)):
        odd = tmp_path / f"odd-{student.name}"
        taught = (*SET, "distilled=0.5", "--teacher", teacher)
        status, output, errors = run("finetune", student, data, odd, *taught)
        assert status == 0, errors
        assert not (odd / "README.md").exists(), "it is no model's with fewer heads"
        reported = (
            "warning: no certificate and no card will be written: Expected a teacher of the kind"
        )
        assert (reported in output) == (student == other)
    dense = (pruned / "prune.json").read_text()
    (pruned / "prune.json").write_text(dense[:-9])
    status, _, errors = run("finetune", pruned, data, tmp_path / "no", *taught_by)
    assert status == 2 and "prune.json" in errors
    assert not (tmp_path / "no.state" / "training").exists(), "before anything was trained"


@pytest.mark.once
@pytest.mark.parametrize(
    ("more", "reported"),
    [
        (("--set", "distilled=0.5"), "Expected a --teacher together with a distillation loss"),
        (("--set", "layerwise=2"), "got one without the other"),
        (("--teacher", "headcount:en-de"), "got one without the other"),
        (
            ("--teacher", "headcount:en-de", "--set", "distilled=0.5"),
            "since both read the same tokens, got headcount:en-de with another",
        ),
        (("--set", "gate_rate=1"), "has no gates. Leave gate_rate out"),
        (("--set", "trained=gates"), "Expected gates to train, got none"),
        (("--set", "updates=0"), "Expected a finite number above 0 for updates"),
    ],
)
def test_refusals(
    bert: Path, data: list[Path], tmp_path: Path, more: tuple[str, ...], reported: str
) -> None:
    status, _, errors = run("finetune", bert, data, tmp_path / "out", *more)
    assert status == 2 and reported in errors
    assert not (tmp_path / "out" / "finetune.json").exists()


def test_not_into_the_model(bert: Path, data: list[Path]) -> None:
    before = sorted(path.name for path in bert.iterdir())
    status, _, errors = headcount(
        "finetune",
        bert,
        "--task",
        "masked-lm",
        "--data",
        data[0],
        "--dev",
        data[1],
        "--out",
        bert,
        "--overwrite",
    )
    assert status == 2 and "This run reads" in errors
    assert sorted(path.name for path in bert.iterdir()) == before
