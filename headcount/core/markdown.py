"""Markdown: tables and numbers for documents that compare our results with published ones."""

from collections.abc import Sequence

from tabulate import tabulate


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with right-aligned numbers.

    >>> print(table(["layer", "here"], [["0", "−0.12"]]))
    |   layer |   here |
    |--------:|-------:|
    |       0 |  −0.12 |
    """
    align = ["right" if _numeric(cell) else "left" for cell in rows[0]] if rows else None
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
