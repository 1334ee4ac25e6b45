"""Numbers as a reader wants to see them; a number that could not be measured is a dash."""

import math

Real = int | float

UNKNOWN = "–"
"""Stands for NaN."""


def percent(share: Real) -> str:
    r"""A share from 0 to 1 as whole per cent, one decimal below ten.

    >>> percent(0.972), percent(0.0312)
    ('97\u202f%', '3.1\u202f%')
    """
    if math.isnan(share):
        return UNKNOWN
    digits = 0 if round(abs(share), 3) >= 0.1 or share == 0 else 1
    return f"{_signless_zero(100 * share, digits)}\u202f%"


def points(difference: Real) -> str:
    """A difference of two shares in percentage points, always with its sign.

    >>> points(0.124), points(-0.05)
    ('+12', '−5')
    """
    return UNKNOWN if math.isnan(difference) else signed(round(100 * difference))


def weight(value: Real) -> str:
    """A weight or norm with two decimals, three significant digits from ten on.

    >>> weight(0.8512), weight(123.4)
    ('0.85', '123')
    """
    if math.isnan(value):
        return UNKNOWN
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def signed(offset: Real) -> str:
    """An offset with its sign; a true minus, so that -1 and +1 have the same width.

    >>> signed(-1), signed(1), signed(0)
    ('−1', '+1', '0')
    """
    if math.isnan(offset):
        return UNKNOWN
    text = f"{offset:+.0f}".replace("-", "−")
    return "0" if text in ("+0", "−0") else text


def count(number: Real) -> str:
    """A count with thousands separators.

    >>> count(24011)
    '24,011'
    """
    return UNKNOWN if math.isnan(number) else f"{number:,.0f}"


def of(number: int, one: str, many: str) -> str:
    """A count with its noun.

    >>> of(1, "head", "heads"), of(1204, "head", "heads")
    ('1 head', '1,204 heads')
    """
    return f"{count(number)} {one if number == 1 else many}"


def listed(parts: list[str]) -> str:
    """Parts as an English list.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def rounded(value: Real, digits: int = 4) -> float | None:
    """The value for JSON, which knows no NaN: `digits` significant digits, or null."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _signless_zero(value: Real, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
