"""Figures inside a page: SVG that takes the page's colours, light or dark."""

import re

from markupsafe import Markup, escape

from headcount.core import INK, LINE, MUTED, Chart, styled, svg_of

_COLOURS = {INK: "currentColor", MUTED: "var(--ink-3)", LINE: "var(--line)"}
"""Colours of the page in place of those of a figure's axes, ticks and texts."""

_OWN = re.compile(r'(\bid="|url\(#|xlink:href="#(?![a-z]+\.\d))')
"""What precedes the ids of a figure; a link to the card of a head is not one."""


def inline_svg(chart: Chart) -> Markup | None:
    """A figure as an element of a page; None if the result has no such numbers.

    Its ids begin with the chart's name, so that figures of one page do not share any, and styles
    of its own file, which would be those of the whole page, are gone.
    """
    with styled():
        if (figure := chart.draw()) is None:
            return None
        svg = svg_of(figure)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = _OWN.sub(rf"\1{chart.name}-", svg)
    svg = svg.replace(' target="_blank"', ' tabindex="-1"')
    for colour, own in _COLOURS.items():
        svg = svg.replace(colour, own)
    head = f'<svg role="img" aria-label="{escape(chart.says)}" class="drawn"'
    size = r'(<svg[^>]*?) width="[^"]*"| height="[^"]*pt"'
    svg = re.sub(size, lambda found: found[1] or "", svg, count=2)
    return Markup(svg.replace("<svg", head, 1))
