"""Settings of the documentation's site: `make docs` writes it to build/docs."""

import re
from functools import cache
from pathlib import Path
from shutil import copytree
from types import ModuleType
from typing import Any

from docutils.nodes import bullet_list
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

import headcount
from headcount import models, pages
from headcount.atlas import write_atlas
from headcount.cache import PlannedCache

project = "headcount"
author = "the authors of headcount"
release = version = headcount.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
html_theme = "furo"
html_title = "headcount"
html_static_path, html_css_files = ["_static"], ["site.css"]
html_show_copyright = False
html_search_scorer = str(Path(__file__).with_name("search.js"))
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


def list_names(app: Sphinx, page: str, text: list[str]) -> None:
    """Put the public list, with links to what it names, where the index of the API asks for it."""
    if page != "api/index":
        return
    about = (headcount.__doc__ or "").split("\n\n")
    lists = [each for each in about if re.match(r"[A-Z][^\n]*:\n    ", each)]
    text[0] = text[0].replace("LIST", "\n\n".join(map(_with_links, lists)))


def _with_links(listed: str) -> str:
    """A list of names and what they are, as Markdown."""
    title, *lines = listed.splitlines()
    joined = re.sub(r"\n {8}", " ", "\n".join(lines)).splitlines()
    return f"**{title}**\n" + "\n".join(
        re.sub(r"^ *([\w, ]+?)(?=:|,? of which)", lambda names: "- " + _links(names[1]), each)
        for each in joined
    )


def _links(names: str) -> str:
    """Links to the pages of packages, and to functions and classes on them."""
    found = list[str]()
    for name in names.split(", "):
        its = getattr(headcount, name)
        if isinstance(its, ModuleType):
            found.append(f"[`{name}`]({name}.md)")
        else:
            package = ".".join(its.__module__.split(".")[:2])
            found.append(f"{{py:obj}}`{name} <{package}.{name}>`")
    return ", ".join(found)


def shorten_navigation(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Make the tree of pages, which every page repeats, of their titles alone.

    Sphinx would copy the names of the whole API for each page, and then leave them out.
    """
    whole, tree = app.env.tocs, context["toctree"]

    def of_titles(**options: Any) -> str:
        app.env.tocs = _titles(app)
        try:
            return tree(**options)
        finally:
            app.env.tocs = whole

    context["toctree"] = of_titles


@cache
def _titles(app: Sphinx) -> dict[str, bullet_list]:
    """The contents of every page, of pages of the API without what is on them."""
    found = dict(app.env.tocs)
    for page, contents in found.items():
        if page.startswith("api/") and page != "api/index":
            found[page] = contents.deepcopy()
            del found[page][0][1:]
    return found


LARGEST = 1_500_000
"""Number of bytes of a page of the gallery, at most."""


def draw_gallery(app: Sphinx, error: Exception | None) -> None:
    """Draw the pages of the results in docs/gallery, and the atlas of their heads."""
    if error is not None:
        return
    gallery = Path(app.outdir, "gallery")
    copytree(Path(app.srcdir, "gallery"), gallery, dirs_exist_ok=True)
    smaller = {"en-de": models.place_of("headcount:en-de-36")}
    for folder in (each.parent for each in gallery.glob("*/run.json")):
        pages.write_report(folder, smaller.get(folder.name))
    for folder in (each.parent for each in gallery.glob("*/cache.json")):
        plan = PlannedCache.read(folder)
        pages.write_documents(plan, pages.document_of(plan), folder, ("svg",))
    drawn = {
        each.parent: f"../gallery/{each.parent.name}/report.html"
        for each in gallery.glob("*/run.json")
    }
    others = [each.parent for each in Path(app.srcdir, "atlas").glob("*/run.json")]
    runs = sorted([*drawn, *others], key=lambda folder: folder.name)
    write_atlas(runs, Path(app.outdir, "atlas"), drawn)
    for page in gallery.glob("*/*.html"):
        if page.stat().st_size > LARGEST:
            raise ValueError(f"{page} has {page.stat().st_size:,} bytes")


def setup(app: Sphinx) -> None:
    """Have docstrings and links read as this project writes them."""
    app.connect("build-finished", draw_gallery)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("source-read", keep_inside)
    app.connect("source-read", list_names)
    app.connect("html-page-context", shorten_navigation, priority=400)  # before furo
