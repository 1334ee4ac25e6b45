"""Options: which values they take, and which of them differ from their defaults.

Python prints a large record in three lines. What notebooks display of it, `headcount.pages` draws,
which stands above the packages of the results. It is looked up by its name when a notebook asks, so
that a result needs nothing that draws.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from html import escape
from importlib import import_module
from math import inf
from reprlib import Repr
from typing import Annotated, Any, Literal, final, get_args, get_origin

from headcount.core.errors import InputError
from headcount.core.wording import amount, is_unicode, visible

MAX_TOKENS = 4096
"""Default of the largest number of padded tokens in a batch."""

LEAST = 8
"""Smallest length of a window that may be asked for."""

KernelName = Literal["auto", "blocks", "sweep", "triton"]
"""How attention is measured, see `tap/kernels.py`."""


@final
@dataclass(frozen=True)
class Constraint:
    """Which values an option takes: `samples: Annotated[int, at_least(1)]`."""

    expected: str
    """What is expected, in words, with `{name}` for the option's name."""
    holds: Callable[[Any], bool]
    """Whether it is so of a value."""


def at_least(least: int, of: str = "") -> Constraint:
    """Numbers from one on, of some things.

    >>> @dataclass
    ... class Step:
    ...     size: Annotated[int, at_least(1)] = 1
    >>> check_options(Step(0))
    Traceback (most recent call last):
    headcount.core.errors.InputError: Expected size of at least 1, got 0.
    """
    words = amount(least, of) if of else str(least)
    return Constraint(f"{{name}} of at least {words}", lambda value: value >= least)


ABOVE_0 = Constraint("a finite number above 0 for {name}", lambda value: 0 < value < inf)
FROM_0 = Constraint("a finite number of at least 0 for {name}", lambda value: 0 <= value < inf)
BELOW_1 = Constraint("a number of at least 0 and below 1 for {name}", lambda value: 0 <= value < 1)
ABOVE_0_TO_1 = Constraint("a number above 0 and at most 1 for {name}", lambda value: 0 < value <= 1)
FROM_0_TO_1 = Constraint("a number from 0 to 1 for {name}", lambda value: 0 <= value <= 1)

Count = Annotated[int, at_least(1)]
Seed = Annotated[int, Constraint("a seed of at least 0", lambda value: value >= 0)]


def check_options(options: Any) -> None:
    """Check the options in a dataclass by their types: `Literal` ones and constraints.

    Raises:
        InputError: for a value that a type does not allow.
    """
    for field in fields(options):
        check_value(field.name, getattr(options, field.name), field.type)


def check_value(name: str, value: Any, kind: Any) -> None:
    """Check a value by the words and the constraints of its type; None is allowed.

    >>> check_value("seed", -1, Seed)
    Traceback (most recent call last):
    headcount.core.errors.InputError: Expected a seed of at least 0, got -1.

    Args:
        name: its name.
        value: the value; a tuple is checked value by value.
        kind: its type.

    Raises:
        InputError: if the type does not allow it.
    """
    given = value if isinstance(value, tuple) else (value,) if value is not None else ()
    if words := _words(kind):
        for each in given:
            check_known(name, each, words, "(one of {})")
    for each in getattr(kind, "__metadata__", ()):
        if isinstance(each, Constraint) and not all(map(each.holds, given)):
            expected = each.expected.format(name=name)
            raise InputError(f"Expected {expected}, got {', '.join(map(str, given))}.")


def _words(kind: Any) -> tuple[object, ...]:
    """The words of the `Literal` in a type, of which it may be annotated, optional or a tuple."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(_words, get_args(kind))), ())


@dataclass(frozen=True)
class Checked:
    """Options that are checked by their types when they are made.

    >>> @dataclass(frozen=True)
    ... class Steps(Checked):
    ...     order: Literal["up", "down"] = "up"
    >>> Steps("dwn")
    Traceback (most recent call last):
    headcount.core.errors.InputError: Expected order (one of up, down), got 'dwn'. Did you mean \
down?
    """

    def __post_init__(self) -> None:
        check_options(self)


def check_window(length: int | None) -> None:
    """Check the length of windows that was asked for.

    Raises:
        InputError: if it is too small.
    """
    if length is not None and length < LEAST:
        raise InputError(
            f"Expected --window of at least {LEAST} tokens, got {length}. Give a larger one."
        )


def options_of(record: Any, usual: Any = None) -> list[str]:
    """The fields of a dataclass record that differ from those of a usual one, as NAME=VALUE.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Step:
    ...     size: float = 1.0
    ...     is_last: bool = False
    >>> options_of(Step(0.1))
    ['size=0.1']

    Args:
        record: the record.
        usual: the usual one; the defaults of its class if None.
    """
    return [
        f"{name}={'none' if value is None else str(value).lower()}"
        if value is None or isinstance(value, bool)
        else f"{name}={value}"
        for name, value in _differences(record, usual)
    ]


def _differences(record: Any, usual: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name and value of every field that differs from a usual record's, or from its default."""
    for each in fields(record):
        value, default = getattr(record, each.name), default_of(each)
        expected = default if usual is None else getattr(usual, each.name)
        if is_dataclass(value) and is_dataclass(expected):
            yield from _differences(value, expected, f"{prefix}{each.name}.")
        elif value != expected:
            yield f"{prefix}{each.name}", value


def default_of(field: "Field[Any]") -> Any:
    """The default of a field of a dataclass; `MISSING` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def check_unicode(text: str, what: str, at: str = "") -> None:
    """Check that text has whole characters only.

    Args:
        text: the text.
        what: what it is, in words.
        at: where it is from, with a colon and a blank.

    Raises:
        InputError: if it holds half of one, or a byte that is no UTF-8.
    """
    if not is_unicode(text):
        raise InputError(
            f"{at}{'e' if at else 'E'}xpected whole characters in {what}, got "
            f"{visible(text)!r:.80}, which holds half of one (of a surrogate pair, or a byte that "
            "is no UTF-8). Remove it."
        )


def check_choice(name: str, value: object, kind: Any) -> None:
    """Check that a value is one of a fixed set.

    Args:
        name: what the value is, in words.
        value: the value.
        kind: the `Literal` type that lists the allowed values.

    Raises:
        InputError: for any other value.
    """
    check_known(name, value, get_args(kind), "(one of {})")


def check_known(
    name: str, value: object, known: Iterable[object], listing: str = "out of {}"
) -> None:
    """Check that a value is one of those known; the error suggests the nearest one.

    >>> check_known("a method", "gradeint", ["gradient", "norm"])
    Traceback (most recent call last):
    headcount.core.errors.InputError: Expected a method out of gradient, norm, got 'gradeint'. Did \
you mean gradient?

    Args:
        name: what the value is, in words.
        value: the value.
        known: the allowed values.
        listing: how the error lists them.

    Raises:
        InputError: for any other value.
    """
    if value not in (known := tuple(known)):
        words = list(map(str, known))
        raise InputError(
            f"Expected {name} {listing.format(', '.join(words))}, got {value!r}."
            f"{did_you_mean(str(value), words)}"
        )


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence that suggests the nearest of some words, in any case; empty if none is near."""
    folded = {word.casefold(): word for word in known}
    near = get_close_matches(given.casefold(), folded, n=1)
    return f" Did you mean {folded[near[0]]}?" if near else ""


LONGEST = 240
"""Number of characters of a `repr`: three lines of 80."""


def brief_repr(self: Any) -> str:
    """The class and the fields of a dataclass that differ from their defaults, on three lines.

    It is assigned to `__repr__` in classes whose texts are nobody's key: long values are shortened.
    """
    brief = Repr()
    brief.maxstring, brief.maxother, brief.maxlevel = 40, 60, 2
    brief.maxdict = brief.maxtuple = brief.maxlist = 3
    shown = [
        f"{field.name}={' '.join(brief.repr(value).split())}"
        for field in fields(self)
        if field.repr and not _is_default(field, value := getattr(self, field.name))
    ]
    text = f"{type(self).__name__}({', '.join(shown)})"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 5]} ...)"


def _is_default(field: Field[Any], value: Any) -> bool:
    """Whether a value is the field's default, which `repr` need not say."""
    made = default_of(field)
    return type(value) is type(made) and repr(value) == repr(made)


DRAWS = "headcount.pages"
"""The package that draws results."""


def drawn_html(result: object) -> str:
    """The HTML of a result for a notebook."""
    return import_module(DRAWS).notebook_html(result)


def drawn_card(analysis: object, head: str) -> Any:
    """The card of one head of an analysis, which notebooks display and `save` writes."""
    return import_module(DRAWS).show_card(analysis, head)


def small_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of names and values under a title; texts are escaped.

    >>> small_table("A <b>", [("heads", "72")])
    '<table><caption>A &lt;b&gt;</caption><tr><th>heads</th><td>72</td></tr></table>'
    """
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"
