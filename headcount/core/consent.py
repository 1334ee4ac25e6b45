"""Consent: what takes very long, or loses something, is done only if the user has accepted it.

On the command line that is `--yes`, which every command has, and in Python a block:

>>> with accepting():
...     check_accepted("Expected a token, got --no-token", "Leave --no-token out")
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headcount.core.errors import ConsentError

_ACCEPTS = ContextVar("_ACCEPTS", default=False)


@contextmanager
def accepting(accepts: bool = True) -> Iterator[None]:
    """Go on inside the block where headcount would raise a `ConsentError`.

    Args:
        accepts: Whether to accept; if not, the block changes nothing.
    """
    token = _ACCEPTS.set(accepts or _ACCEPTS.get())
    try:
        yield
    finally:
        _ACCEPTS.reset(token)


def check_accepted(problem: str, advice: str) -> None:
    """Check that the user accepts what takes very long, or loses something.

    Args:
        problem: What was expected, and what would happen; without a full stop.
        advice: What to do instead; without a full stop.

    Raises:
        ConsentError: Unless this runs inside `accepting`.
    """
    if not _ACCEPTS.get():
        raise ConsentError(
            f"{problem}. {advice}, or accept it with --yes (in Python: headcount.accepting())."
        )
