"""The server: uvicorn on a bound socket, stopped by signals within 5 seconds."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headcount.serve.address import Address
from headcount.serve.application import make_application
from headcount.serve.live_model import LiveModel

MAX_CONNECTIONS = 32
"""Largest number of connections: five browsers' worth, in a quarter of 128 file handles."""
MAX_ACCEPTED = 8
"""Largest number of connections accepted before the first of them is counted."""
SECONDS = 10.0
"""Seconds from the connection, or from its last answer, to the last byte of a request."""


@final
class Connection(H11Protocol):
    """A connection that ends if its request is late, or if a newer connection needs its place.

    uvicorn counts requests, not connections: one that never asks would stay, and hold a file
    handle.
    """

    _since: float
    """When it was made or answered last, by the loop's clock."""
    _timer: asyncio.TimerHandle
    _has_ended = False

    @property
    def is_answering(self) -> bool:
        """Whether a whole request has come, and its answer has not gone yet."""
        return self._is_asking and not self.cycle.more_body

    @property
    def _is_asking(self) -> bool:
        """Whether there is a request, perhaps half of it, that has no answer yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Begin, and end the connection that has waited longest if there are too many."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(SECONDS, self._check)
        kept = [each for each in self.connections if isinstance(each, Connection)]
        kept = [each for each in kept if not each._has_ended]
        waiting = [each for each in kept if not each.is_answering]
        if len(kept) > MAX_CONNECTIONS and waiting:
            min(waiting, key=lambda each: each._since)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the limit."""
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """End at once unless an answer is being made: half a request is not waited for."""
        if self._is_asking and not self.is_answering:
            self._end()
        else:
            super().shutdown()

    def _check(self) -> None:
        """End if the request is late, or check again when it would be."""
        left = SECONDS if self.is_answering else self._since + SECONDS - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._check)
        else:
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self.transport.abort()  # close() would wait for a client that does not read


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
