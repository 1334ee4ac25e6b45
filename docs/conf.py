"""Settings of the documentation's site: `make docs` writes it to build/docs."""

from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

import headcount

project = "headcount"
author = "the authors of headcount"
release = version = headcount.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
html_theme = "furo"
html_title = "headcount"
html_show_copyright = False
myst_heading_anchors = 4

default_role = "code"  # docstrings write `name` as Markdown does
autodoc_default_options = {"members": True, "imported-members": True, "show-inheritance": True}
autodoc_member_order = "bysource"


def read_docstring(
    app: Sphinx, what: str, name: str, about: object, options: Any, lines: list[str]
) -> None:
    """Read Google's sections, and bars as the absolute values that they are.

    Sphinx's own extension would take a field's text up to a colon for a type.
    """
    if what not in ("attribute", "property"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, about, options).lines()
    lines[:] = [line.replace("|", r"\|") for line in lines]


OUTSIDE = {
    "../headcount/data/README.md": "shipped.md",
    "../headcount/data/en-de/README.md": "shipped.md",
    "../headcount/data/en-de-36/README.md": "shipped.md",
    "../../README.md": "../index.md",
}
"""Links that lead out of docs/ on disk, and the pages of the site with the same text."""


def keep_inside(app: Sphinx, page: str, text: list[str]) -> None:
    """Lead a page's links to files outside docs/ to the pages that show them."""
    for link, inside in OUTSIDE.items():
        text[0] = text[0].replace(f"]({link}", f"]({inside}")


def setup(app: Sphinx) -> None:
    """Have docstrings and links read as this project writes them."""
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("source-read", keep_inside)
