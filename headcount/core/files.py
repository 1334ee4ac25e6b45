"""Files are written completely or not at all: to a temporary neighbour, which is then renamed."""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path beside `path`, then put the file in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, completely or not at all."""
    write_atomically(path, lambda file: file.write_text(text, encoding="utf-8"))


def nulls_for_nan(value: Any) -> Any:
    """Copy lists and mappings with None in place of NaN and infinite numbers.

    >>> nulls_for_nan({"p": [0.5, float("nan")]})
    {'p': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {name: nulls_for_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [nulls_for_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """Write JSON that a person can read, completely or not at all; NaN is refused."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
