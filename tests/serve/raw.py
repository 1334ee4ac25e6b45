"""Requests as bytes, which no client library would send."""

import json
import socket
from typing import Any

Answer = tuple[int, dict[str, Any]]


def connect(port: int, sent: bytes = b"", timeout: float = 10) -> socket.socket:
    """A connection over which some bytes have been sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    connection.sendall(sent)
    return connection


def request(
    body: bytes,
    *headers: str,
    host: str | None = "127.0.0.1",
    length: int | None = None,
    line: str = "POST /look HTTP/1.1",
) -> bytes:
    """The bytes of a request; `length` is larger than the body in one that is half sent."""
    lines = [
        line,
        *([] if host is None else [f"Host: {host}"]),
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def response(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of the next response."""
    with connection, connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers = dict(line.lower().split(b": ") for line in iter(file.readline, b"\r\n"))
        length = headers.get(b"content-length")
        return status, file.read() if length is None else file.read(int(length))


def ask(port: int, token: str | None, **question: Any) -> Answer:
    """Ask in one piece, as the page does: status and answer."""
    own = "X-Headcount: 1" if token is None else f"Authorization: Bearer {token}"
    sent = request(json.dumps(question).encode(), own)
    status, body = response(connect(port, sent))
    return status, json.loads(body)
