"""The application: one page, and one address that answers its questions.

Requests need the token, which the page has from its own address, and a Host header that names this
server, so that other web pages can't ask through the browser. One question is answered at a time.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, final

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from headcount.core import InputError, reason, shortened
from headcount.serve.address import LOCAL
from headcount.serve.asking import MAX_BODY, Question, parse_question
from headcount.serve.guard import HEADERS, OWN_HEADER, HostGuard
from headcount.serve.live_model import LiveModel
from headcount.serve.page import render_live

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
    application.router.redirect_slashes = False  # /look/ is told where to ask, as any other path
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
        body = await _body(request)
        if body is None:
            return _error(f"Expected a request of at most {MAX_BODY:,} bytes, got more.", 413)
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


async def _body(request: Request) -> bytes | None:
    """The body; None if it is too large, of which no more is read."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            return None
    return found
