"""A comparison as one self-contained HTML page."""

from dataclasses import asdict
from typing import Any

from headcount.reports.page import compare_plot, html
from headcount.reports.page.assets import fill_template
from headcount.reports.page.compare_view import ComparisonView

STYLES = (*html.STYLES, "compare.css")
SCRIPTS = ("elements.js", "rove.js", "table.js", "download.js", "compare.js")


def render_comparison(view: ComparisonView) -> str:
    """The page as a string."""
    plot = compare_plot
    return fill_template(
        "compare.html.j2",
        styles=STYLES,
        scripts=SCRIPTS,
        data=comparison_data(view),
        view=view,
        names=[side.name for side in view.sides],
        strip=plot.STRIP_WIDTH,
        plot={
            "size": plot.SIZE,
            "left": plot.LEFT,
            "right": plot.SIZE - plot.RIGHT,
            "top": plot.TOP,
            "bottom": plot.SIZE - plot.BOTTOM,
        },
    )


def comparison_data(view: ComparisonView) -> dict[str, Any]:
    """The data for the scripts: names, kinds and what each head does in both runs."""
    return {
        "title": view.title,
        "names": [side.name for side in view.sides],
        "kinds": {
            kind.key: {"letter": kind.letter, "colour": kind.role.colour, "ink": kind.role.ink}
            for kind in view.kinds.values()
        },
        "pairs": {pair.head: asdict(pair) for pair in view.pairs},
    }
