"""Joining what was measured of the batches of a corpus."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

Part = TypeVar("Part", bound=Any)


def joined(parts: Sequence[Part]) -> Part:
    """One dataclass of arrays for several: every field, part after part."""
    names = (field.name for field in fields(parts[0]))
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return type(parts[0])(*arrays)
