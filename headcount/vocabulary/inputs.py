"""Kinds of input: what a corpus is made of, what that is called, and which traits are tested."""

from dataclasses import dataclass
from typing import final

from headcount.core import Grid
from headcount.vocabulary.roles import ROLES
from headcount.vocabulary.traits import IMAGE_TRAITS, TEXT_TRAITS, TraitEntry


@final
@dataclass(frozen=True)
class Inputs:
    """One kind of input."""

    item: str
    """What a corpus counts, e.g. "sentence"."""
    unit: str
    """What a test takes as independent, e.g. "text"."""
    more: str
    """What to give more of, e.g. "text"."""
    find: str
    """What a page can be searched for, as a hint."""
    traits: tuple[TraitEntry, ...]
    """Its traits, in the order in which they are measured."""
    has_trees: bool = False
    """Whether a corpus can have dependency trees."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles that its traits can give, in the order of a head's list."""
        possible = {each.role.name for each in self.traits}
        return tuple(name for name in ROLES if name in possible)


TEXTS = Inputs("sentence", "text", "text", "subject, punctuation", TEXT_TRAITS, has_trees=True)
IMAGES = Inputs("image", "image", "images", "class token, patch above", IMAGE_TRAITS)


def inputs_of(grid: Grid | None) -> Inputs:
    """The kind of input that has a grid of patches, or none."""
    return TEXTS if grid is None else IMAGES
