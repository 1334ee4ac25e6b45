"""How much memory is free: of the machine, its containers, and the limit of the process."""

import os
import platform
from pathlib import Path

import pytest

from headcount.core import free_memory, release_memory
from tests.forked import Forked

GB = 10**9


def machine(root: Path, groups: str, available: int = 8 * GB) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    (root / "proc/meminfo").write_text(
        f"MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable:   {available // 1024} kB\n"
    )
    return root


def group(root: Path, place: str, limit: object, used: int, cached: int, version: int = 2) -> None:
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    folder = root / "sys/fs/cgroup" / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_anon 5\n{names[2]} {cached}\nslab 2\n")


def test_of_a_machine(tmp_path: Path):
    assert free_memory(machine(tmp_path, "0::/\n")) == 8 * GB // 1024 * 1024
    assert free_memory(tmp_path / "none") is None


def test_a_container_leaves_its_limit_less_what_is_used_and_not_only_cached(tmp_path: Path):
    root = machine(tmp_path, "0::/job.slice/step\n")
    group(root, "job.slice/step", "max", GB, 0)
    group(root, "job.slice", 4 * GB, 3 * GB, GB // 2)
    assert free_memory(root) == 3 * GB // 2
    group(root, "job.slice/step", 3 * GB, 2 * GB, 0)  # the tightest counts
    assert free_memory(root) == GB
    group(root, "job.slice/step", 3 * GB, 4 * GB, 0)
    assert free_memory(root) == 0


def test_a_container_that_sees_itself_as_the_root(tmp_path: Path):
    root = machine(tmp_path, "0::/\n")
    group(root, "", 2 * GB, GB, 0)
    assert free_memory(root) == GB


def test_a_container_of_version_1(tmp_path: Path):
    root = machine(tmp_path, "5:cpu:/other\n4:memory,hugetlb:/docker/12\n")
    group(root, "memory/docker/12", 5 * GB, 3 * GB, GB, version=1)
    group(root, "memory", 2**63 - 4096, 7 * GB, 0, version=1)  # no limit
    assert free_memory(root) == 3 * GB


@pytest.mark.slow
def test_of_a_process_with_a_limit():
    code = "from headcount.core import free_memory; print(free_memory())"
    limited, _ = Forked("-c", code, addresses=16 * GB).communicate()
    assert 0 < int(limited) < 16 * GB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is asked")
def test_memory_of_what_is_gone_is_given_back() -> None:
    held = [bytearray(100_000) for _ in range(1_000)]
    last = bytearray(
        100_000
    )  # behind them: the allocator gives back by itself what lies at the end
    del held
    before = resident()
    release_memory()
    assert before - resident() > 50_000_000
    assert len(last) == 100_000


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
