"""Colours: one that nobody confuses with others, whatever their colour vision.

A colour is seen as people with normal vision, protanopes, deuteranopes and tritanopes do, and the
one farthest from all others in CIE Lab (1976) is chosen among some hundred that text is readable
on.

References: A Physiologically-based Model for Simulation of Color Vision Deficiency (Machado et al.,
    2009), severity 1; CIE 15:2004.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from math import dist

Triple = tuple[float, float, float]

_EYES: tuple[tuple[Triple, Triple, Triple], ...] = (
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ),
)
"""What normal vision, protanopes, deuteranopes and tritanopes see, on linear RGB."""
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_WHITE = (0.9505, 1.0, 1.089)

DARK, LIGHT = "#16191d", "#ffffff"
"""Colours of text."""
_BACKGROUND = "#fdfcf8"


def distinct(taken: Iterable[str]) -> str:
    """The colour that is farthest from all that are taken, for the eye that confuses it most.

    >>> distinct(["#0072B2", "#E69F00"])[0]
    '#'
    """
    others = [*taken, _BACKGROUND, DARK]
    steps = (0x22, 0x55, 0x88, 0xBB, 0xEE)
    grid = [f"#{r:02X}{g:02X}{b:02X}" for r, g, b in product(steps, repeat=3)]
    return max(grid, key=lambda each: min(apart(each, other) for other in others))


def apart(one: str, other: str) -> float:
    """Distance of two colours in Lab for the eye that sees them most alike."""
    return min(map(dist, seen(one), seen(other)))


def seen(colour: str) -> Iterator[Triple]:
    """A colour in Lab as each eye sees it."""
    linear = _linear(colour)
    for eye in _EYES:
        rgb = tuple(min(1.0, max(0.0, each)) for each in _times(eye, linear))
        yield _lab(rgb)


def ink_on(colour: str) -> str:
    """Dark or light text, whichever is easier to read on a colour (WCAG's contrast)."""
    luminance = _times(_TO_XYZ, _linear(colour))[1]
    return DARK if (luminance + 0.05) ** 2 > 0.05 * 1.05 else LIGHT


def _linear(colour: str) -> Triple:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return r, g, b


def _lab(rgb: Iterable[float]) -> Triple:
    values = [each / white for each, white in zip(_times(_TO_XYZ, rgb), _WHITE, strict=True)]
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in values)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _times(matrix: Iterable[Triple], vector: Iterable[float]) -> Triple:
    numbers = tuple(vector)
    x, y, z = (sum(a * b for a, b in zip(row, numbers, strict=True)) for row in matrix)
    return x, y, z
