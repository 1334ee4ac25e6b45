"""Folders of results: what an earlier run left is resumed or replaced, never mixed."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import rmtree
from typing import final

from headcount.core.errors import InputError
from headcount.core.files import (
    check_no_links,
    entries,
    is_leftover,
    reading,
    remove_leftovers,
    write_text,
)
from headcount.core.locking import hold

MARK = "kind.txt"
"""File in a state folder that names its kind of run: several commands use such a folder."""


@final
class ResumePolicy(Enum):
    """What a run does with an earlier run in its folder."""

    REFUSE = "refuse"
    """Raise an error."""
    RESUME = "resume"
    """Resume it; start if there is none."""
    OVERWRITE = "overwrite"
    """Replace it."""

    @classmethod
    def of(cls, resume: bool, overwrite: bool) -> "ResumePolicy":
        """The policy of the options `--resume` and `--overwrite`.

        Raises:
            InputError: for both.
        """
        if resume and overwrite:
            raise InputError(
                "Expected one of --resume and --overwrite, got both. Give --resume to resume the "
                "earlier run, or --overwrite to replace it."
            )
        return cls.RESUME if resume else cls.OVERWRITE if overwrite else cls.REFUSE


def check_is_folder(folder: Path) -> None:
    """Check that a folder for results is not a file, and has a path to which files are added.

    Raises:
        InputError: if it is a file, a link that leads nowhere, or holds links to other places.
    """
    check_no_links(folder)
    if folder.is_symlink() and not folder.exists():
        raise InputError(
            f"Expected a folder for the results, but {folder} is a link that leads nowhere. Name "
            "another folder."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"Expected a folder for the results, got the file {folder}. Name another folder."
        )


def check_no_earlier_run(
    folder: Path, what: str, policy: ResumePolicy, resumes: bool = True
) -> None:
    """Check that using a folder with results of an earlier run is intended.

    Args:
        folder: the folder.
        what: what it holds, e.g. "an earlier run".
        policy: what to do with it.
        resumes: whether the command can resume.

    Raises:
        InputError: if it may be neither resumed nor replaced.
    """
    if policy is ResumePolicy.REFUSE:
        resume = "--resume to resume it, " if resumes else ""
        raise InputError(
            f"Expected a new folder, but {folder} holds {what}. Give {resume}"
            "--overwrite to replace it, or name another folder."
        )


def mark(state: Path, kind: str) -> None:
    """Record in a state folder which kind of run it belongs to; creates the folder."""
    write_text(state / MARK, kind)


def marked(state: Path) -> str | None:
    """The kind of run that a state folder belongs to; None if unmarked."""
    path = state / MARK
    with reading(path, "the kind of a run", f"Remove {state}, or name another folder."):
        return path.read_text(encoding="utf-8") if path.exists() else None


def remove_state(state: Path) -> None:
    """Remove a state folder, its mark last, so that a half-removed folder remains ours."""
    # Another process of this run may be first
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in state.iterdir():
            if path.is_dir():
                rmtree(path, ignore_errors=True)
            elif path.name != MARK:
                path.unlink(missing_ok=True)
    rmtree(state, ignore_errors=True)


def is_begun(state: Path) -> bool:
    """Whether there is anything to resume: a refused run leaves only its mark."""
    return state.is_dir() and any(path.name != MARK for path in entries(state))


def claim(
    out: Path, results: Sequence[str], state: Path, policy: ResumePolicy, resumes: bool = True
) -> None:
    """Check that a run may write into a folder; nothing is deleted.

    Args:
        out: the folder of the results.
        results: names of files that only an earlier run leaves there.
        state: folder of intermediate state; it is created, with a note of the run it belongs to.
        policy: what to do with an earlier run.
        resumes: whether the command can resume.

    Raises:
        InputError: if the folder holds an earlier run that is neither resumed nor overwritten, or
            something else.
    """
    check_is_folder(out)
    remove_leftovers(out, set(results).__contains__)
    remove_leftovers(state)
    present = {path.name for path in entries(out)}
    kind = "".join(f"{name}\n" for name in results)
    if not is_begun(state):
        present -= {state.name}
    noted = {*(marked(state) or "").split()}  # earlier versions named them in another order
    is_same_kind = bool(noted) and noted <= {*results}  # earlier versions left fewer
    is_ours = is_same_kind and present <= {state.name, "figures"}
    ours = is_ours or not present.isdisjoint(results)
    if present and not ours:
        raise InputError(
            f"Expected a new folder, or one with an earlier run, got {out}, which holds other "
            "files. Name another folder."
        )
    if present:
        check_no_earlier_run(out, "an earlier run", policy, resumes)
    if policy is ResumePolicy.OVERWRITE and is_begun(state) and not is_same_kind:
        raise InputError(
            f"{state} holds files that this run did not write, which --overwrite would delete. "
            "Move them, or name another folder."
        )
    if not is_begun(state):
        mark(state, kind)
    if out.exists():  # the state may lie beside it
        hold(out)


def start_over(state: Path) -> None:
    """Delete what an earlier run would resume from, and keep the mark of its kind.

    Call this after reading model and corpus, so that a typo in their names costs nothing.
    """
    kind = marked(state)
    remove_state(state)
    mark(state, kind or "")


MODEL_FILES = (
    *("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "vocab*.json", "vocab.txt", "merges.txt", "*.spm", "*.model"),
)
"""Patterns of the files that transformers writes for a model and its tokenizer."""


def check_only_ours(folder: Path, ours: Iterable[str]) -> None:
    """Check that a folder that will be replaced entirely holds only what we wrote.

    Args:
        folder: the folder.
        ours: patterns of paths in it; `name/*` is everything in a folder.

    Raises:
        InputError: if it holds anything else; names it.
    """
    patterns = tuple(ours)

    def is_ours(name: str, pattern: str) -> bool:
        depth = name.count("/") == pattern.count("/") or pattern.endswith("/*")
        return depth and fnmatchcase(name, pattern)

    found = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    names = [path.relative_to(folder).as_posix() for path in found if not is_leftover(path)]
    foreign = [name for name in names if not any(is_ours(name, each) for each in patterns)]
    if foreign:
        raise InputError(
            f"{folder} holds files that headcount did not write ({', '.join(foreign[:3])}), which "
            "--overwrite would delete. Move them, or name another folder."
        )
