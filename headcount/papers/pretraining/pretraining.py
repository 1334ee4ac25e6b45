"""Train a model from scratch, from data files to a folder that `headcount.load` can read."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)

from headcount.core import (
    InputError,
    ModelError,
    ResumePolicy,
    check_not_read,
    check_one_folder,
    flush,
    processes,
    stored,
)
from headcount.corpora import is_held, named_files
from headcount.models import Loaded, load, place_of, versions
from headcount.papers.pretraining.examples import OBJECTIVES, encode
from headcount.papers.pretraining.recipe import PretrainingConfig, as_today
from headcount.papers.pretraining.rows import Rows, hold_out, write_rows
from headcount.papers.pretraining.tokenizer_training import tokenizer_in
from headcount.papers.pretraining.trainer import RecipeTrainer, candidates, choose
from headcount.results import write_sealed
from headcount.tasks import Task
from headcount.training import (
    Batches,
    Pairing,
    ProgressCallback,
    Tell,
    claim,
    coming_back,
    remove_broken,
    trainer_arguments,
    whole_checkpoints,
)

HEADS = ("encoder_attention_heads", "decoder_attention_heads")
"""Fields of the configuration that the shapes of the weights do not show."""


def read_start(start: str, out: Path) -> PreTrainedModel:
    """The model to start from.

    Raises:
        InputError: if the model is in the output folder of the training.
        ModelError: if there is no such model.
    """
    if Path(place_of(start)).resolve() == out.resolve():
        raise InputError(f"{out} is the model to start from. Train into another folder.")
    return load(start).model


def start_from(model: PreTrainedModel, start: PreTrainedModel) -> None:
    """Copy the weights of one model into another of the same shape.

    Args:
        model: the model to change.
        start: the model to copy from.

    Raises:
        ModelError: if the two differ in the shapes of their weights or in their heads.
    """
    here, there = model.state_dict(), start.state_dict()
    other = [
        name
        for name in sorted({*here, *there})
        if name not in here or name not in there or here[name].shape != there[name].shape
    ]
    other += [
        name
        for name in HEADS
        if getattr(model.config, name, None) != getattr(start.config, name, None)
    ]
    if other:
        raise ModelError(
            "Expected a model to start from with the recipe's shape, got one that differs in "
            f"{other[0]}{f' and {len(other) - 1} more' if other[1:] else ''}. Set width, "
            "feed_forward, layers, heads and objective as they were in its training."
        )
    model.load_state_dict({name: weight.to(here[name].dtype) for name, weight in there.items()})


CHECKPOINTS, RESULT = "checkpoints", "result.json"


@final
@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a training trains on, in numbers."""

    examples: int
    """Number of examples."""
    tokens: int
    """Number of tokens on the predicted side of all examples."""
    num_empty: int
    """Number of rows for training that were left out because a side is empty."""
    num_empty_dev: int
    """The same in the development set."""
    num_long: int
    """Number of rows for training that were left out because they are too long."""
    num_cut_dev: int
    """Number of texts of the development set that were cut at the end."""
    num_shared: int
    """Number of rows for training that were left out because a held-out row shares a side."""
    parameters: int
    """Number of the model's parameters."""


@final
@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The contents of `result.json`."""

    model: str
    """Name of the candidate that became the model."""
    candidates: Mapping[str, Mapping[str, float]]
    """`loss` and score on the development set, by candidate; empty without such a set."""
    steps: int
    """Number of steps taken."""
    versions: Mapping[str, str]
    """Versions of the packages."""
    history: Sequence[Mapping[str, Any]]
    """Log entries of the Trainer."""
    counts: Counts = stored(flat=())
    seconds: float
    """Duration of the training, that of a resumed one since it was resumed."""


@final
@dataclass(frozen=True)
class Trained:
    """A finished training."""

    loaded: Loaded
    """The model with its tokenizer."""
    result: TrainingResult
    """What was trained, on what, and how it went."""


@final
@dataclass(frozen=True)
class Text:
    """The rows for training, and those held out or given for evaluation."""

    train: Rows
    dev: Rows | None
    test: Rows | None


def train(
    job: PretrainingConfig,
    out: Path,
    policy: ResumePolicy = ResumePolicy.REFUSE,
    tell: Tell = lambda moment: None,
) -> Trained:
    """Train a model and write it into a folder, with its tokenizer and its record.

    Under `torchrun` every process trains on its own batches.

    Args:
        job: what is trained, and on which data.
        out: the output folder; an interrupted training resumes from its `checkpoints`.
        policy: what to do with an earlier training in `out`; it is resumed from its last complete
            checkpoint.
        tell: called with the progress of the training.

    Raises:
        CorpusError: if the data can't be used.
        InputError: if `out` can't be written or resumed, the device does not exist, or the model
            can't fit into memory.
        ModelError: if the tokenizer can't be used, or the loss is no longer finite.
    """
    started = time.monotonic()
    job.recipe.check_memory(has_pieces=bool(job.pieces or job.start))
    # The arguments come first, since creating them connects the processes on the training device.
    arguments = _arguments(job, out)
    if policy is ResumePolicy.OVERWRITE:
        check_not_read(out, _files(job))
    text = _text(job)
    # Problems with the data or the folder should show before anything is replaced.
    resuming = policy is ResumePolicy.RESUME
    begun = resuming and bool(whole_checkpoints(out / CHECKPOINTS))
    if resuming and not begun and (out / RESULT).exists():
        raise InputError(
            f"Expected checkpoints to resume from, got {out} with a finished model and none. Give "
            "--overwrite instead of --resume to train it again."
        )
    start = None if job.start is None or begun else read_start(job.start, out)
    is_first = processes().is_main_process
    with coming_back(out) if is_first else nullcontext():
        if is_first:
            identity = job.identity(text.train, text.dev, arguments.world_size)
            claim(out, identity, policy, as_today)
            remove_broken(out / CHECKPOINTS)
            _write_held_out(job, text, out)
        check_one_folder(out)
        with processes().main_process_first():
            tokenizer = tokenizer_in(out, job.start or job.pieces, text.train, job.recipe)
        trainer, counts = _trainer(job, text, tokenizer, arguments, tell, start)
    trainer.go_on(whole_checkpoints(out / CHECKPOINTS))
    processes().wait_for_everyone()
    trained = _finished(job, text, tokenizer, trainer, counts, out, started)
    if processes().is_main_process:
        _write(trained, out)
    processes().wait_for_everyone()
    return trained


def _arguments(job: PretrainingConfig, out: Path) -> TrainingArguments:
    if job.device not in ("cpu", "cuda") or (
        job.device == "cuda" and not torch.cuda.is_available()
    ):
        raise InputError(
            f"Expected the device cpu, or cuda where there is a GPU, got {job.device!r}."
        )
    # Not `processes()`, which would connect them by gloo before the arguments do so by nccl.
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if job.device == "cuda" and torch.cuda.device_count() > 1 and alone:
        raise InputError(
            f"Expected a process for each of the {torch.cuda.device_count()} GPUs, got one. Start "
            "with `torchrun --nproc-per-node`, or name one GPU in CUDA_VISIBLE_DEVICES."
        )
    objective = OBJECTIVES[job.objective] if job.dev is not None or job.hold_out else None
    return trainer_arguments(
        job.recipe,
        out / CHECKPOINTS,
        job.seed,
        job.save_every,
        job.device,
        max_steps=1,  # set once the batches are known
        logging_steps=min(100, job.save_every),
        eval_strategy="no" if objective is None else "steps",
        eval_steps=job.save_every,
        metric_for_best_model=None if objective is None else f"eval_{objective.metric}",
        greater_is_better=None if objective is None else objective.higher_is_better,
        ddp_find_unused_parameters=False,
    )


def _files(job: PretrainingConfig) -> list[Path]:
    """Local files and folders that a training reads."""
    given = [job.data, *([] if job.dev is None else [job.dev])]
    files = [file for data in given if not is_held(data) for file in named_files(data)]
    pieces = [] if job.pieces is None else [place_of(job.pieces)]
    return [Path(each) for each in (*files, *pieces)]  # `read_start` checks the other model


def _text(job: PretrainingConfig) -> Text:
    read = OBJECTIVES[job.objective].read
    rows = read(job.data, job.columns)
    if job.hold_out:
        rows, sets = hold_out(rows, job.hold_out, job.seed)
        return Text(rows, sets[0], sets[1] if len(sets) > 1 else None)
    return Text(rows, None if job.dev is None else read(job.dev, job.columns), None)


def _write_held_out(job: PretrainingConfig, text: Text, out: Path) -> None:
    # Other trainings, and pruning, should use only the rows left for training.
    for name, rows in (("train", text.train), ("dev", text.dev), ("test", text.test)):
        if job.hold_out and rows is not None:
            write_rows(rows, out / f"{name}.tsv")


def _trainer(
    job: PretrainingConfig,
    text: Text,
    tokenizer: PreTrainedTokenizerBase,
    arguments: TrainingArguments,
    tell: Tell,
    start: PreTrainedModel | None,
) -> tuple[RecipeTrainer, Counts]:
    """The Trainer, and counts of what it trains on."""
    objective, recipe = OBJECTIVES[job.objective], job.recipe
    encoded = encode(text.train, tokenizer, recipe, job.seed, job.objective == "masked-lm")
    per_step = arguments.world_size * recipe.accumulate
    lengths_NS = encoded.length_NS
    batches = Batches(
        lengths_NS,
        recipe.batch_tokens,
        recipe.epochs,
        seed=job.seed,
        multiple=per_step,
        pairing=Pairing(recipe.concatenated, recipe.max_length),
    )
    arguments.max_steps = len(batches) // per_step
    model = objective.model(recipe, tokenizer, job.seed)
    if start is not None:
        start_from(model, start)
    dev = None if text.dev is None else objective.dev(Loaded(model, tokenizer, "model"), text.dev)
    trainer = RecipeTrainer(model, recipe, encoded, objective.collate, batches, arguments, dev=dev)
    if job.patience is not None:
        trainer.add_callback(EarlyStoppingCallback(job.patience))
    tokens = int(lengths_NS[:, -1].sum())
    trainer.add_callback(ProgressCallback(tell, trainer.steps_per_epoch, tokens))
    counts = Counts(
        examples=len(lengths_NS),
        tokens=tokens,
        num_empty=text.train.num_empty,
        num_empty_dev=0 if text.dev is None else text.dev.num_empty,
        num_long=encoded.num_long,
        num_cut_dev=0 if dev is None else dev.num_truncated,
        num_shared=text.train.num_shared,
        parameters=model.num_parameters(),
    )
    return trainer, counts


def _finished(
    job: PretrainingConfig,
    text: Text,
    tokenizer: PreTrainedTokenizerBase,
    trainer: RecipeTrainer,
    counts: Counts,
    out: Path,
    started: float,
) -> Trained:
    """The model with the best weights from the training, and the training's record."""
    objective = OBJECTIVES[job.objective]
    model = objective.model(job.recipe, tokenizer, job.seed).eval()
    model.to(torch.device(trainer.args.device))  # type: ignore[arg-type]
    loaded = Loaded(model, tokenizer, str(out))
    dev: Task | None = None if text.dev is None else objective.dev(loaded, text.dev)
    best = trainer.state.best_global_step
    ranked = choose(model, candidates(out / CHECKPOINTS, best, job.recipe.average), dev)
    result = TrainingResult(
        model=ranked[0].name,
        candidates={candidate.name: candidate.dev for candidate in ranked},
        steps=trainer.state.global_step,
        versions=versions(),
        # The Trainer counts the entire training as one epoch.
        history=[
            row | {"epoch": row["step"] / trainer.steps_per_epoch}
            for row in trainer.state.log_history
        ],
        counts=counts,
        seconds=round(time.monotonic() - started, 1),
    )
    return Trained(loaded, result)


def _write(trained: Trained, out: Path) -> None:
    model, tokenizer = trained.loaded.model, trained.loaded.tokenizer
    assert tokenizer is not None
    try:
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
        flush(out)
        weights = [path.name for path in out.glob("*.safetensors")]
        write_sealed(out / RESULT, trained.result, [*weights, "config.json"])
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"The model could not be written into {out} ({error}). Its checkpoints are complete. "
            "Make room on the disk, then continue with --resume."
        ) from error
