"""Checkpoint list: the folders of one training in its order, all of one architecture.

The order is that of the updates, which `trainer_state.json` (of transformers' Trainer) or the
number at the end of the folder's name says. If one folder has neither, the order is that given.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from headcount.core import InputError, ModelError, reading
from headcount.models import Loaded, load, tokenizer_revision
from headcount.papers.pretraining.tokenizer_training import read_tokenizer

Load = Callable[[Path], Loaded]
"""Loads the model in a folder."""

_NUMBER_AT_END = re.compile(r"(?:^|[^0-9.])([0-9]{1,18})$")
_LEVELS_UP = 2
"""A training's folder, which has the tokenizer, is that far above its checkpoints."""


@final
@dataclass(frozen=True)
class Checkpoint:
    """A folder with the model as it was after some updates."""

    folder: Path
    step: int | None
    """Number of updates; None if unknown."""
    name: str
    """Name in tables and figures."""


def checkpoints_of(folders: Sequence[str | Path]) -> list[Checkpoint]:
    """The checkpoints in the order of the training.

    Raises:
        InputError: for fewer than two, one that does not exist, or two of one step.
    """
    paths = [Path(each) for each in folders]
    if len(paths) < 2:
        raise InputError(
            f"Expected at least 2 checkpoints to compare, got {len(paths)}. Name more folders, "
            "such as OUT/checkpoints/*."
        )
    for path in paths:
        if not (path / "config.json").is_file():
            what = "has no config.json" if path.is_dir() else "is no folder"
            raise InputError(
                f"Expected a folder with a model, got {path}, which {what}. Check the path."
            )
    steps = [step_of(path) for path in paths]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return [Checkpoint(path, None, path.name) for path in _distinct(paths)]
    found = sorted(zip(known, paths, strict=True))
    for (step, one), (other_step, other) in zip(found, found[1:], strict=False):
        if step == other_step:
            raise InputError(
                f"Expected checkpoints of one training, got two of step {step:,}: {one} and "
                f"{other}. Leave one out."
            )
    return [Checkpoint(path, step, path.name) for step, path in found]


def _distinct(paths: list[Path]) -> list[Path]:
    for number, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:number]]:
            raise InputError(f"Expected different checkpoints, got {path} twice. Leave one out.")
    return paths


def step_of(folder: Path) -> int | None:
    """The number of updates before a checkpoint; None if nothing says it."""
    state = folder / "trainer_state.json"
    if state.is_file():
        with reading(state, "the state of a Trainer"):
            step = json.loads(state.read_text(encoding="utf-8")).get("global_step")
            if isinstance(step, int):
                return step
    found = _NUMBER_AT_END.search(folder.name)
    return int(found[1]) if found else None


def load_checkpoint(checkpoint: Checkpoint, read: Load = load) -> Loaded:
    """The model, with the tokenizer of its training's folder if its own folder has none."""
    loaded = read(checkpoint.folder)
    if loaded.tokenizer is None:
        for folder in list(checkpoint.folder.resolve().parents)[:_LEVELS_UP]:
            if (folder / "tokenizer_config.json").is_file():
                return replace(loaded, tokenizer=read_tokenizer(folder))
    return loaded


def check_same_architecture(checkpoints: Sequence[Checkpoint], read: Load = load) -> None:
    """Check that all models have the same shape and the same tokenizer.

    Raises:
        ModelError: if one differs from the first; says in what.
    """
    first = None
    for checkpoint in checkpoints:
        loaded = load_checkpoint(checkpoint, read)
        facts = dict(_facts(loaded))
        if first is None:
            first = facts
        other = [name for name in first | facts if first.get(name) != facts.get(name)]
        if other:
            name = other[0]
            raise ModelError(
                "Expected checkpoints of one architecture with one tokenizer, but "
                f"{checkpoint.folder} differs from {checkpoints[0].folder} in {name}: "
                f"{facts.get(name, 'nothing')} and {first.get(name, 'nothing')}. Follow each "
                "training on its own."
            )


def _facts(loaded: Loaded) -> Iterator[tuple[str, str]]:
    yield "the class of the model", type(loaded.model).__name__
    yield "its heads", str(loaded.heads)
    tokenizer = loaded.tokenizer
    yield "the tokenizer", "none" if tokenizer is None else tokenizer_revision(tokenizer)
    for name, weight in loaded.model.state_dict().items():
        yield name, " x ".join(map(str, weight.shape)) or "a number"
