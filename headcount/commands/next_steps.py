"""What to do next, by the numbers just measured: a sentence and commands to paste."""

from dataclasses import fields, is_dataclass
from typing import Any

from headcount import models

UPDATES = 2000
"""Number of updates of the further training that is proposed."""
PLACEHOLDER_CORPUS = "CORPUS"
"""Placeholder in a command for texts or images that the user did not name."""

PLACEHOLDER_TEST = "TEST_FILE"
"""Placeholder in a command for test data that the user did not name."""

ONCE = "once"
"""What marks an option that changes no number: next steps and records leave it out."""


def given(arguments: Any, kind: type[Any]) -> dict[str, Any]:
    """The arguments that another command shares and whose values are not its defaults."""
    found = dict[str, Any]()
    for each in fields(kind):
        value = getattr(arguments, each.name, each.default)
        if is_dataclass(value):
            found |= given(value, type(value))
        elif each.name != "model" and value != each.default and ONCE not in each.metadata:
            found[each.name] = value
    return found


def between(low: int, high: int, size: int = 1) -> list[int]:
    """Up to three numbers between two, evenly spaced, the largest first.

    Args:
        low: the numbers are above this.
        high: the numbers are below this.
        size: the numbers are multiples of this, the number of heads pruned at once.

    >>> between(0, 144), between(1, 3), between(1, 2)
    ([108, 72, 36], [2], [])
    >>> between(0, 270, 3)
    [201, 135, 66]
    """
    found = (low + (high - low) * quarter // 4 // size * size for quarter in (3, 2, 1))
    return [number for number in dict.fromkeys(found) if low < number < high]


def group_size(loaded: "models.Loaded") -> int:
    """The largest number of heads that share keys and values, which are pruned at once."""
    return max(each.num_heads // each.num_key_value_heads for each in loaded.anatomy.layers)
