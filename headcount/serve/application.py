"""The application: one page, one address that answers its questions, and the server of both.

Requests need the token, which the page has from its own address, and a Host header that names this
server, so that other web pages can't ask through the browser. One question is answered at a time.
The server is uvicorn on a bound socket, stopped by signals within 5 seconds.
"""

import asyncio
import secrets
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from headcount.core import SITES, InputError, amount, reason, shortened
from headcount.explanation import MASK
from headcount.measures import MAX_CHARACTERS
from headcount.pages import (
    LOOKING_SCRIPTS,
    LOOKING_STYLES,
    PICTURE_SCRIPTS,
    fill_template,
    short_name,
)
from headcount.serve.address import HEADERS, LOCAL, OWN_HEADER, Address, HostGuard
from headcount.serve.live_model import MAX_GATE, LiveModel, Question, parse_question
from headcount.serve.predicting import Kind

SECOND_LABELS: dict[Kind | None, str] = {
    "translation": "Target (empty: the model's own translation)",
    "similarity": "Second sentence, to compare with",
    "classification": "Second sentence of a pair (may stay empty)",
}
"""Label of the second field, for the kinds that have one."""

EXAMPLES: dict[Kind | None, tuple[str, str]] = {
    "similarity": ("The old dog barked at the moon.", "A hound was howling in the night."),
    "masked-lm": (f"The old dog barked at the {MASK}.", ""),
    "causal-lm": ("The old dog barked at the", ""),
}
"""Texts to begin with."""

HINTS: dict[Kind | None, str] = {
    "similarity": "Give a second sentence to compare with. Maps are those of the first sentence.",
    "masked-lm": f"Write {MASK} in place of a word to see what the model puts there.",
    None: "The model has no head whose predictions could be shown.",
}
"""What to do if nothing is predicted."""


def render_live(live: LiveModel) -> str:
    """The page as a string."""
    text, second = EXAMPLES.get(live.kind, ("The old dog barked at the moon.", ""))
    counts = live.loaded.heads.counts
    return fill_template(
        "live.html.j2",
        package="headcount.serve",
        styles=(*LOOKING_STYLES, "live.css"),
        scripts=(*LOOKING_SCRIPTS, *(PICTURE_SCRIPTS if live.reads_pictures else ()), "live.js"),
        data={
            "kinds": {},
            "findings": live.findings,
            "pruned": live.pruned,
            "sites": {SITES[site]: sum(layers) for site, layers in counts.items()},
            "hint": HINTS.get(live.kind, ""),
            "largest": MAX_GATE,
            "own_header": OWN_HEADER,
            "max_picture": live.max_body // 2,  # in base64, with a text
        },
        title=short_name(live.loaded.name),
        text=text,
        second=second,
        second_label=SECOND_LABELS.get(live.kind),
        num_pruned=None if live.pruned is None else len(live.pruned),
        num_heads=len(live.loaded.heads),
        max_characters=MAX_CHARACTERS,
        reads_pictures=live.reads_pictures,
        largest=MAX_GATE,
        live=True,
    )


ASKED: Mapping[str, Callable[[LiveModel, Question], dict[str, Any]]] = {
    "look": lambda live, question: live.answer(question),
    "effects": lambda live, question: live.effects(question),
}
"""What answers questions, by address."""
MAX_WAITING = 8
"""Largest number of questions that wait, without those of clients that left; more are refused."""


def make_application(
    live: LiveModel, token: str | None = None, hosts: Collection[str] = LOCAL
) -> Starlette:
    """The application of one model.

    Args:
        live: the model to ask.
        token: the text that every request must hold; None for none.
        hosts: the hosts that requests may name; 0.0.0.0 or :: allows every IP address.
    """
    page = render_live(live)
    server = _Server(live, token)

    async def root(request: Request) -> Response:
        if not server.has_token(request.query_params.get("token")):
            return PlainTextResponse(_NO_TOKEN, 403, HEADERS)
        return HTMLResponse(page, headers=HEADERS)

    application = Starlette(
        routes=[
            Route("/", root),
            *(Route(f"/{name}", partial(server.answer, name), methods=["POST"]) for name in ASKED),
        ],
        middleware=[Middleware(HostGuard, hosts=hosts)],
        exception_handlers={
            InputError: _refused,
            HTTPException: _unknown,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
    )
    application.router.redirect_slashes = False  # /look/ gets the answer of any other path
    return application


_NO_TOKEN = (
    "Expected the address with the token that headcount serve printed, got another. Open that "
    "address."
)


@final
class _Server:
    """Answers questions, one at a time."""

    def __init__(self, live: LiveModel, token: str | None) -> None:
        self._live, self._token = live, token
        self._one, self._waiting = CapacityLimiter(1), list[Request]()

    def has_token(self, given: str | None) -> bool:
        """Whether a request holds the token, if there is one."""
        if self._token is None:
            return True
        return secrets.compare_digest((given or "").encode(), self._token.encode())

    async def answer(self, name: str, request: Request) -> Response:
        """Answer a question that came to an address of `ASKED`."""
        if not self.has_token(request.headers.get("authorization", "").removeprefix("Bearer ")):
            return _error(_NO_TOKEN, 403)
        if self._token is None and OWN_HEADER not in request.headers:
            return _error(
                f"Expected the header {OWN_HEADER}, which the page sends, got none. Send it with "
                "any value.",
                403,
            )
        most = self._live.max_body
        body = await _body(request, most)
        if body is None:
            return _error(f"Expected a request of at most {amount(most, 'byte')}, got more.", 413)
        question = parse_question(body, self._live.loaded.heads)
        if sum([not await each.is_disconnected() for each in self._waiting]) >= MAX_WAITING:
            return _error(
                f"Expected at most {MAX_WAITING} questions at a time, got more. Ask again soon.",
                503,
            )
        self._waiting.append(request)
        try:
            async with self._one:
                if await request.is_disconnected():  # it left while it waited
                    return Response()
                answer = partial(ASKED[name], self._live, question)
                found = await to_thread.run_sync(answer, abandon_on_cancel=True)
        except asyncio.CancelledError:  # the server has stopped waiting
            return _error("Expected a running server, but headcount serve was stopped.", 503)
        finally:
            self._waiting.remove(request)
        return JSONResponse(found, headers=HEADERS)


def _error(sentence: str, status: int) -> Response:
    return JSONResponse({"error": shortened(sentence)}, status, HEADERS)


async def _refused(_: Request, error: Exception) -> Response:
    return _error(str(error), 400)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    asked = f"{request.method} {request.url.path}"
    return _error(
        f"Expected GET / or POST /{' or /'.join(ASKED)}, got {asked[:80]}.", error.status_code
    )


async def _gone(*_: object) -> Response:
    """Nothing, to a client that has closed its connection."""
    return Response()


async def _failed(_: Request, error: Exception) -> Response:
    """A sentence for an error that nobody foresaw; uvicorn prints its traceback."""
    return _error(
        f"Expected an answer of the model, but it failed ({reason(error)}). Ask something else; "
        "the terminal of headcount serve shows where it failed.",
        500,
    )


async def _body(request: Request, most: int) -> bytes | None:
    """The body; None if it is too large, of which no more is read."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > most:
            return None
    return found


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
