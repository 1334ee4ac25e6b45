"""Training learns, resumes exactly, stops early, and survives a full disk."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from transformers import TrainingArguments

from headcount import load
from headcount.core import CorpusError, InputError, ModelError, ResumePolicy
from headcount.papers import RECIPES, PretrainingConfig, Rows, learn_pieces, train
from headcount.papers.pretraining.examples import OBJECTIVES, encode
from headcount.papers.pretraining.trainer import averaged
from headcount.tasks import Translation, evaluate
from headcount.training import Tell, TrainingProgress
from headcount.training.batches_trainer import Batches, trainer_arguments
from headcount.training.checkpoints import whole_checkpoints
from tests.turns import slow

TINY = replace(RECIPES["tiny"], layers=1, epochs=1, pieces=150, batch_tokens=600)


class Stop(Exception):
    """An error that stands for an interrupted training."""


def _stop_at(step: int) -> Tell:
    def tell(moment: TrainingProgress) -> None:
        if moment.step >= step and "loss" in moment.numbers:
            raise Stop

    return tell


def _weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model.safetensors")


@pytest.fixture(scope="module")
def first(pairs: Rows, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training; do not change it."""
    out = tmp_path_factory.mktemp("trained") / "first"
    train(PretrainingConfig("translation", TINY, pairs.columns, save_every=99), out)
    return out


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    """A five-word language is learned: unseen sentences are translated correctly."""
    words = {"red": "rot", "dog": "Hund", "sees": "sieht", "a": "ein", "cat": "Katze"}
    texts = [" ".join(chosen) for chosen in product(words, repeat=4)]
    data = {
        "source": texts,
        "target": [" ".join(words[word] for word in text.split()) for text in texts],
    }
    recipe = replace(
        TINY,
        epochs=12,
        pieces=40,
        batch_tokens=250,
        peak=1e-2,
        dropout=0.0,
        label_smoothing=0.0,
    )
    output_moments: list[TrainingProgress] = []
    job = PretrainingConfig("translation", recipe, data, hold_out=(20,), save_every=200)
    started = time.monotonic()
    trained = train(job, tmp_path / "out", tell=output_moments.append)
    took = time.monotonic() - started
    loaded = load(tmp_path / "out")
    dev = Translation(loaded, tmp_path / "out" / "dev.tsv")
    score = dev.score(evaluate(loaded.model, dev, texts=True))
    best = trained.result.candidates[trained.result.model]
    assert score > 90 and best["bleu"] > 90 and best["loss"] < 0.2, (score, best)
    assert (trained.result.counts.examples, trained.result.counts.num_long) == (605, 0)
    last = [moment for moment in output_moments if "loss" in moment.numbers][-1]
    assert last.epoch == pytest.approx(12 * last.step / last.steps) and last.tokens_per_second > 0
    assert output_moments[0].seconds_left > last.seconds_left
    assert took / 2 < trained.result.seconds <= took + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["masked-lm", *slow("translation", "causal-lm")])
def test_resumed_is_unbroken(objective: str, pairs: Rows, tmp_path: Path) -> None:
    """Stopped after a checkpoint and resumed, it is bit for bit the uninterrupted run's model."""
    columns, recipe = pairs.columns, TINY
    if objective != "translation":  # different pieces in every batch, too
        columns, recipe = {"text": columns["source"]}, replace(TINY, bpe_dropout=0.2)
    if objective == "causal-lm":
        recipe = replace(recipe, optimizer="muon")
    job = PretrainingConfig(objective, recipe, columns, save_every=3, seed=5)  # type: ignore[arg-type]
    whole = train(job, tmp_path / "whole")
    assert whole.result.steps > 8
    with pytest.raises(Stop):
        train(job, tmp_path / "broken", tell=_stop_at(6))
    assert not (tmp_path / "broken" / "model.safetensors").exists()
    steps: list[int] = []
    resumed = train(
        job, tmp_path / "broken", ResumePolicy.RESUME, tell=lambda m: steps.append(m.step)
    )
    assert min(steps) > 3, "and not from the start"
    for name, weight in _weights(tmp_path / "whole").items():
        assert torch.equal(weight, _weights(tmp_path / "broken")[name]), name
    losses = [
        [row["loss"] for row in each.result.history if "loss" in row] for each in (whole, resumed)
    ]
    assert losses[0] == losses[1]
    again = train(job, tmp_path / "broken", ResumePolicy.RESUME)
    assert again.result.steps == whole.result.steps, "resuming a finished one changes nothing"


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["translation", "masked-lm", "causal-lm"])
def test_the_loss_is_a_mean_over_what_is_predicted(
    objective: str, pairs: Rows, tmp_path: Path
) -> None:
    """The loss of one negligible step over all data, token by token."""
    rows = pairs if objective == "translation" else Rows(("text",), [row[:1] for row in pairs.rows])
    recipe = replace(
        TINY, batch_tokens=10**6, dropout=0.0, label_smoothing=0.0, peak=1e-12, average=1
    )
    job = PretrainingConfig(objective, recipe, rows.columns, seed=5)  # type: ignore[arg-type]
    trained = train(job, tmp_path / "out")
    (logged,) = [row["loss"] for row in trained.result.history if "loss" in row]
    assert trained.loaded.tokenizer is not None
    masks = objective == "masked-lm"
    encoded = encode(rows, trained.loaded.tokenizer, recipe, 5, masks)
    numbered = Batches(encoded.length_NS, 10**6, 1, seed=5)[0]
    batch = OBJECTIVES[objective].collate(encoded, *numbered)
    labels = batch.pop("labels")
    with torch.inference_mode():
        said = trained.loaded.model(**batch).logits.log_softmax(-1)
    losses = [-said[i, j, id].item() for (i, j), id in np.ndenumerate(labels.numpy()) if id != -100]
    assert logged == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.slow
def test_start_is_not_needed_for_a_resumed_training(
    first: Path, pairs: Rows, tmp_path: Path
) -> None:
    """The resumed run equals an unbroken one, with concatenated examples too."""
    start = shutil.copytree(first, tmp_path / "first")
    recipe = replace(TINY, concatenated=0.7, epochs=2)
    job = PretrainingConfig("translation", recipe, pairs.columns, save_every=3, start=str(start))
    train(job, tmp_path / "whole")
    with pytest.raises(Stop):
        train(job, tmp_path / "broken", tell=_stop_at(6))
    start.rename(tmp_path / "elsewhere")
    train(job, tmp_path / "broken", ResumePolicy.RESUME)
    for name, weight in _weights(tmp_path / "whole").items():
        assert torch.equal(weight, _weights(tmp_path / "broken")[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["inverse_sqrt", *slow("linear")])
def test_schedule_and_precision(
    schedule: str, pairs: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learning rates equal the formula's; bfloat16 loses little."""

    def logging(*given: Any, **more: Any) -> TrainingArguments:
        return trainer_arguments(*given, **more | {"logging_steps": 1})

    monkeypatch.setattr("headcount.papers.pretraining.pretraining.trainer_arguments", logging)
    recipe = replace(TINY, schedule=schedule, warmup=3, peak=1e-3, epochs=2)
    histories = []
    for precision in ("float32", "bfloat16"):
        job = PretrainingConfig(
            "translation", replace(recipe, precision=precision), pairs.columns, save_every=99
        )
        histories.append(train(job, tmp_path / precision).result.history)
    rows = [row for row in histories[0] if "loss" in row]
    assert len(rows) > 12
    for row in rows:
        done = row["step"] - 1  # steps before the one that this rate was for
        left = (len(rows) - done) / (len(rows) - 3)
        after = left if schedule == "linear" else (3 / max(done, 1)) ** 0.5
        assert row["learning_rate"] == pytest.approx(1e-3 * (done / 3 if done < 3 else after))
    low = [row["loss"] for row in histories[1] if "loss" in row]
    assert low == pytest.approx([row["loss"] for row in rows], rel=0.02)
    assert low != [row["loss"] for row in rows], "and is not float32"


@pytest.mark.slow
def test_the_optimizer_is_the_one_asked_for(pairs: Rows, tmp_path: Path) -> None:
    """Muon leaves biases to AdamW: first steps agree for biases and differ for matrices."""
    found = {}
    for optimizer in ("adamw", "muon"):
        recipe = replace(TINY, optimizer=optimizer, warmup=0, batch_tokens=10**6, average=1)
        train(PretrainingConfig("translation", recipe, pairs.columns, seed=5), tmp_path / optimizer)
        found[optimizer] = _weights(tmp_path / optimizer)
    same = {k for k, each in found["adamw"].items() if torch.allclose(each, found["muon"][k])}
    assert "model.encoder.layers.0.self_attn.q_proj.bias" in same
    assert "model.encoder.layers.0.self_attn.q_proj.weight" not in same


@pytest.mark.slow
def test_average_of_the_last(pairs: Rows, tmp_path: Path) -> None:
    train(PretrainingConfig("translation", TINY, pairs.columns, save_every=4), tmp_path)
    checkpoints = whole_checkpoints(tmp_path / "checkpoints")
    assert len(checkpoints) == TINY.average, "earlier ones are removed"
    mean = averaged(checkpoints)
    for name, weight in _weights(tmp_path).items():
        torch.testing.assert_close(weight, mean[name])
    (tmp_path / "checkpoints" / "checkpoint-999").mkdir()
    train(
        PretrainingConfig("translation", TINY, pairs.columns, save_every=4),
        tmp_path,
        ResumePolicy.RESUME,
    )
    assert not (tmp_path / "checkpoints" / "checkpoint-999").exists(), "half-written ones too"


@pytest.mark.slow
def test_start_from_a_trained_model(first: Path, pairs: Rows, tmp_path: Path) -> None:
    """With a step too small to change anything, the model equals its start."""
    start, still = str(shutil.copytree(first, tmp_path / "first")), replace(TINY, peak=1e-12)
    train(
        PretrainingConfig("translation", still, pairs.columns, start=start, seed=2, save_every=99),
        tmp_path / "second",
    )
    for name, weight in _weights(tmp_path / "second").items():
        torch.testing.assert_close(weight, _weights(tmp_path / "first")[name])
    pieces = [(tmp_path / name / "tokenizer.json").read_text() for name in ("first", "second")]
    assert pieces[0] == pieces[1]
    others = [replace(TINY, layers=2), replace(TINY, heads=2)]
    for recipe, objective in (
        (others[0], "translation"),
        (others[1], "translation"),
        (TINY, "causal-lm"),
    ):
        columns = pairs.columns if objective == "translation" else {"text": pairs.columns["source"]}
        job = PretrainingConfig(objective, recipe, columns, start=start)  # type: ignore[arg-type]
        with pytest.raises(
            ModelError, match="Expected a model to start from with the recipe's shape"
        ):
            train(job, tmp_path / "other", ResumePolicy.OVERWRITE)
    with pytest.raises(InputError, match="is the model to start from"):
        train(
            PretrainingConfig("translation", TINY, pairs.columns, start=start),
            Path(start),
            ResumePolicy.OVERWRITE,
        )
    with pytest.raises(CorpusError, match="Set the recipe's max_length higher"):
        train(
            PretrainingConfig("translation", replace(TINY, max_length=2), pairs.columns),
            Path(start),
            ResumePolicy.OVERWRITE,
        )
    assert _weights(tmp_path / "first"), "it is still there"
    with pytest.raises(InputError, match="Drop one of --start and --pieces"):
        PretrainingConfig("translation", TINY, pairs.columns, start=start, pieces=start)


@pytest.mark.slow
def test_stops_early(pairs: Rows, tmp_path: Path) -> None:
    """With a step too small to change anything, the score never improves."""
    recipe = replace(TINY, peak=1e-12, epochs=4)
    dev = {"source": ["a dog"], "target": ["ein Hund"]}
    job = PretrainingConfig("translation", recipe, pairs.columns, dev=dev, save_every=2, patience=2)
    result = train(job, tmp_path).result
    assert result.steps == 6, "one evaluation and two more"
    assert set(result.candidates) == {"average of steps 4, 6", "step 2, the best one"}
    output_moments: list[TrainingProgress] = []
    again = train(job, tmp_path, ResumePolicy.RESUME, tell=output_moments.append).result
    assert not output_moments, "stopped is stopped"
    names = ("steps", "model", "candidates")
    assert [getattr(again, name) for name in names] == [getattr(result, name) for name in names]
    losses = [[row for row in each.history if "loss" in row] for each in (result, again)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_marked_when_all_have_saved(
    pairs: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes wait for each other between writing the last file and the mark."""
    waiting: list[set[str]] = []
    wait = Accelerator.wait_for_everyone

    def waited(accelerator: Accelerator) -> None:
        for folder in (tmp_path / "checkpoints").glob("checkpoint-*"):
            waiting.append({path.name for path in folder.iterdir()})
        wait(accelerator)

    monkeypatch.setattr(Accelerator, "wait_for_everyone", waited)
    train(PretrainingConfig("translation", TINY, pairs.columns, save_every=99), tmp_path)
    (folder,) = whole_checkpoints(tmp_path / "checkpoints")
    assert {path.name for path in folder.iterdir()} - {"whole"} in waiting


@pytest.mark.slow
def test_moved_folder(pairs: Rows, tmp_path: Path) -> None:
    """The best checkpoint is found in a folder that was moved."""
    dev = {"source": ["a dog"], "target": ["ein Hund"]}
    job = PretrainingConfig(
        "translation", replace(TINY, peak=1e-12), pairs.columns, dev=dev, save_every=2
    )
    before = train(job, tmp_path / "here").result.candidates
    assert "step 2, the best one" in before
    (tmp_path / "here").rename(tmp_path / "there")
    assert train(job, tmp_path / "there", ResumePolicy.RESUME).result.candidates == before


@pytest.mark.slow
def test_infinite_numbers(pairs: Rows, tmp_path: Path) -> None:
    """An infinite perplexity is null in the record; its epochs are passes over the data."""
    recipe = replace(TINY, peak=3e2, warmup=1, epochs=2)
    text = {"text": pairs.columns["source"]}
    trained = train(
        PretrainingConfig("causal-lm", recipe, text, dev={"text": ["a dog"]}, save_every=2),
        tmp_path,
    )
    assert any(isinf(each["perplexity"]) for each in trained.result.candidates.values())
    read = json.loads((tmp_path / "result.json").read_text())
    assert None in [each["perplexity"] for each in read["candidates"].values()]
    last = [row for row in read["history"] if "loss" in row][-1]
    assert (last["step"], last["epoch"]) == (read["steps"], 2)


@pytest.mark.slow
def test_diverged(pairs: Rows, tmp_path: Path) -> None:
    """The first non-finite loss ends the training, even between two logging steps."""
    recipe = replace(TINY, peak=1e30, warmup=1)
    with pytest.raises(
        ModelError,
        match=r"finite training loss, got nan at step \d+, with learning rate .*\. Lower "
        "peak or raise warmup",
    ):
        train(PretrainingConfig("translation", recipe, pairs.columns, save_every=150), tmp_path)
    assert not whole_checkpoints(tmp_path / "checkpoints")


@pytest.mark.slow
def test_full_disk(pairs: Rows, tmp_path: Path) -> None:
    """The optimizer's state is written to a device that is always full."""
    out, full = tmp_path / "out", tmp_path / "out" / "checkpoints" / "checkpoint-6"
    job = PretrainingConfig("translation", TINY, pairs.columns, save_every=3)

    def fill(moment: TrainingProgress) -> None:
        full.mkdir(parents=True, exist_ok=True)
        if not (full / "optimizer.pt").is_symlink():
            (full / "optimizer.pt").symlink_to("/dev/full")

    with pytest.raises(
        InputError, match="checkpoint-6 could not be saved .* continue with --resume"
    ):
        train(job, out, tell=fill)
    assert [path.name for path in whole_checkpoints(out / "checkpoints")] == ["checkpoint-3"]
    assert not full.exists()
    train(job, out, ResumePolicy.RESUME)
    assert (out / "model.safetensors").exists()


@pytest.mark.once
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_a_checkpoint_that_lacks_its_optimizer_is_not_resumed(
    damage: Callable[[Path], object], pairs: Rows, tmp_path: Path
) -> None:
    """Training would end with other weights, as if nothing were wrong."""
    job = PretrainingConfig("translation", TINY, pairs.columns, save_every=3)

    def stop(moment: TrainingProgress) -> None:
        if moment.step > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(job, tmp_path, tell=stop)
    (checkpoint,) = whole_checkpoints(tmp_path / "checkpoints")
    damage(checkpoint / "optimizer.pt")
    with pytest.raises(InputError, match=r"optimizer.* in .*checkpoint-3|checkpoint-3.optimizer"):
        train(job, tmp_path, ResumePolicy.RESUME)
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.slow
def test_held_out_files_and_pieces(pairs: Rows, tmp_path: Path) -> None:
    """A language model on the translation's vocabulary starts with its encoder."""
    first, second = tmp_path / "first", tmp_path / "second"
    trained = train(
        PretrainingConfig("translation", TINY, pairs.columns, hold_out=(6, 9), save_every=99), first
    )
    assert trained.result.counts.examples < len(pairs.rows) - 14
    lines = {name: (first / f"{name}.tsv").read_text().splitlines() for name in ("dev", "test")}
    assert [len(lines["dev"]), len(lines["test"])] == [7, 10]
    assert lines["dev"][0] == "source\ttarget"
    left = (first / "train.tsv").read_text().splitlines()
    assert len(left) == trained.result.counts.examples + trained.result.counts.num_long + 1
    for side in range(2):
        held, kept = (
            {line.split("\t")[side].lower() for line in each[1:]}
            for each in ([*lines["dev"], *lines["test"][1:]], left)
        )
        assert len(held) == 15 and not held & kept
    text = {"text": pairs.columns["source"]}
    train(PretrainingConfig("masked-lm", TINY, text, pieces=str(first), save_every=99), second)
    assert load(second).encoder().single_words(["dog"]) == load(first).encoder().single_words(
        ["dog"]
    )
    with pytest.raises(
        ModelError, match="Expected a model with a tokenizer, got '.*none', which has none"
    ):
        train(
            PretrainingConfig("masked-lm", TINY, text, pieces=str(tmp_path / "none")),
            tmp_path / "third",
        )


@pytest.mark.slow
def test_a_vocabulary_gets_the_length_of_the_new_model(
    first: Path, pairs: Rows, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    longer = replace(TINY, max_length=2 * TINY.max_length)
    train(
        PretrainingConfig("translation", longer, pairs.columns, pieces=str(first), save_every=99),
        second,
    )
    assert load(first).max_length == TINY.max_length
    assert load(second).max_length == 2 * TINY.max_length


@pytest.mark.slow
def test_development_texts_that_are_cut_are_counted(pairs: Rows, tmp_path: Path) -> None:
    dev = {"source": ["A dog. " * 99, "A dog."], "target": ["Ein Hund. " * 99, "Ein Hund."]}
    job = PretrainingConfig("translation", TINY, pairs.columns, dev=dev, save_every=99)
    assert train(job, tmp_path / "out").result.counts.num_cut_dev == 2


@pytest.mark.slow
def test_pieces_are_kept_for_a_resumed_training(first: Path, pairs: Rows, tmp_path: Path) -> None:
    """Checkpoint weights do not change with the model they were taken from."""
    pieces, out = shutil.copytree(first, tmp_path / "first"), tmp_path / "out"
    job = PretrainingConfig("translation", TINY, pairs.columns, pieces=str(pieces), save_every=99)
    train(job, out)
    before = load(out).tokenizer
    learn_pieces(["other words"], 20, 50).save_pretrained(pieces)
    train(job, out, ResumePolicy.RESUME)
    after = load(out).tokenizer
    assert before is not None and after is not None and before.get_vocab() == after.get_vocab()


def test_a_finished_model_is_not_trained_again(first: Path, pairs: Rows, tmp_path: Path) -> None:
    job = PretrainingConfig("translation", TINY, pairs.columns, save_every=99)
    out = shutil.copytree(first, tmp_path / "out")
    before = (out / "model.safetensors").read_bytes()
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(
        InputError, match="Expected checkpoints to resume from, got .* with a finished model"
    ):
        train(job, out, ResumePolicy.RESUME)
    assert (out / "model.safetensors").read_bytes() == before


def test_several_gpus_want_a_process_each(
    pairs: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    job = PretrainingConfig("translation", TINY, pairs.columns, save_every=99, device="cuda")
    with pytest.raises(InputError, match="Expected a process for each of the 3 GPUs, got one"):
        train(job, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_broken_tokenizer(first: Path, pairs: Rows, tmp_path: Path) -> None:
    """The error names the folder whose trained tokenizer can't be read."""
    job = PretrainingConfig("translation", TINY, pairs.columns, save_every=99)
    out = shutil.copytree(first, tmp_path / "out")
    (out / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=f"'{out}', which has none that can be loaded"):
        train(job, out, ResumePolicy.RESUME)


def test_device(pairs: Rows, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected the device cpu, or cuda .*, got 'tpu'"):
        train(PretrainingConfig("translation", TINY, pairs.columns, device="tpu"), tmp_path)
