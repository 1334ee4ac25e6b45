"""The view model as one self-contained HTML page.

Three measures keep the page safe: the template escapes all text, the data for the scripts is JSON
with `<`, `>` and `&` as escapes, and the Content-Security-Policy forbids all requests and all
scripts except the page's own.
"""

import base64
import hashlib
import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headcount.core import write_text
from headcount.reports.names import RoleName
from headcount.reports.page import worth_plot
from headcount.reports.page.card_view import Card
from headcount.reports.page.layer_view import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from headcount.reports.page.method_notes import NOTES, WORTH_NOTES
from headcount.reports.page.view import NO_TREES, Report, report_view
from headcount.results import read_run

STYLES = ("base.css", "grid.css", "card.css", "sections.css", "worth.css")
SCRIPTS = ("elements.js", "grid.js", "sentence.js", "card.js", "table.js", "main.js")


def render(report: Report) -> str:
    """The page as a string."""
    environment = Environment(
        loader=PackageLoader("headcount.reports.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = "\n".join(_asset(name) for name in STYLES)
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n"
    return environment.get_template("report.html.j2").render(
        report=report,
        cards={card.head: card for card in report.cards},
        style=Markup(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(script_json(page_data(report))),
        notes=(*NOTES, *(WORTH_NOTES if report.worth else ())),
        no_trees=NO_TREES,
        plot={
            "width": WIDTH,
            "height": HEIGHT,
            "left": LEFT,
            "right": WIDTH - RIGHT,
            "top": TOP,
            "bottom": HEIGHT - BOTTOM,
        },
        chart={"width": worth_plot.WIDTH, "height": worth_plot.HEIGHT, "left": worth_plot.LEFT},
    )


def page_data(report: Report) -> dict[str, Any]:
    """The data for the scripts: kinds, maps and cards."""
    return {
        "heads": report.heads,
        "kinds": {
            name: {"letter": letter, "colour": role.colour, "ink": role.ink}
            for name, letter, role in _swatches(report)
        },
        "maps": [asdict(shown) for shown in report.maps],
        "cards": {card.head: _card_data(card) for card in report.cards},
        "hasNull": report.has_null,
    }


def _swatches(report: Report) -> list[tuple[str, str, RoleName]]:
    """Name, letter and role of everything that has a swatch: roles of examples, then kinds."""
    roles = [(name, role.abbreviation, role) for name, role in report.roles.items()]
    return roles + [(key, kind.letter, kind.role) for key, kind in report.kinds.items()]


def _card_data(card: Card) -> dict[str, Any]:
    """The card; the maps already hold its numbers, so only those at random weights are added."""
    return asdict(card) | {"numbers": [number.null_text for number in card.numbers]}


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


def write_report(folder: str | Path) -> Path:
    """Read the results of a run folder and write `report.html` into it, atomically.

    Raises:
        InputError: if a result file is missing or damaged.
    """
    path = Path(folder) / "report.html"
    write_text(path, render(report_view(read_run(path.parent))))
    return path
