"""Guarding: code of plug-ins that runs, so that whatever it does wrong is a sentence that names it.

It may raise, exit, print, take long, or return something else than it should.
"""

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from threading import Lock, Thread
from typing import TypeVar, cast, final

from headcount import __version__
from headcount.core.errors import InputError, UnsuitedError
from headcount.core.wording import amount

PATIENCE = 30.0
"""Seconds after which a run says which plug-in it waits for; then after twice as many, and on."""

REPAIR = "Repair it, or leave it out."
"""What to do with a plug-in that fails."""


class PluginError(InputError):
    """A plug-in can't be loaded, or does not do what it should; the message names it."""

    thing: object = None
    """What failed, so that it can be left out; None if that is unknown."""


class ChangedModelError(PluginError):
    """A plug-in changed the model: nothing more can be measured on it unless it was restored."""

    is_restored: bool = False
    """Whether the model is again as it was."""

    def sentences(self, left: Iterable[str]) -> tuple[str, ...]:
        """What a record says of it, and of what was left to measure, by its names."""
        names = ", ".join(left)
        return (str(self), *([f"not measured on the changed model: {names}"] if names else ()))


class PluginWarning(UserWarning):
    """A plug-in is left out; the message names it."""


@final
@dataclass(frozen=True)
class Origin:
    """Where something is from: headcount, an installed package, a file, or a module."""

    name: str
    version: str = ""
    """Version of a package; the first digits of a file's hash."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


OURS = Origin("headcount", __version__)
"""Origin of what headcount brings."""

Thing = TypeVar("Thing")
_END = object()


@final
class _Waits:
    """The plug-ins that a run waits for, and a thread that names those that take long.

    It looks once in a while and ends when nothing is left, so that guarding short calls is cheap.
    """

    def __init__(self) -> None:
        self._lock, self._watching = Lock(), Thread()
        self._begun: dict[object, tuple[str, float]] = {}

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """A block that runs code of a plug-in."""
        key = object()
        with self._lock:
            self._begun[key] = text, time.monotonic()
            if not self._watching.is_alive():
                self._watching = Thread(target=self._watch, name="plug-ins", daemon=True)
                self._watching.start()
        try:
            yield
        finally:
            self._begun.pop(key, None)

    def _watch(self) -> None:
        named: dict[object, float] = {}
        while True:
            time.sleep(PATIENCE / 10)
            with self._lock:
                begun = dict(self._begun)
                if not begun:
                    self._watching = Thread()
                    return
            for key, (text, start) in begun.items():
                seconds = time.monotonic() - start
                if seconds >= named.get(key, PATIENCE):
                    named[key] = 2 * seconds
                    warnings.warn(f"{text} ({seconds:.0f} s so far)", PluginWarning, stacklevel=1)


_waits = _Waits()


@contextmanager
def guarded(origin: Origin, doing: str, thing: object = None) -> Iterator[None]:
    """Turn whatever a plug-in raises, or its exit, into a sentence that names it.

    What it prints is a warning, since `--json` prints a record there, and so is that it takes long.
    What is ours is left alone.

    Args:
        origin: Where the code is from.
        doing: What it should do, as in "be imported".
        thing: What does it, which an error names so that it can be left out.

    Raises:
        PluginError: If the plug-in raises or exits.
    """
    if origin == OURS:
        yield
        return
    printed = StringIO()
    try:
        with (
            redirect_stdout(printed),
            _waits.waiting(f"waiting for the plug-in {origin} to {doing}"),
        ):
            yield
    except UnsuitedError:
        raise
    except PluginError as error:
        error.thing = error.thing or thing
        raise
    except InputError as error:
        failed = PluginError(f"The plug-in {origin} could not {doing}. {error}")
        failed.thing = thing
        raise failed from error
    except (Exception, SystemExit) as error:
        failed = PluginError(
            f"Expected the plug-in {origin} to {doing}, got {what_failed(error)}. {REPAIR}"
        )
        failed.thing = thing
        raise failed from error
    finally:
        if lines := printed.getvalue().splitlines():
            text = f"the plug-in {origin} printed {amount(len(lines), 'line')}: {lines[0]:.80}"
            warnings.warn(text, PluginWarning, stacklevel=3)


def no_number(what: str, origin: Origin, num: int, of: int) -> str:
    """A sentence about numbers of a plug-in that are NaN.

    >>> no_number("mine", Origin("my.py"), 1, 144)
    'mine of the plug-in my.py has no number (NaN) for 1 of 144 heads'
    """
    return f"{what} of the plug-in {origin} has no number (NaN) for {num} of {amount(of, 'head')}"


def guarded_each(origin: Origin, doing: str, items: Iterable[Thing]) -> Iterator[Thing]:
    """The items that a plug-in yields, each guarded; who consumes them is not.

    Raises:
        PluginError: If the plug-in raises or exits.
    """
    items = iter(items)
    while True:
        with guarded(origin, doing):
            found = next(items, _END)
        if found is _END:
            return
        yield cast("Thing", found)


def what_failed(error: BaseException) -> str:
    """The type and the text of an error, and the line of a plug-in that it came through."""
    what = f"{type(error).__name__}: {error}".removesuffix(".").removesuffix(": ")
    return f"{what}{_line(error)}"


def _line(error: BaseException) -> str:
    """The innermost line of the plug-in that an error came through: it is the first not of ours."""
    trace, top, found = error.__traceback__, "", ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
        top = top or (name if name not in ("headcount", "importlib") else "")
        if name == top:
            found = f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found
