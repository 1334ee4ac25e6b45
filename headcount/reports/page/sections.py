"""The sections of the page, in their order: numbers first, methods last.

To add one, write a module with a function `section(run)`, which returns a Section or None, and a
template; then name the function here.
"""

from collections.abc import Callable

from headcount.reports.page import (
    alignment_view,
    cluster_view,
    coreference_view,
    curve_view,
    heads_view,
    layer_view,
    method_view,
    null_view,
    probe_view,
    pruned_view,
    syntax_section,
    worth_view,
)
from headcount.reports.page.section import Section
from headcount.results import Analysis

SECTIONS: tuple[Callable[[Analysis], Section | None], ...] = (
    worth_view.section,
    curve_view.section,
    pruned_view.section,
    syntax_section.section,
    probe_view.section,
    cluster_view.section,
    coreference_view.section,
    alignment_view.section,
    layer_view.section,
    null_view.section,
    heads_view.section,
    method_view.section,
)
"""Builders of all sections; a section of which the run holds nothing is None."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    return tuple(found for build in SECTIONS if (found := build(run)) is not None)
