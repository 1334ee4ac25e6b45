"""What every page is made of: templates, styles and scripts, and data that scripts can read.

Three measures keep a page safe: the template escapes all text, the data for the scripts is JSON
with `<`, `>` and `&` as escapes, and the Content-Security-Policy allows no scripts except the
page's own, and no requests.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def fill_template(
    name: str, *, styles: Sequence[str], scripts: Sequence[str], data: object, **values: Any
) -> str:
    """A page: a template with its styles, its scripts and the data that they read.

    Args:
        name: file name of the template.
        styles: file names of the styles.
        scripts: file names of the scripts, which share one function's names.
        data: the data that the scripts find as `data`, in JSON's types.
        values: the template's variables.
    """
    environment = Environment(
        loader=PackageLoader("headcount.reports.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, scripts)) + "})();\n"
    return environment.get_template(name).render(
        style=Markup("\n".join(map(_asset, styles))),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(script_json(data)),
        **values,
    )


def script_json(value: object) -> str:
    r"""JSON that is safe inside a script element, whatever its strings contain.

    >>> script_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
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


def _asset(name: str) -> str:
    return files("headcount.reports.page").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """The hash that names the script in the Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
