"""Numbers as text for readers; a number that could not be measured is a dash."""

import math
from collections.abc import Callable

from headcount.core import InputError

Real = int | float

UNKNOWN = "–"
"""Stands for NaN."""


def percent(share: Real, digits: int | None = None, sign: str = "\u202f%") -> str:
    r"""A share from 0 to 1 as a whole percentage, with one decimal below ten.

    >>> percent(0.972), percent(0.0312), percent(0.0312, 0), percent(0.452, 0, "")
    ('97\u202f%', '3.1\u202f%', '3\u202f%', '45')

    Args:
        share: The share.
        digits: Number of decimals; None for one below ten only.
        sign: What stands behind the number; nothing in columns of papers, whose headers say it.
    """
    if math.isnan(share):
        return UNKNOWN
    if digits is None:
        digits = 0 if round(abs(share), 3) >= 0.1 or share == 0 else 1
    return minus(f"{100 * share:z.{digits}f}{sign}")


def points(difference: Real) -> str:
    """A difference of two shares in percentage points, always with its sign.

    >>> points(0.124), points(-0.05)
    ('+12', '−5')
    """
    return UNKNOWN if math.isnan(difference) else signed(round(100 * difference))


def weight(value: Real) -> str:
    """A weight or norm with two decimals, or three significant digits from ten on.

    >>> weight(0.8512), weight(123.4)
    ('0.85', '123')
    """
    if math.isnan(value):
        return UNKNOWN
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def effect(value: Real) -> str:
    """A difference or score with three decimals, or four if it is small.

    >>> effect(0.0421), effect(-0.00314), effect(0.00002), effect(1.234)
    ('0.042', '−0.0031', '0', '1.23')
    """
    if math.isnan(value):
        return UNKNOWN
    size = abs(value)
    if size < 0.00005:
        return "0"
    bounds = ((100, 0), (10, 1), (1, 2), (0.01, 3), (0, 4))
    digits = next(digits for bound, digits in bounds if size >= bound)
    return f"{value:,.{digits}f}".replace("-", "−")


def change(difference: Real) -> str:
    """An effect that always has its sign.

    >>> change(0.0421), change(-4.2), change(0.00002)
    ('+0.042', '−4.20', '0')
    """
    text = effect(difference)
    return f"+{text}" if difference > 0 and text != "0" else text


def significant(value: Real) -> str:
    """A number of any size with two significant digits.

    >>> significant(0.0000321), significant(-0.5)
    ('3.2e−05', '−0.5')
    """
    return UNKNOWN if math.isnan(value) else f"{value:.2g}".replace("-", "−")


def probability(p: Real) -> str:
    """A p-value with three decimals.

    >>> probability(0.0304), probability(0.0002), probability(1.0)
    ('0.030', '<0.001', '1')
    """
    if math.isnan(p):
        return UNKNOWN
    if p < 0.001:
        return "<0.001"
    return "1" if p > 0.9995 else f"{p:.3f}"


def correlation(rho: Real) -> str:
    """A correlation with two decimals and a true minus.

    >>> correlation(-0.123)
    '−0.12'
    """
    return UNKNOWN if math.isnan(rho) else minus(f"{rho:z.2f}")


def ordinal(number: int) -> str:
    """A rank as an ordinal.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def rank(place: int, total: int) -> str:
    """A place among others, from 0.

    >>> rank(0, 144)
    '1st of 144'
    """
    return f"{ordinal(place + 1)} of {count(total)}"


def signed(offset: Real, digits: int = 0) -> str:
    """An offset with its sign; the minus is a true one, so that -1 and +1 have the same width.

    >>> signed(-1), signed(1), signed(0), signed(-3.33, 1), signed(0.04, 1)
    ('−1', '+1', '0', '−3.3', '0')
    """
    if math.isnan(offset):
        return UNKNOWN
    text = f"{offset:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else "0"


def count(number: Real) -> str:
    """A count with thousands separators.

    >>> count(24011)
    '24,011'
    """
    return UNKNOWN if math.isnan(number) else f"{number:,.0f}"


def of(number: Real, one: str, many: str) -> str:
    """A count with its noun.

    >>> of(1, "head", "heads"), of(1204, "head", "heads")
    ('1 head', '1,204 heads')
    """
    return f"{count(number)} {one if number == 1 else many}"


def listed(parts: list[str]) -> str:
    """The parts as an English list.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def rounded(value: Real, digits: int = 4) -> float | None:
    """The value for JSON, with `digits` significant digits; None for NaN, which JSON lacks."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def nats(value: Real, sign: str = "") -> str:
    """A log-probability or a difference of two, with two decimals.

    >>> nats(-0.123), nats(1.5, "+")
    ('−0.12', '+1.50')

    Args:
        value: The number.
        sign: "+" for a sign in front of positive numbers too.
    """
    return UNKNOWN if math.isnan(value) else minus(f"{value:{sign}z.2f}")


def minus(text: str) -> str:
    """A number as text, with the true minus sign.

    >>> minus(f"{-0.25:.3g}")
    '−0.25'
    """
    return text.replace("-", "−")


def within(value: Real, low: Real, high: Real) -> str:
    """A number of nats with its interval, if it has one.

    >>> within(1.5, -0.5, 3.5), within(1.5, math.nan, math.nan)
    ('1.50 (−0.50 to 3.50)', '1.50')
    """
    ends = "" if math.isnan(low) else f" ({nats(low)} to {nats(high)})"
    return nats(value) + ends


def ends(low: Real, high: Real, write: Callable[[Real], str]) -> str:
    """Both ends of an interval, or a dash where there is none.

    >>> ends(0.25, 0.5, "{:.2f}".format), ends(math.nan, math.nan, str)
    ('0.25 to 0.50', '–')
    """
    return UNKNOWN if math.isnan(low) else f"{write(low)} to {write(high)}"


def part(text: str) -> float:
    """A number, or a percentage as a share of 1.

    >>> part("80%"), part("0.8")
    (0.8, 0.8)

    Raises:
        InputError: For anything else.
    """
    number, is_share = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        return float(number) / 100 if is_share else float(number)
    except ValueError:
        raise InputError(f"Expected a number or a percentage such as 80%, got {text!r}.") from None
