"""The address of a server: a socket, bound before anything slow, and the token of its page."""

import secrets
import socket
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import final

from headcount.core import InputError

HOST, PORT = "127.0.0.1", 8765


@final
@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    socket: socket.socket
    host: str
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The text that requests must hold; None for none."""

    @property
    def port(self) -> int:
        """The port, also if the system chose it."""
        return self.socket.getsockname()[1]

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        host = "127.0.0.1" if is_open(self.host) else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")


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


def is_open(host: str) -> bool:
    """Whether a server listens on all addresses of the machine."""
    return is_address(host) and ip_address(host).is_unspecified


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
