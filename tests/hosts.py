"""Two hosts in place of a cluster: network namespaces that are joined by a pair of interfaces."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

INTERFACE = "eth0"
"""Name of the interface that joins a host to the other one."""


@contextmanager
def two_hosts() -> Iterator[list[str]]:
    """The names of two hosts with the addresses `address(0)` and `address(1)`, while inside.

    The test is skipped, with the reason, where namespaces are not allowed.
    """
    names = [f"headcount-{os.getpid()}-{number}" for number in range(2)]
    try:
        for name in names:
            _ip("netns", "add", name)
        one, other = ((INTERFACE, "netns", name) for name in names)
        _ip("link", "add", *one, "type", "veth", "peer", "name", *other)
        for number, name in enumerate(names):
            _ip("-n", name, "addr", "add", f"{address(number)}/24", "dev", INTERFACE)
            for each in (INTERFACE, "lo"):
                _ip("-n", name, "link", "set", each, "up")
        yield names
    finally:
        for name in names:  # the interfaces are removed with them
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def address(number: int) -> str:
    """The address of a host."""
    return f"10.201.0.{number + 1}"


def _ip(*words: str) -> None:
    try:
        subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("no network namespaces: there is no command ip (iproute2)")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces: {error.stderr.strip()}")
