"""The guard: requests that other web pages send through the browser end here.

A page of another server can send a request to this one, by its own name (DNS rebinding) or by this
server's, blindly. Its Host header names the other server in the first case. In the second, a script
may not set a header of its own without asking this server, which allows it to none.
"""

import re
from collections.abc import Collection
from typing import final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from headcount.core import visible
from headcount.serve.address import is_address, is_everywhere

OWN_HEADER = "X-Headcount"
"""Header of the page's own requests, which scripts of other servers' pages can't set."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer."""

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?", re.I)
"""A Host header: a name or an address, and a port (RFC 9110, section 7.2)."""


@final
class HostGuard:
    """Refuses requests unless their one Host header names this server."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """Guard an application.

        Args:
            app: the application.
            hosts: the names that requests may use. 0.0.0.0 or :: allows every IP address.
        """
        self._app, self._hosts = app, hosts
        self._is_everywhere = any(map(is_everywhere, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do so."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(given) == 1 and self._is_own(given[0]):
            return await self._app(scope, receive, send)
        got = f"the host {visible(given[0][:80])!r}" if given else "no Host header"
        sentence = f"Expected the address that headcount serve printed, got {got}. Open that one."
        await PlainTextResponse(sentence, 421, HEADERS)(scope, receive, send)

    def _is_own(self, header: str) -> bool:
        """Whether a Host header, read as it came, names this server."""
        if (found := _HOST.fullmatch(header)) is None:
            return False
        name = (found["v6"] or found["name"]).lower()
        return name in self._hosts or (self._is_everywhere and is_address(name))
