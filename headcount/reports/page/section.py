"""Sections of the page: what each shows, under which title and in which template."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Section:
    """One section below the map, with its entry in the contents list."""

    key: str
    """Id of the section, which links end in."""
    title: str
    """Heading, also in the contents list."""
    short: str
    """Name in the contents list."""
    view: object
    """What the template prints."""
    template: str = "_document.html.j2"
    """File in `templates/` that shows it; the view is there as `view`."""
