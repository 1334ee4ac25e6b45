"""Tally: how many tries of each kind survived, and the table of them.

A try is survived if a command or reader ends with a result or with a sentence, never with another
error. With HEADCOUNT_FAULTS=FILE all failures are counted and written there instead of raised.
"""

import os
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headcount.core import InputError, table

TRIES: Counter[tuple[str, str]] = Counter()
"""Number of tries by input and kind of the fault."""
SURVIVED: Counter[tuple[str, str]] = Counter()
"""Number of these that ended well."""
FAILURES: dict[str, tuple[str, str]] = {}
"""What was tried and the traceback, by the last line of the code that failed."""


def survive(what: str, kind: str, fault: object, call: Callable[[], object]) -> None:
    """Count a try; it must end with a result or with a sentence."""
    TRIES[what, kind] += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
        assert result in (None, 0, 1, 2) or not isinstance(result, int), f"status {result}"
    except InputError as error:
        assert len(str(error)) > 20, error
    except BaseException as error:
        if "HEADCOUNT_FAULTS" not in os.environ or isinstance(error, KeyboardInterrupt):
            raise
        frames = [each for each in traceback.extract_tb(error.__traceback__)]
        ours = [each for each in frames if "headcount/headcount" in each.filename] or frames
        place = f"{type(error).__name__} at {ours[-1].filename}:{ours[-1].lineno}"
        FAILURES.setdefault(place, (repr(fault), "".join(traceback.format_exception(error))))
        return
    SURVIVED[what, kind] += 1


def write_table(path: Path, command: str) -> None:
    """Write the table of tries, with the tracebacks of failures behind it."""
    kinds = sorted(TRIES)
    rows: list[list[Any]] = [
        [what, kind, f"{TRIES[what, kind]:,}", f"{SURVIVED[what, kind]:,}"] for what, kind in kinds
    ]
    rows.append(["all", "", f"{sum(TRIES.values()):,}", f"{sum(SURVIVED.values()):,}"])
    text = f"`{command}`\n\n" + table(["input", "fault", "tries", "survived"], rows) + "\n"
    for place, (fault, trace) in FAILURES.items():
        text += f"\n## {place}\n{fault}\n```\n{trace}```\n"
    path.write_text(text, encoding="utf-8")
