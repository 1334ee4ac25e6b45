"""A measurement: one number of a layer, before model and layer are named."""

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Measurement:
    """One number with the number of cases that it is over."""

    quantity: str
    """What was measured, e.g. `mi` or `pwcca`."""
    against: str
    """What the states were compared with, e.g. `input` or `next layer`."""
    value: float
    cases: int
    """Number of states, or of other cases, that the number is over."""
    low: float = math.nan
    """Lower end of the quantity's interval; NaN without one."""
    high: float = math.nan
    """Upper end of that interval."""
