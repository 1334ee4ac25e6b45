"""Files that are too large for the disk are refused."""

from pathlib import Path

import pytest

from headcount.core import Float16File, InputError, check_disk
from tests.flushed import flushed


def test_a_disk_too_small_is_refused(tmp_path: Path) -> None:
    says = r"Expected 9,000,000\.00 GB of free disk for features in .*, got .* GB\. Free some\."
    with pytest.raises(InputError, match=says):
        check_disk(tmp_path, 9 * 10**15, "features", "Free some.")
    check_disk(tmp_path, 9, "features", "Free some.")


def test_a_memory_map_keeps_its_numbers_unless_its_size_changes(tmp_path: Path) -> None:
    with flushed() as seen:
        opened(tmp_path / "map", 7).numbers[:] = 3
    assert seen == [("flush", "map"), ("flush", tmp_path.name)]
    assert opened(tmp_path / "map", 7).numbers.tolist() == [3] * 7
    assert opened(tmp_path / "map", 5).numbers.tolist() == [0] * 5


def opened(path: Path, size: int) -> Float16File:
    found = Float16File(path, size)
    assert found.num_bytes == 2 * size
    found.open()
    return found
