"""Staging: a folder is written completely or not at all."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from shutil import rmtree
from typing import Literal, final

from headcount.core import (
    MODEL_FILES,
    InputError,
    ResumePolicy,
    check_is_folder,
    check_no_earlier_run,
    check_not_read,
    check_only_ours,
    entries,
    flush,
    hold,
    is_begun,
    locked,
    make_folder,
    mark,
    marked,
    put,
    read_json,
    remove_leftovers,
    remove_state,
    write_json,
)
from headcount.models import plan_in
from headcount.results import EvaluationRecord, FinetuneRecord

Format = Literal["onnx", "gguf", "torch-export"]
"""What a model can be exported to; also the name of the folder inside its own."""

REPLACES = "replaces the model in its folder"
"""Second line in the mark of a state: the run may replace a model, also once it is resumed."""


@final
@dataclass(frozen=True)
class Kind:
    """A kind of folder content that only content of the same kind may replace."""

    name: str
    """Name in messages."""
    is_in: Callable[[Path], bool]
    """Whether a folder holds one."""


WRITTEN = "written.json"
"""File that lists the files of a model's folder: only these are deleted with the model."""
GRAPHS = ("onnx/model.onnx*", "onnx/model_int8.onnx", "onnx/encoder.onnx*", "onnx/decoder.onnx*")
"""Patterns of the graphs of `headcount export`."""
LATER = (*GRAPHS, "report.html", EvaluationRecord.FILE, *EvaluationRecord.TEXTS, "speed.*")
"""Patterns of files that later commands may add."""
EARLIER = (
    *MODEL_FILES,
    *("plan.json", "prune.json", "finetune.json", "certificate.json", "README.md"),
    *("modeling_headcount.py", "encoder_lm.py", "preprocessor_config.json"),
    *("processor_config.json", "modules.json", "*sentence*_config.json"),
    *("config_sentence_transformers.json", "*/config.json", "*/model.safetensors"),
)
"""Patterns of the files in folders from before they had a list."""

COMPACT = Kind("a compact model", lambda folder: plan_in(folder) is not None)
FINETUNED = Kind("a fine-tuned model", lambda folder: (folder / FinetuneRecord.FILE).exists())


@contextmanager
def staged(
    folder: Path, overwrite: bool = False, kind: Kind = COMPACT, advice: str = "--overwrite"
) -> Iterator[Path]:
    """`replaced` for the folder of a model.

    Raises:
        InputError: If the folder is taken, as in `check_not_taken`.
    """
    check_not_taken(folder, overwrite, advice, kind)
    with replaced(folder) as new:
        yield new
        names = [path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()]
        write_json(new / WRITTEN, sorted([*names, WRITTEN]))


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which replaces the given one at the end of the block.

    After an error the new folder is deleted and the old one is unchanged. Leftovers of a killed
    process are cleaned up by the next one.

    Raises:
        InputError: If the folder can't be made, or another process is writing it.
    """
    folder = folder.resolve()
    make_folder(folder.parent)
    new, old = (folder.with_name(f".{folder.name}{end}") for end in (_PART, ".old"))
    if new.exists():
        with locked(new, folder):
            rmtree(new)  # a killed process left it
    make_folder(new, folder)
    with locked(new, folder):
        if old.exists() and not folder.exists():  # killed between the two moves
            put(old, folder)
        rmtree(old, ignore_errors=True)
        try:
            yield new
            flush(new)  # before the moves, between which there is no folder
            if folder.exists():
                put(folder, old)
            put(new, folder)
        finally:
            if old.exists() and not folder.exists():  # interrupted between the two moves
                put(old, folder)
            rmtree(new, ignore_errors=True)
            rmtree(old, ignore_errors=True)


_PART = ".part"
"""End of the name of a folder that is being written."""


def destination(folder: Path) -> Path:
    """The folder that a new one of `replaced` becomes; any other folder is its own.

    >>> destination(Path("out/.small.part")) == destination(Path("out/small")) == Path("out/small")
    True
    """
    name = folder.name
    is_new = name.startswith(".") and name.endswith(_PART)
    return folder.with_name(name[1:].removesuffix(_PART)) if is_new else folder


def check_not_taken(
    folder: Path, overwrite: bool, advice: str = "--overwrite", kind: Kind = COMPACT
) -> None:
    """Raise an error unless a folder is new, empty, or holds a model that may be replaced.

    Args:
        folder: Folder to check.
        overwrite: Whether a model may be replaced.
        advice: Option that allows replacing it.
        kind: Kind of model that may be replaced.

    Raises:
        InputError: If the folder is taken.
    """
    if folder.resolve() == Path.cwd():
        raise InputError(
            f"{folder} is the working directory, which can't be replaced. Name another folder."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder for the model, but {folder} is a file. Name another folder."
        )
    if os.path.ismount(folder.resolve()):
        raise InputError(
            f"{folder} is a mount point, which can't be replaced. Name a folder in it."
        )
    present = [path.name for path in entries(folder)]
    if present and not kind.is_in(folder):
        raise InputError(
            f"{folder} holds files that are not {kind.name}'s ({', '.join(present[:3])}). Name a "
            "new folder."
        )
    if present and not overwrite:
        raise InputError(
            f"{folder} holds {kind.name}. Add {advice} to replace it, or name another folder."
        )
    check_only_ours(folder, _written_in(folder))


def _written_in(folder: Path) -> list[str]:
    """Patterns of the files that we wrote into the folder of a model."""
    if not (folder / WRITTEN).exists():
        return [*EARLIER, *LATER]
    advice = "Move the folder away, or name another one."
    names = read_json(folder / WRITTEN, "a list of file names", advice)
    if not isinstance(names, list):
        raise InputError(f"Expected a list of file names in {folder / WRITTEN}. {advice}")
    return [*(escape(str(name)) for name in names), *LATER]


def state_of(out: Path) -> Path:
    """The folder that holds the state of an unfinished run."""
    return out.resolve().with_name(f"{out.resolve().name}.state")


def claim_artifact(
    out: Path, policy: ResumePolicy, kind: Kind = COMPACT, read: Iterable[Path] = ()
) -> None:
    """Check that a model may be written, and make the folder for the state.

    Args:
        out: Folder for the model.
        policy: What to do with an interrupted run or an earlier model.
        kind: Kind of model that may be replaced.
        read: Paths that the run reads, none in the folder, which is replaced entirely.

    Raises:
        InputError: If there is a model that may not be replaced, an interrupted run that may not be
            resumed, one of another kind, or a path to read inside the folder.
    """
    check_not_read(out, read)
    state = state_of(out)
    check_is_folder(state)
    remove_leftovers(state)
    begun, (other, replaces) = is_begun(state), _mark_of(state)
    if begun and other != kind.name:
        raise InputError(
            f"{state} holds the interrupted run of {other}, not of {kind.name}. Name another "
            "folder."
            if other
            else f"{state}, where this run would keep its state, holds something else. Name "
            "another folder."
        )
    is_resumed = begun and policy is ResumePolicy.RESUME
    overwrite = policy is ResumePolicy.OVERWRITE or (is_resumed and replaces)
    advice = "--overwrite instead of --resume" if is_resumed else "--overwrite"
    check_not_taken(out, overwrite, advice, kind)
    if begun:
        check_no_earlier_run(state, "an interrupted run", policy)
    if policy is ResumePolicy.OVERWRITE and state.exists():
        hold(state)  # before anything of another process is deleted
        remove_state(state)
    make_folder(state)
    hold(state)
    mark(state, f"{kind.name}\n{REPLACES}" if overwrite else kind.name)


def may_replace(out: Path) -> bool:
    """Whether a run may replace a model in its folder: the run was started to overwrite."""
    _, replaces = _mark_of(state_of(out))
    return replaces


def forget_run(out: Path, kind: Kind) -> None:
    """Remove the state of the run that made a folder's model, if it is a run of this kind."""
    if _mark_of(state_of(out))[0] == kind.name:
        remove_state(state_of(out))


def _mark_of(state: Path) -> tuple[str, bool]:
    """The kind of model that an unfinished run makes, by name, and whether it may replace one."""
    name, _, more = (marked(state) or "").partition("\n")
    return name, more == REPLACES
