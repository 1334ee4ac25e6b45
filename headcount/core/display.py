"""Brief: what Python prints of a large record.

Notebooks: what they display of results.

`headcount.pages` draws it, which stands above the packages of the results. It is looked up by its
name when a notebook asks, so that a result needs nothing that draws.
"""

from collections.abc import Sequence
from dataclasses import Field, fields
from html import escape
from importlib import import_module
from reprlib import Repr
from typing import Any

from headcount.core.options import default_of

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
