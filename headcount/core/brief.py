"""Brief: what Python prints of a large record."""

from dataclasses import MISSING, Field, fields
from reprlib import Repr
from typing import Any

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
    if field.default is MISSING and field.default_factory is MISSING:
        return False
    made = field.default if field.default_factory is MISSING else field.default_factory()
    return type(value) is type(made) and repr(value) == repr(made)
