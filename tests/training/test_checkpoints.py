"""Checkpoints: only complete ones count; a full disk."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headcount.core import InputError
from headcount.training.checkpoints import (
    check_resumable,
    check_whole,
    remove_broken,
    remove_early,
    saving,
    strip,
    whole_checkpoints,
)
from tests.flushed import flushed


def _checkpoint(folder: Path, step: int, value: float, whole: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    weights = {"a": torch.full((2, 3), value), "b": torch.tensor([value], dtype=torch.float16)}
    save_file(weights, path / "model.safetensors")
    if whole:
        (path / "whole").write_text("1\n")
    return path


def test_whole_ones_in_order(tmp_path: Path) -> None:
    late, early = _checkpoint(tmp_path, 1000, 1), _checkpoint(tmp_path, 900, 1)
    broken = _checkpoint(tmp_path, 1100, 1, whole=False)
    (tmp_path / "checkpoint-old").mkdir()
    assert whole_checkpoints(tmp_path) == [early, late]
    remove_broken(tmp_path)
    assert not broken.exists() and early.exists() and (tmp_path / "checkpoint-old").exists()
    assert whole_checkpoints(tmp_path / "none") == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"),
    ],
)
def test_full_disk(tmp_path: Path, error: Exception) -> None:
    before = _checkpoint(tmp_path, 1, 1)
    with pytest.raises(
        InputError, match="checkpoint-2 could not be saved .* Make room on the disk"
    ):
        with saving(tmp_path / "checkpoint-2"):
            _checkpoint(tmp_path, 2, 1, whole=False)
            raise error
    assert whole_checkpoints(tmp_path) == [before] and not (tmp_path / "checkpoint-2").exists()


def test_other_processes(tmp_path: Path) -> None:
    """Only the first process marks a checkpoint and removes the remains of an old one."""
    with saving(_checkpoint(tmp_path, 1, 1, whole=False), is_main=False):
        pass
    with pytest.raises(InputError), saving(tmp_path / "checkpoint-1", is_main=False):
        raise OSError(28, "No space left on device")
    assert (tmp_path / "checkpoint-1").exists() and not whole_checkpoints(tmp_path)


def test_early_ones_are_removed(tmp_path: Path) -> None:
    """Ordered by step, whenever written; the best one and half-written ones are kept."""
    for step in (100, 90, 80, 70, 60):
        _checkpoint(tmp_path, step, 1)
    _checkpoint(tmp_path, 110, 1, whole=False)
    remove_early(tmp_path, 2, best=70)
    kept = sorted(int(path.name.split("-")[1]) for path in tmp_path.iterdir())
    assert kept == [70, 90, 100, 110]
    remove_early(tmp_path, 2, best=None)
    assert [path.name for path in whole_checkpoints(tmp_path)] == [
        "checkpoint-90",
        "checkpoint-100",
    ]


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes"), saving(tmp_path):
        raise RuntimeError("shapes do not fit")
    assert not (tmp_path / "whole").exists()


def _saved(folder: Path) -> Path:
    path = _checkpoint(folder, 7, 1, whole=False)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (path / name).write_bytes(name.encode())
    with saving(path):
        pass
    return path


def test_a_saved_checkpoint_is_whole(tmp_path: Path):
    path = _saved(tmp_path)
    check_whole(path)
    check_resumable(path)
    strip(tmp_path)  # what only resuming needs
    check_whole(path)
    with pytest.raises(InputError, match=r"Expected optimizer\* in .*checkpoint-7"):
        check_resumable(path)


@pytest.mark.parametrize("name", ["optimizer.pt", "model.safetensors", "rng_state.pth"])
def test_a_missing_or_changed_file_is_refused(tmp_path: Path, name: str):
    path = _saved(tmp_path)
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"Expected .*{name} as it was saved"):
        check_whole(path)
    (path / name).unlink()
    with pytest.raises(InputError, match=f"Expected .*{name} as it was saved"):
        check_whole(path)


@pytest.mark.parametrize("text", ["", "[]", "2", '{"../x": ""}', '{"x": 7}', "\udcff"])
def test_a_damaged_mark_is_refused(tmp_path: Path, text: str):
    path = _saved(tmp_path)
    (path / "whole").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match="Expected"):
        check_whole(path)


def test_a_checkpoint_is_on_disk_before_it_is_marked(tmp_path: Path) -> None:
    with flushed() as seen, saving(tmp_path / "checkpoint-1"):
        (tmp_path / "checkpoint-1").mkdir()
        (tmp_path / "checkpoint-1" / "optimizer.pt").write_text("1")
    first = seen.index(("move", "whole"))
    names = ("optimizer.pt", "checkpoint-1", tmp_path.name)
    assert {("flush", name) for name in names} <= set(seen[:first])
