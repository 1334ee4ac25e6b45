"""What every page is made of: templates, styles and scripts, and data that scripts can read.

Four measures keep a page safe: the template escapes all text, the data for the scripts is JSON
with `<`, `>` and `&` as escapes, signs stand for control characters, and the
Content-Security-Policy allows no scripts except the page's own, and no requests.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headcount.core import visible
from headcount.reports.page.inline_svg import inline_svg

PACKAGE = "headcount.reports.page"
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
        values: the template's variables. Pages have no cards and no maps to link to by default.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(each, "templates") for each in (package, PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        "\n".join(_asset(each, package) for each in names) for names in (styles, scripts)
    )
    script = f'"use strict";\n(async () => {{\n{script}}})();\n'
    page = environment.get_template(name).render(
        style=Markup(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(packed_json(data)),
        **{"heads": (), "maps": {}, "svg": inline_svg, **values},
    )
    return visible(page)


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
    for character, escape in escapes.items():
        text = text.replace(character, escape)
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
