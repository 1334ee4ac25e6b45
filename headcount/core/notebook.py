"""Notebooks: what they display of results.

`headcount.reports` draws it, which stands above the packages of the results. It is looked up by its
name when a notebook asks, so that a result needs nothing that draws.
"""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import Any

DRAWS = "headcount.reports"
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
