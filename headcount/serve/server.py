"""The server: uvicorn on a bound socket, stopped by signals within 5 seconds."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from headcount.serve.address import Address
from headcount.serve.application import make_application
from headcount.serve.connection import MAX_ACCEPTED, Connection
from headcount.serve.live_model import LiveModel

GRACE = 3
"""Seconds that answers on their way get after a signal."""


def run_server(live: LiveModel, address: Address) -> None:
    """Answer until a signal comes: SIGINT, SIGTERM or SIGHUP.

    Raises:
        KeyboardInterrupt: after a signal. A question that the model still works at after `GRACE`
            seconds is abandoned, but its thread can't be ended.
    """
    server = make_server(live, address)
    with _hanging_up(server):
        server.run(sockets=[address.socket])


def make_server(live: LiveModel, address: Address) -> uvicorn.Server:
    """A server that is not running yet."""
    config = uvicorn.Config(
        make_application(live, address.token, address.hosts),
        http=Connection,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        backlog=MAX_ACCEPTED,
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)


@contextmanager
def _hanging_up(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGHUP, which uvicorn leaves alone, stop the server as SIGTERM does."""
    number = getattr(signal, "SIGHUP", None)  # Windows lacks it
    if number is None or signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    came: list[int] = []

    def stop(number: int, _: object) -> None:
        came.append(number)
        server.should_exit = True

    before = signal.signal(number, stop)
    try:
        yield
    finally:
        signal.signal(number, before)
    if came:
        signal.raise_signal(number)
