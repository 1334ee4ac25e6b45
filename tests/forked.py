"""Python processes for tests that kill one or need several, forked from one that has imported all.

Importing torch, transformers and this package takes seconds. Each test session starts one server
that has only imported them, so that a fork of it behaves like a fresh `python -m MODULE ARGUMENTS`.
"""

import ctypes
import multiprocessing
import os
import resource
import runpy
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait

from tests import surroundings
from tests.hosts import INTERFACE, address

_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    [
        "headcount.analysis.analysis",
        "headcount.artifact.making",
        "headcount.commands.command_line",
        "headcount.pruning.pipeline",
        "headcount.pages.html",
        "headcount.papers.pretraining.pretraining",
        "transformers.trainer",
    ]
)


class Forked:
    """A running `python -m MODULE ARGUMENTS`, with the methods of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        file_size: int | None = None,
        open_files: int | None = None,
        addresses: int | None = None,
        host: str = "",
    ) -> None:
        """Start the process in the tests' surroundings.

        Args:
            module: Module that is run as `__main__`; or `-c`, which takes code first.
            arguments: Arguments of the module.
            environment: Variables beside those of this process.
            file_size: Largest size in bytes of a file that it writes.
            open_files: Largest number of files and connections that it has open.
            addresses: Largest number of bytes that it has in its memory, as `ulimit -v` sets it.
            host: The network namespace that it is in; that of the tests by default.
        """
        pipes = [_FORKSERVER.Pipe(duplex=False) for _ in range(2)]
        self._ends = [end for end, _ in pipes]
        variables = os.environ | (environment or {})
        words = [module, *map(str, arguments)]
        limits = {resource.RLIMIT_FSIZE: file_size, resource.RLIMIT_NOFILE: open_files}
        limits |= {resource.RLIMIT_AS: addresses}
        self._process = _FORKSERVER.Process(
            target=_run, args=(words, variables, [end for _, end in pipes], limits, host)
        )
        self._process.start()
        for _, end in pipes:
            end.close()

    @property
    def returncode(self) -> int | None:
        """The exit status, or minus the signal that ended the process; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, like the kill command."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def until(self, words: str, timeout: float = 60) -> str:
        """Read what is written to stdout until some words come; return it."""
        text, end = bytearray(), self._ends[0]
        while words.encode() not in text:
            assert wait([end], timeout), f"Expected {words} in {timeout} seconds, got {text}."
            found = os.read(end.fileno(), 1 << 16)
            assert found, f"Expected {words}, got the end after {text}: {self.communicate()}."
            text += found
        return text.decode()

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Wait for the end; return everything written to stdout and stderr."""
        texts: dict[Connection, bytearray] = {end: bytearray() for end in self._ends}
        open_ends = list(self._ends)
        while open_ends:
            ready = wait(open_ends, timeout)
            assert ready, f"Expected an end within {timeout} seconds, got {texts.values()}."
            for end in ready:
                assert isinstance(end, Connection)
                if found := os.read(end.fileno(), 1 << 16):
                    texts[end] += found
                else:
                    open_ends.remove(end)
        self._process.join(timeout)
        assert self.returncode is not None, f"Expected an end within {timeout} seconds."
        output, errors = (text.decode() for text in texts.values())
        return output, errors


def ranks(
    module: str,
    *arguments: object,
    last: Sequence[object] = (),
    number: int = 2,
    hosts: Sequence[str] = (),
) -> list[Forked]:
    """Processes that find each other through the variables that torchrun sets.

    Args:
        module: Module that is run.
        arguments: Arguments of all.
        last: A last argument for each, as hosts have that do not share a disk.
        number: Number of processes.
        hosts: The host of each, by `two_hosts`; all on this machine by default.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "MASTER_ADDR": address(0) if hosts else "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(number),
        "LOCAL_WORLD_SIZE": str(1 if hosts else number),
    }
    if hosts:
        shared["GLOO_SOCKET_IFNAME"] = INTERFACE
    return [
        Forked(
            module,
            *arguments,
            *last[rank : rank + 1],
            environment=shared | {"RANK": str(rank), "LOCAL_RANK": str(0 if hosts else rank)},
            host=hosts[rank] if hosts else "",
        )
        for rank in range(number)
    ]


def _run(
    words: Sequence[str],
    environment: Mapping[str, str],
    ends: Sequence[Connection],
    limits: Mapping[int, int | None],
    host: str,
) -> None:
    os.environ.update(environment)
    if host:
        with open(f"/run/netns/{host}") as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0, f"can't enter {host}"
    for number, end in enumerate(ends, start=1):
        os.dup2(end.fileno(), number)
        end.close()
    for kind, most in limits.items():
        if most is not None:
            resource.setrlimit(kind, (most, most))
    import torch

    torch.set_num_threads(surroundings.THREADS)
    sys.argv = list(words)
    if words[0] == "-c":
        sys.argv.pop(1)
        exec(compile(words[1], "-c", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
