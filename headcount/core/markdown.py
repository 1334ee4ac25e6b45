"""Markdown: tables and numbers for documents that compare our results with published ones."""

import re
from collections.abc import Sequence

from tabulate import tabulate

_MARKUP = re.compile(r"[\\`*\[\]!|~$#{}]|(?<!\w)_|_(?!\w)|(?<=:/)/|(?<=www)\.|@")
"""What Markdown obeys within a line, links without brackets included."""
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def literal(text: str) -> str:
    r"""A name from outside on one line, shown as it is: no markup, HTML or link works.

    >>> literal("bert_base-cased"), literal("a\n# <b>[x](https://y)")
    ('bert_base-cased', 'a \\# &lt;b&gt;\\[x\\](https:/\\/y)')
    """
    line = _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(text.split()))
    return re.sub("[&<>]", lambda found: _HTML[found[0]], line)


def code(text: str) -> str:
    """A text as code on one line, between more backticks than it holds in a row.

    >>> code("a|b"), code("a`b")
    ('`a|b`', '``a`b``')
    """
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_number: Sequence[bool] | None = None,
) -> str:
    """A Markdown table with right-aligned numbers.

    Args:
        headers: names of the columns.
        rows: the cells.
        is_number: whether each column holds numbers; by default the first row's cells say it.

    >>> print(table(["layer", "here"], [["0", "−0.12"]]))
    |   layer |   here |
    |--------:|-------:|
    |       0 |  −0.12 |
    """
    if is_number is None:
        is_number = [_numeric(cell) for cell in rows[0]] if rows else []
    align = ["right" if each else "left" for each in is_number] or None
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=align)


def share(value: float) -> str:
    """A share from 0 to 1 in per cent, as the papers print it.

    >>> share(0.452)
    '45'
    """
    return "–" if value != value else f"{100 * value:.0f}"


def _numeric(cell: str) -> bool:
    digits = cell.strip("*").lstrip("+−<").replace(".", "").replace(",", "").replace("–", "0")
    return digits.isdigit()
