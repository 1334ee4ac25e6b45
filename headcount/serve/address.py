"""The address of a server: a socket, bound before anything slow, and the token of its page.

The guard: requests that other web pages send through the browser end here.

A page of another server can send a request to this one, by its own name (DNS rebinding) or by this
server's, blindly. Its Host header names the other server in the first case. In the second, a script
may not set a header of its own without asking this server, which allows it to none.
"""

import re
import secrets
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, final

from headcount.core import InputError, visible

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST, PORT = "127.0.0.1", 8765

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine."""

_OUTSIDE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""An address outside of every network (RFC 5737, RFC 3849), by the kind of address."""


@final
@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    socket: socket.socket
    host: str
    """The host as the user named it, such as localhost or 0."""
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The text that requests must hold; None for none."""

    @property
    def port(self) -> int:
        """The port, also if the system chose it."""
        return self.socket.getsockname()[1]

    @property
    def ip(self) -> str:
        """The IP address that the host stands for."""
        return self.socket.getsockname()[0]

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can reach the server."""
        return _parsed(self.ip).is_loopback

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that requests may name."""
        return LOCAL | {self.host.lower(), self.ip}

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses to open, with the token."""
        query = f"?token={self.token}" if self.token else ""
        hosts = tuple(self._reachable()) if is_everywhere(self.ip) else (self.host,)
        return tuple(
            f"http://{f'[{host}]' if ':' in host else host}:{self.port}/{query}" for host in hosts
        )

    def _reachable(self) -> Iterator[str]:
        """Addresses of this machine: for its own programs, and for other machines."""
        is_v4 = isinstance(_parsed(self.ip), IPv4Address)
        yield "127.0.0.1" if is_v4 else "::1"
        family = socket.AF_INET if is_v4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((_OUTSIDE[family], 9))  # chooses a route, and sends nothing
                yield probe.getsockname()[0]
            except OSError:  # this machine has no network
                return


def bind(host: str = HOST, port: int = PORT, has_token: bool = True) -> Address:
    """Reserve an address.

    Args:
        host: address of this machine to listen on; 0.0.0.0 for all, which others can reach.
        port: port to listen on; 0 for any free one.
        has_token: whether requests need a random token.

    Raises:
        InputError: if the address is not of this machine, or the port is in use.
    """
    if not 0 <= port < 2**16:
        raise InputError(f"Expected a port between 0 and 65535, got {port}. 0 takes a free one.")
    bound = None
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(128)
    except (OSError, UnicodeError) as error:
        if bound is not None:
            bound.close()
        raise InputError(
            f"Expected a free port and an address of this machine, but {host} port {port} can't be "
            f"used ({getattr(error, 'strerror', None) or error}). Give another --port (0 takes a "
            "free one), or another --host."
        ) from error
    return Address(bound, host) if has_token else Address(bound, host, None)


def is_everywhere(host: str) -> bool:
    """Whether a host stands for all addresses of the machine.

    >>> is_everywhere("0.0.0.0"), is_everywhere("::"), is_everywhere("127.0.0.1")
    (True, True, False)
    """
    return is_address(host) and _parsed(host).is_unspecified


def is_address(name: str) -> bool:
    """Whether a host is named by its IP address.

    >>> is_address("192.168.0.7"), is_address("example.org")
    (True, False)
    """
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _parsed(ip: str) -> IPv4Address | IPv6Address:
    """An IP address; one of version 4 that is written as one of version 6 is one of version 4."""
    found = ip_address(ip)
    return getattr(found, "ipv4_mapped", None) or found


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

    def __init__(self, app: "ASGIApp", hosts: Collection[str]) -> None:
        """Guard an application.

        Args:
            app: the application.
            hosts: the names that requests may use. 0.0.0.0 or :: allows every IP address.
        """
        self._app, self._hosts = app, hosts
        self._is_everywhere = any(map(is_everywhere, hosts))

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request, or let the application do so."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(given) == 1 and self._is_own(given[0]):
            return await self._app(scope, receive, send)
        got = f"the host {visible(given[0][:80])!r}" if given else "no Host header"
        sentence = f"Expected the address that headcount serve printed, got {got}. Open that one."
        from starlette.responses import PlainTextResponse  # a port is refused without

        await PlainTextResponse(sentence, 421, HEADERS)(scope, receive, send)

    def _is_own(self, header: str) -> bool:
        """Whether a Host header, read as it came, names this server."""
        if (found := _HOST.fullmatch(header)) is None:
            return False
        name = (found["v6"] or found["name"]).lower()
        return name in self._hosts or (self._is_everywhere and is_address(name))
