"""Command arguments as JSON values."""

from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """The same value with lists for tuples and text for paths.

    >>> plain({"corpus": (Path("a.txt"),), "limit": None})
    {'corpus': ['a.txt'], 'limit': None}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
