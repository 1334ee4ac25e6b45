r"""Traits of weights: how much of a head's attention goes to a class of keys.

A class says of every query and key whether the key is in it, block by block: keys in quotation
marks, keys in the query's own line. Queries that see some key of the class, and some key that is
not in it, are its cases; in causal models the first `EARLY` ones are none, and a class can leave
out others. For a query that sees $n_q$ keys, $m_q$ of them in the class, chance gives $m_q / n_q$,
and position what the head gives to keys at such offsets. Our own traits of weights (`traits`,
`patch_traits`) are such classes, too: all of them are measured together, which is faster, and have
the same numbers.

    class Quotes(headcount.Trait):
        name, letter, target = "quotes", "Q", "quotation marks"

        def has(self, piece):
            return piece.strip() in ('"', "“", "”")
"""

from abc import ABC
from collections.abc import Sequence
from contextlib import AbstractContextManager
from inspect import cleandoc
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool
from torch import Tensor

from headcount.core import OURS, InputError, PluginError, Registry, guarded, origin_of_module
from headcount.measures.reductions import Sides
from headcount.vocabulary import (
    ROLES,
    TEXTS,
    TRAITS,
    Inputs,
    RoleEntry,
    TraitEntry,
    abbreviated,
    distinct,
    ink_on,
    traits_of,
)


class Trait(ABC):
    """A class of keys, with the role that it can give.

    Args:
        tokenizer: the tokenizer of the model.
    """

    registry: ClassVar[str] = "headcount.measures.key_classes:TRAIT_CLASSES"
    name: ClassVar[str]
    """Name of the trait and its role."""
    letter: ClassVar[str]
    """Letter in the cells of a map; no other trait may have it."""
    target: ClassVar[str]
    """What the head looks at, as in "gives 60 % of its attention to TARGET"."""
    threshold: ClassVar[float] = 0.5
    """Least share of attention on the class for the role."""
    colour: ClassVar[str] = ""
    """Colour of the role, as #RRGGBB; if it is empty, one that differs from all others for any
    eye."""
    source: ClassVar[str] = ""
    """Paper that describes the role."""
    takes: ClassVar[tuple[Inputs, ...]] = (TEXTS,)
    """The kinds of input that it is taken on, if it is one of ours."""

    def __init__(self, tokenizer: Any = None) -> None:
        self.tokenizer = tokenizer
        self._known = dict[int, bool]()

    def has(self, piece: str) -> bool:
        """Whether tokens with some text are in the class; for classes by text alone."""
        raise NotImplementedError(f"{type(self).__name__} defines neither has nor keys.")

    def members(self, sides: Sides) -> Bool[Tensor, "batch key"]:
        """The keys of a class that is the same for every query; by default by their text."""
        ids_BK = sides.keys.ids_BN
        for number in set(ids_BK.flatten().tolist()) - self._known.keys():
            text = self.tokenizer.decode([number], clean_up_tokenization_spaces=False)
            found = self.has(text)
            if not isinstance(found, bool):
                raise InputError(
                    f"Expected True or False of `has` for {text!r:.40}, got {found!r:.40}."
                )
            self._known[number] = found
        chosen = [number for number, is_in in self._known.items() if is_in]
        return torch.isin(ids_BK, ids_BK.new_tensor(chosen)) & sides.keys.is_content_BN

    def keys(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """Which keys are in the class of each query; by default the `members`.

        Args:
            sides: the tokens that attend (`sides.queries`) and are attended to (`sides.keys`).
            rows: some rows of the batch.
            queries: some of their queries.
        """
        return sides.once(self.members)[rows, None].expand(-1, _number(sides, queries), -1)

    def cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """Which queries can be cases, so that no other trait explains the weight; by default all.

        A query that sees no key of the class, or no other key, is none in any case.
        """
        return sides.queries.is_token_BN

    @final
    def checked(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """The keys of the class that are no padding, of which the shape is checked.

        Raises:
            PluginError: if the class fails, or returns something else.
        """
        is_key_BK = sides.keys.is_token_BN[rows]
        shape = (is_key_BK.shape[0], _number(sides, queries), is_key_BK.shape[1])
        with self._guarded("keys"):
            found = self.keys(sides, rows, queries)
        return self._shaped("keys", found, shape, "row, query, key") & is_key_BK[:, None]

    @final
    def checked_cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """The queries that can be cases and are no padding, of which the shape is checked.

        Raises:
            PluginError: if the class fails, or returns something else.
        """
        is_query_BQ = sides.queries.is_token_BN
        with self._guarded("queries"):
            found = self.cases(sides)
        return self._shaped("cases", found, is_query_BQ.shape, "row, query") & is_query_BQ

    def _guarded(self, which: str) -> AbstractContextManager[None]:
        origin = origin_of_module(type(self).__module__)
        return guarded(origin, f"say which {which} are in the class {self.name}", type(self))

    def _shaped(self, name: str, found: Any, shape: Sequence[int], axes: str) -> Tensor:
        if isinstance(found, Tensor) and found.dtype == torch.bool and found.shape == shape:
            return found
        got = (found.dtype, tuple(found.shape)) if isinstance(found, Tensor) else type(found)
        error = PluginError(
            f"Expected {name}() of the trait {self.name} ({origin_of_module(type(self).__module__)}"
            f") to return booleans of the shape {tuple(shape)} ({axes}), got {got}. Repair the "
            "plug-in."
        )
        error.thing = type(self)
        raise error


def _number(sides: Sides, queries: slice) -> int:
    """Number of some queries."""
    return len(range(*queries.indices(sides.queries.ids_BN.shape[1])))


TRAIT_CLASSES: Registry[type[Trait]] = Registry(
    "traits",
    "a trait",
    {
        "first": "headcount.measures.traits:First",
        "separator": "headcount.measures.traits:Separators",
        "punctuation": "headcount.measures.traits:Punctuation",
        "segment": "headcount.measures.traits:OwnSegment",
        "class": "headcount.measures.patch_traits:ClassToken",
        "row": "headcount.measures.patch_traits:OwnRow",
        "column": "headcount.measures.patch_traits:OwnColumn",
        "frames_near": "headcount.measures.frames:Nearby",
    },
)
"""Traits of weights by name."""


def entries_of(traits: Sequence[Trait]) -> dict[str, TraitEntry]:
    """What traits are called and how they are drawn, by name; ours have a row of the vocabulary.

    Raises:
        InputError: for a name or a letter that another trait has.
        PluginError: for a trait that lacks words.
    """
    ours = traits_of(TEXTS, has_links=True)
    letters = {each.letter: f"{each.key} of {OURS}" for each in ours}
    names = dict.fromkeys([*(each.key for each in ours), *ROLES], OURS)
    colours = [each.role.colour for each in ours]
    abbreviations = {each.abbreviation for each in ROLES.values()}
    found = dict[str, TraitEntry]()
    for trait in traits:
        origin = origin_of_module(type(trait).__module__)
        if origin == OURS:
            found[trait.name] = TRAITS[trait.name]
            continue
        if lacking := [each for each in ("letter", "target") if not getattr(trait, each, "")]:
            error = PluginError(
                f"Expected words of the trait {trait.name} of the plug-in {origin}, got no "
                f"{' and no '.join(lacking)}. Say in them what heads look at."
            )
            error.thing = type(trait)
            raise error
        if trait.name in names:
            raise InputError(
                f"Expected a new name for a trait of {origin}, got {trait.name}, which "
                f"{names[trait.name]} has. Rename it."
            )
        if trait.letter in letters or len(trait.letter) != 1:
            owner = letters.get(trait.letter, "no single letter")
            raise InputError(
                f"Expected a letter of its own for the trait {trait.name} of {origin}, got "
                f"{trait.letter!r} ({owner}). Choose another one than {' '.join(letters)}."
            )
        colour, short = trait.colour or distinct(colours), abbreviated(trait.name, abbreviations)
        role = _role(trait, colour, short)
        found[trait.name] = TraitEntry(
            trait.name, role, trait.letter, trait.target, trait.target, verb="look at"
        )
        names[trait.name] = origin
        letters[trait.letter] = f"{trait.name} of {origin}"
        colours.append(colour)
        abbreviations.add(short)
    return found


def _role(trait: Trait, colour: str, abbreviation: str) -> RoleEntry:
    about = cleandoc(type(trait).__doc__ or "").partition("\n")[0].rstrip(".")
    return RoleEntry(
        trait.name,
        "",
        abbreviation,
        colour,
        f"attends to {trait.target}",
        f"attend to {trait.target}",
        about[:1].lower() + about[1:] or f"it puts its weight on {trait.target}",
        trait.source,
        ink=ink_on(colour),
        least=trait.threshold,
    )


@final
class ClassReader:
    """Adds up the weights of one layer on some classes of keys, from the tap's blocks."""

    def __init__(self, sides: Sides, classes: Sequence[Trait], zeros_BHQ: Tensor) -> None:
        self._sides, self._classes = sides, classes
        self.weights_BHQT = zeros_BHQ[..., None].repeat(1, 1, 1, max(len(classes), 1))

    def block(self, rows: slice, heads: slice, queries: slice, weights_BHQK: Tensor) -> None:
        """Add a block's weights."""
        for number, each in enumerate(self._classes):
            is_in_BQK = each.checked(self._sides, rows, queries)[..., : weights_BHQK.shape[-1]]
            found = (weights_BHQK * is_in_BQK[:, None]).sum(-1)
            self.weights_BHQT[rows, heads, queries, number] = found
