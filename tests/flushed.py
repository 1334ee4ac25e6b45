"""What a block flushes to the disk and moves, in order, as the system sees it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def flushed() -> Iterator[list[tuple[str, str]]]:
    """`("flush", NAME)` for each file or folder that is flushed, `("move", NAME)` for new names.

    The number of the process in temporary names is left out.
    """
    seen, sync, move = list[tuple[str, str]](), os.fsync, os.replace

    def name(path: Path) -> str:
        return path.name.replace(f".{os.getpid()}.", ".")

    def syncs(opened: int) -> None:
        seen.append(("flush", name(Path(os.readlink(f"/proc/self/fd/{opened}")))))
        sync(opened)

    def moves(source: Path, target: Path) -> None:
        seen.append(("move", name(target)))
        move(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", syncs)
        patch.setattr(os, "replace", moves)
        yield seen
