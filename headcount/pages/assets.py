"""What every page is made of: templates, styles, scripts, data that scripts can read, and figures.

Four measures keep a page safe: the template escapes all text, the data for the scripts is JSON
with `<`, `>` and `&` as escapes, signs stand for control characters, and the
Content-Security-Policy allows no scripts except the page's own, and no requests. Figures are SVG
that takes the page's colours, light or dark.
"""

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
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
    visible,
)

PACKAGE = "headcount.pages"
"""The package of the report, whose templates all pages share."""

LARGE = 500_000
"""Number of characters from which the data of a page is compressed."""


def fill_template(
    name: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: object,
    package: str = PACKAGE,
    **values: Any,
) -> str:
    """A page: a template with its styles, its scripts and the data that they read.

    Args:
        name: file name of the template.
        styles: file names of the styles.
        scripts: file names of the scripts, which share one function's names.
        data: the data that the scripts find as `data`, in JSON's types.
        package: a package whose files in `templates` are found, too.
        values: the template's variables. By default pages have no cards and maps to link to, and
            all rows of their tables.
    """
    style, script = (
        "\n".join(_asset(each, package) for each in names) for names in (styles, scripts)
    )
    script = f'"use strict";\n(async () => {{\n{script}}})();\n'
    page = (
        _templates(package)
        .get_template(name)
        .render(
            style=Markup(style),
            script=Markup(script),
            script_hash=_hash(script),
            data=Markup(packed_json(data)),
            **{
                "heads": (),
                "maps": {},
                "many": math.inf,
                "svg": inline_svg,
                "base64": _base64,
                **values,
            },
        )
    )
    return visible(page)


@cache
def _templates(package: str) -> Environment:
    """The templates of a package and the report's, each of which is compiled once."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(each, "templates") for each in (package, PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["unbroken"] = unbroken
    return made


_NAMED = re.compile(r"[\w.:~-]+(?:[/\\][\w.:~-]+)+|[\w~-]+(?:\.[\w-]+)*\.[A-Za-z]\w{1,7}\b")
"""A path, the name of a model on the hub, or the name of a file."""


def unbroken(text: str) -> Markup:
    """A text in which no line ends inside the name of a file or a model.

    >>> unbroken("2 of en_ewt-ud-dev.conllu.")
    Markup('2 of <span class="name">en_ewt-ud-dev.conllu</span>.')
    """
    parts, at = list[Markup](), 0
    for found in _NAMED.finditer(text):
        parts += [
            escape(text[at : found.start()]),
            Markup('<span class="name">{}</span>').format(found[0]),
        ]
        at = found.end()
    return Markup("").join([*parts, escape(text[at:])])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_ESCAPE = re.compile(r"\\(?:u00..|.)")
"""Pattern of an escape in JSON."""


def packed_json(value: object) -> str:
    """The data of a page as JSON; large data as a JSON string of its compressed base64.

    Compressing is what keeps the page of a model with 1,024 heads below 3 MB.
    """
    text = script_json(value)
    if len(text) <= LARGE:
        return text
    return json.dumps(base64.b64encode(zlib.compress(text.encode(), 9)).decode())


def script_json(value: object) -> str:
    r"""JSON that is safe inside a script element, whatever its strings contain.

    >>> script_json("</script>"), script_json("\x1b[2J")
    ('"\\u003c/script\\u003e"', '"␛[2J"')
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = visible(_ESCAPE.sub(_shown, text))
    escapes = {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
    for character, escaped in escapes.items():
        text = text.replace(character, escaped)
    return text


def _shown(escape: re.Match[str]) -> str:
    """The sign of a control character that JSON escapes; other escapes stay."""
    character = json.loads(f'"{escape[0]}"')
    sign = visible(character)
    return escape[0] if sign == character else sign


def _asset(name: str, package: str) -> str:
    """The text of a file in the templates of a package or, without one there, of the report."""
    places = (files(each).joinpath("templates", name) for each in (package, PACKAGE))
    return next(each for each in places if each.is_file()).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """The hash that names the script in the Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


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
