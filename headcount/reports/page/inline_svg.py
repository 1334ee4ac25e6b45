"""Figures inside a page: SVG that takes the page's colours, light or dark."""

import re

from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.text import Text

from headcount.core import (
    ACCENT,
    INK,
    LINE,
    MUTED,
    PAPER,
    SITE_COLOURS,
    Chart,
    styled,
    svg_of,
)

_SITES = dict(zip(SITE_COLOURS.values(), "abcd", strict=True))
_COLOURS = {colour.lower(): f"var(--site-{letter})" for colour, letter in _SITES.items()} | {
    INK: "currentColor",
    MUTED: "var(--ink-3)",
    ACCENT: "var(--accent)",
    "#7a3e9d": "var(--violet)",
    "#8c564b": "var(--brown)",
    "#555555": "var(--ink-2)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
}
"""Colours of the page in place of those of a figure that can't be read on its dark paper."""

_SCALE = 2.0
"""Pixels per point: text of 7.5 points, the smallest of most figures, is as large as the page's."""

_OWN = re.compile(r'(\bid="|url\(#|xlink:href="#(?![a-z]+\.\d))')
"""What precedes the ids of a figure; a link to the card of a head is not one."""


def inline_svg(chart: Chart) -> Markup | None:
    """A figure as an element of a page; None if the result has no such numbers.

    Its ids begin with the chart's name, so that figures of one page do not share any, and styles
    of its own file, which would be those of the whole page, are gone. So is a title that only
    repeats what the page says above the figure.
    """
    with styled():
        if (figure := chart.figure) is None:
            return None
        svg = _untitled(figure, chart.says)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    # Hundredths of a point and no indents: the page of a large model stays small.
    svg = re.sub(r"<[^>]+>\s*", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0].strip()), svg)
    svg = re.sub(r'(<image[^>]*?) id="[^"]*"', r"\1", svg)  # those of equal images are equal
    svg = _OWN.sub(rf"\1{chart.name}-", svg)
    svg = svg.replace(' target="_blank"', ' tabindex="-1"')
    for colour, own in _COLOURS.items():
        svg = svg.replace(colour, own)
    head = f'<svg role="img" aria-label="{escape(chart.says)}" class="drawn"'
    svg = re.sub(r' height="[^"]*pt"', "", svg, count=1)
    svg = re.sub(r' width="([\d.]+)pt"', _width, svg, count=1)
    return Markup(svg.replace("<svg", head, 1))


def _untitled(figure: Figure, title: str) -> str:
    """The SVG of a figure without this title, which its files keep."""
    shown = [
        text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text() == title
    ]
    for text in shown:
        text.set_visible(False)
    svg = svg_of(figure)
    for text in shown:
        text.set_visible(True)
    return svg


def _width(points: re.Match[str]) -> str:
    return f' width="{_SCALE * float(points[1]):.0f}"'
