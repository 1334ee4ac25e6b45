"""Job: one training as requested, and what must not change when it is resumed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal, final

from headcount.core import (
    MODEL_FILES,
    InputError,
    ResumePolicy,
    check_is_folder,
    check_no_earlier_run,
    check_only_ours,
    check_seed,
    entries,
    hold,
    name_of,
    reading,
    remove_leftovers,
    write_json,
)
from headcount.corpora import Columns, Data
from headcount.training.data.rows import Rows
from headcount.training.pretraining.recipe import ModelRecipe

ObjectiveName = Literal["translation", "masked-lm", "causal-lm"]

RECORD = "training.json"

OURS = (
    *MODEL_FILES,
    *(RECORD, "result.json", "checkpoints/*", "train.tsv", "dev.tsv", "test.tsv"),
)
"""Patterns of the files in the folder of a training."""


@final
@dataclass(frozen=True)
class PretrainingConfig:
    """What is trained, and on which data.

    Raises:
        InputError: for values that can't be combined.
    """

    objective: ObjectiveName
    recipe: ModelRecipe
    data: Data
    """Training data: files, `hf://...`, or columns held in memory."""
    dev: Data | None = None
    """Development set, given like `data`."""
    columns: Columns | None = None
    """Names or numbers of the columns, if files are tables."""
    hold_out: tuple[int, ...] = ()
    """Sizes of a development set and optionally a test set to draw from `data`."""
    pieces: str | None = None
    """Model whose tokenizer is used; None to learn the pieces from the data."""
    start: str | None = None
    """Model of the same shape whose weights and tokenizer to start from; None for new ones."""
    seed: int = 1
    """Seed of weights, batches, dropout, masks and the draw of held-out sets."""
    save_every: int = 1000
    """Steps between two checkpoints, each with an evaluation on the development set."""
    patience: int | None = None
    """Evaluations without a better score after which training stops; None for never."""
    device: str = "cpu"
    """Device to train on: `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise InputError(f"Expected save_every of at least 1 step, got {self.save_every}.")
        if self.dev is not None and self.hold_out:
            raise InputError(
                "Expected a development set that is given or held out, got both. Drop one of "
                "--dev and --hold-out."
            )
        if len(self.hold_out) > 2 or any(size < 1 for size in self.hold_out):
            raise InputError(
                "Expected sizes of one or two held-out sets (development, test), each at least 1, "
                f"got {self.hold_out}."
            )
        if self.start is not None and self.pieces is not None:
            raise InputError(
                "A model that training starts from keeps its pieces. Drop one of --start and "
                "--pieces."
            )
        if self.recipe.swapped and self.objective != "translation":
            raise InputError(
                f"Expected swapped=0 for {self.objective}, which would predict the swapped tokens, "
                f"got {self.recipe.swapped}. Only a translation's source can be swapped."
            )
        check_seed(self.seed)
        if self.patience is not None and self.patience < 1:
            raise InputError(f"Expected patience of at least 1 evaluation, got {self.patience}.")
        if self.patience is not None and self.dev is None and not self.hold_out:
            raise InputError(
                "Expected a development set for early stopping, got none. Give one with --dev or "
                "--hold-out."
            )

    def identity(self, rows: Rows, dev: Rows | None, processes: int) -> dict[str, Any]:
        """Everything that a resumed training must have in common with the interrupted one."""
        recipe = {f"recipe.{name}": value for name, value in asdict(self.recipe).items()}
        return {
            "objective": self.objective,
            **recipe,
            "data": rows.sha256,
            "dev": None if dev is None else dev.sha256,
            "pieces": self.pieces and name_of(self.pieces),
            "start": self.start and name_of(self.start),
            "seed": self.seed,
            "save_every": self.save_every,
            "patience": self.patience,
            "processes": processes,
            "device": self.device,
        }


def claim(out: Path, identity: dict[str, Any], policy: ResumePolicy) -> None:
    """Check that a training may write into a folder, and record there what it is.

    Raises:
        InputError: if the folder holds something else, or an earlier training that is neither
            resumed nor overwritten, or if the training to resume differs; the error says where.
    """
    check_is_folder(out)
    record = out / RECORD
    remove_leftovers(out, {RECORD, "result.json"}.__contains__)
    if entries(out) and not record.exists():
        raise InputError(f"Expected a new or empty folder, got {out} with files. Name another.")
    if record.exists() and policy is ResumePolicy.RESUME:
        with reading(record, "the settings of a training"):
            before = dict(json.loads(record.read_text(encoding="utf-8")))
        _check_same_run(out, before, identity)
    elif record.exists():
        check_no_earlier_run(out, "an earlier training", policy)
        check_only_ours(out, OURS)
        if _replaced(out).exists():
            rmtree(out)  # the training in it was killed before it began
        else:
            out.rename(_replaced(out))
    write_json(record, identity)
    hold(out)


@contextmanager
def coming_back(out: Path) -> Iterator[None]:
    """Restore the training that was to be replaced if the block fails."""
    try:
        yield
    except BaseException:
        if _replaced(out).exists():
            rmtree(out, ignore_errors=True)
            _replaced(out).rename(out)
        raise
    rmtree(_replaced(out), ignore_errors=True)


def _replaced(out: Path) -> Path:
    """Folder that holds an earlier training until the new one has begun."""
    return out.resolve().with_name(f".{out.resolve().name}.replaced")


def _check_same_run(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    added = {f"recipe.{field.name}": field.default for field in fields(ModelRecipe)}
    # Earlier versions had fewer fields, and trained as by the defaults.
    before = {name: value for name, value in added.items() if name in now} | before
    for name in {**before, **now}:
        earlier, asked = before.get(name, "nothing"), now.get(name, "nothing")
        if name in ("pieces", "start") and isinstance(earlier, str):
            earlier = name_of(earlier)  # earlier versions recorded the path
        if earlier != asked:
            raise InputError(
                f"{out} was begun with {name} {_shown(earlier)}, and this command has "
                f"{_shown(asked)}. Resume with the same {name}, or train into another folder."
            )


def _shown(value: object) -> str:
    """The value as text, with hashes shortened."""
    return f"{value[:12]}..." if isinstance(value, str) and len(value) == 64 else str(value)
