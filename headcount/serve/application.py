"""The application: one page, and one address that answers its questions.

Requests need the token, which the page has from its own address, and a Host header that names this
server, so that other web pages can't ask through the browser. One question is answered at a time.
"""

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import final

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from headcount.core import InputError
from headcount.serve.address import is_address, is_open
from headcount.serve.asking import MAX_BODY, parse_question
from headcount.serve.live_model import LiveModel
from headcount.serve.page import render_live

MAX_WAITING = 8
"""Largest number of questions that wait; more are refused."""

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def make_application(
    live: LiveModel, token: str | None = None, host: str = "127.0.0.1"
) -> Starlette:
    """The application of one model.

    Args:
        live: the model to ask.
        token: the text that every request must hold; None for none.
        host: the address that the server listens on, whose Host headers are accepted.
    """
    page = render_live(live)
    server = _Server(live, token)

    async def root(request: Request) -> Response:
        if not server.may_ask(request.query_params.get("token")):
            return PlainTextResponse(_NO_TOKEN, 403, HEADERS)
        return HTMLResponse(page, headers=HEADERS)

    return Starlette(
        routes=[Route("/", root), Route("/look", server.look, methods=["POST"])],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=partial(_check_host, host))],
    )


_NO_TOKEN = (
    "Expected the address with the token that headcount serve printed, got another. Open that "
    "address."
)


@final
class _Server:
    """Answers questions, one at a time."""

    def __init__(self, live: LiveModel, token: str | None) -> None:
        self._live, self._token, self._num_waiting = live, token, 0
        self._one = CapacityLimiter(1)

    def may_ask(self, given: str | None) -> bool:
        """Whether a request holds the token."""
        if self._token is None:
            return True
        return secrets.compare_digest((given or "").encode(), self._token.encode())

    async def look(self, request: Request) -> Response:
        """Answer a question."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.may_ask(given):
            return _error(_NO_TOKEN, 403)
        body = await _body(request)
        if body is None:
            return _error(f"Expected a request of at most {MAX_BODY:,} bytes, got more.", 413)
        if self._num_waiting >= MAX_WAITING:
            return _error(
                f"Expected at most {MAX_WAITING} questions at a time, got more. Ask again soon.",
                503,
            )
        self._num_waiting += 1
        try:
            question = parse_question(body, self._live.loaded.heads)
            answer = partial(self._live.answer, question)
            found = await to_thread.run_sync(answer, limiter=self._one)
        except InputError as error:
            return _error(str(error), 400)
        finally:
            self._num_waiting -= 1
        return JSONResponse(found, headers=HEADERS)


def _error(sentence: str, status: int) -> Response:
    return JSONResponse({"error": sentence}, status, HEADERS)


async def _body(request: Request) -> bytes | None:
    """The body; None if it is too large, of which no more is read."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            return None
    return found


async def _check_host(
    host: str, request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Refuse requests whose Host header names another server, as rebinding attacks send them."""
    name = request.url.hostname or ""
    if name in LOCAL or name == host or (is_open(host) and is_address(name)):
        return await call_next(request)
    return PlainTextResponse(
        f"Expected the address that headcount serve printed, got the host {name!r}.", 421, HEADERS
    )
