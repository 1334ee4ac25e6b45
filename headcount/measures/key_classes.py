r"""Traits of one's own: how much of a head's attention goes to a class of keys.

A class says of every query and key whether the key is in it, block by block: keys in quotation
marks, keys in the query's own line. Queries that see some key of the class, and some key that is
not in it, are its cases; in causal models the first `EARLY` ones are none. A trait is measured and
tested as our own ones of weights are (`traits`): for a query that sees $n_q$ keys, $m_q$ of them in
the class, chance gives $m_q / n_q$, and position what the head gives to keys at such offsets.

    class Quotes(headcount.Trait):
        name, letter, target = "quotes", "Q", "quotation marks"

        def has(self, piece):
            return piece.strip() in ('"', "“", "”")
"""

from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.core import OURS, InputError, PluginError, Registry, guarded, origin_of_module
from headcount.corpora import EARLY
from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import Sums, over_queries
from headcount.measures.units import Moments, Slots
from headcount.tap import Reduction
from headcount.vocabulary import (
    ROLES,
    TEXTS,
    RoleEntry,
    TraitEntry,
    abbreviated,
    distinct,
    ink_on,
    traits_of,
)

AT_ONCE = 256
"""Number of queries whose keys are looked at together."""


class Trait(ABC):
    """A trait of one's own, with the role that it can give.

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

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known = dict[int, bool]()

    def has(self, piece: str) -> bool:
        """Whether tokens with some text are in the class; for classes by text alone."""
        raise NotImplementedError(f"{type(self).__name__} defines neither has nor keys.")

    def keys(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """Which keys are in the class of each query; by default those whose text is in it.

        Args:
            sides: the tokens that attend (`sides.queries`) and are attended to (`sides.keys`).
            rows: some rows of the batch.
            queries: some of their queries.
        """
        ids_BK = sides.keys.ids_BN[rows]
        for number in set(ids_BK.flatten().tolist()) - self._known.keys():
            text = self.tokenizer.decode([number], clean_up_tokenization_spaces=False)
            found = self.has(text)
            if not isinstance(found, bool):
                raise InputError(
                    f"Expected True or False of `has` for {text!r:.40}, got {found!r:.40}."
                )
            self._known[number] = found
        chosen = [number for number, is_in in self._known.items() if is_in]
        is_in_BK = torch.isin(ids_BK, ids_BK.new_tensor(chosen)) & sides.keys.is_content_BN[rows]
        num_queries = len(range(*queries.indices(sides.queries.ids_BN.shape[1])))
        return is_in_BK[:, None].expand(-1, num_queries, -1)

    @final
    def checked(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """The keys of the class that are no padding, of which the shape is checked.

        Raises:
            PluginError: if the class fails, or returns something else.
        """
        origin = origin_of_module(type(self).__module__)
        with guarded(origin, f"say which keys are in the class {self.name}", type(self)):
            found = self.keys(sides, rows, queries)
        is_key_BK = sides.keys.is_token_BN[rows]
        num_queries = len(range(*queries.indices(sides.queries.ids_BN.shape[1])))
        shape = (is_key_BK.shape[0], num_queries, is_key_BK.shape[1])
        if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != shape:
            got = (found.dtype, tuple(found.shape)) if isinstance(found, Tensor) else type(found)
            error = PluginError(
                f"Expected keys() of the trait {self.name} ({origin}) to return booleans of the "
                f"shape {shape} (row, query, key), got {got}. Repair the plug-in."
            )
            error.thing = type(self)
            raise error
        return found & is_key_BK[:, None]


TRAIT_CLASSES: Registry[type[Trait]] = Registry("traits", "a trait", {})
"""Traits of plug-ins by name."""


def entries_of(traits: Sequence[Trait]) -> dict[str, TraitEntry]:
    """What traits of plug-ins are called and how they are drawn, by name.

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


@dataclass(frozen=True)
class ClassWeights(Sums):
    """Weight on classes of keys, by half of the corpus and by unit, and what chance has there."""

    needs = frozenset({Reduction.CLASS_WEIGHTS, Reduction.DIAGONALS})
    classes: ClassVar[tuple[Trait, ...]] = ()
    """The classes, in order."""
    of_content: ClassVar[bool] = False
    """Whether chance and position are those of a head that looks at content only."""

    weight: Float[Tensor, "half trait head"]
    """Sum over cases of the weight on the class."""
    moments: Moments
    """Moments of the weight over units of the second half, by trait and head."""
    cases: Int[Tensor, "half trait"]
    """Number of queries that are cases."""
    chance: Float[Tensor, "half trait"]
    """Sum over cases of the share of keys that are in the class."""
    near: Int[Tensor, "half trait near"]
    """Number of cases whose key at each of `OFFSETS` is in the class."""
    far: Int[Tensor, "half trait"]
    """Number of other keys in the class, over cases."""
    diagonal: Float[Tensor, "head near"]
    """Sum over all queries of the weight at each of `OFFSETS`."""
    diagonal_queries: Int[Tensor, " near"]
    """Number of queries that see a key at each of `OFFSETS`."""
    far_pairs: Int[Tensor, ""]
    """Number of pairs of a query and a key that it sees at another offset."""
    queries: Int[Tensor, ""]
    """Number of all queries."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether tokens attend to tokens of the same text."""
        return bool(cls.classes) and attention.sides.is_self

    @classmethod
    def of(cls, attention: Attention) -> "ClassWeights":
        """The sums over one batch."""
        sides = attention.sides
        found, slots = sides.once(_counted(cls.classes, cls.of_content)), sides.once(Slots.of)
        weights_TBHQ = attention.class_weights_BHQT.movedim(-1, 0)
        sums = slots.sums(weights_TBHQ, found.is_case_TBQ)
        is_query_BQ = sides.queries.is_token_BN
        is_case_2TBQ = found.is_case_TBQ & sides.queries.is_half_2BN[:, None]
        cases_UT = slots.sums(found.is_case_TBQ[:, :, None], found.is_case_TBQ).second_UKH[..., 0]
        return cls(
            weight=sums.halves(),
            moments=Moments.of(sums.second_UKH, cases_UT.long(), slots),
            cases=is_case_2TBQ.sum((2, 3)),
            chance=(is_case_2TBQ * found.chance_TBQ).sum((2, 3)),
            near=(is_case_2TBQ[..., None] & found.near_TBQO).sum((2, 3)),
            far=(is_case_2TBQ * found.far_TBQ).sum((2, 3)),
            diagonal=over_queries(attention.diagonals_BHQO, is_query_BQ),
            diagonal_queries=(found.seen_BQO & is_query_BQ[..., None]).sum((0, 1)),
            far_pairs=((found.visible_BQ - found.seen_BQO.sum(-1)) * is_query_BQ).sum(),
            queries=is_query_BQ.sum(),
        )


def measure_of_traits(traits: Sequence[Trait]) -> type[ClassWeights]:
    """The measure that sums the weights on the classes of some traits."""
    return type("ClassWeights", (ClassWeights,), {"classes": tuple(traits), "__module__": __name__})


def classes_of(measure: type[Sums]) -> tuple[Trait, ...]:
    """The classes of keys that a measure sums the weights of."""
    return measure.classes if issubclass(measure, ClassWeights) else ()


@final
@dataclass(frozen=True, eq=False)
class _Counts:
    """What the tokens of a batch say of some classes, whatever heads do."""

    is_case_TBQ: Bool[Tensor, "trait batch query"]
    chance_TBQ: Float[Tensor, "trait batch query"]
    near_TBQO: Bool[Tensor, "trait batch query near"]
    far_TBQ: Int[Tensor, "trait batch query"]
    seen_BQO: Bool[Tensor, "batch query near"]
    visible_BQ: Int[Tensor, "batch query"]


@final
@dataclass(frozen=True)
class _counted:
    """Counts the keys of some classes, by blocks; one that equals it has found the same."""

    classes: tuple[Trait, ...]
    of_content: bool

    def __call__(self, sides: Sides) -> _Counts:
        parts = [*self._parts(sides)]
        joined = [
            torch.cat(each, -2 if each[0].ndim == 4 else -1) for each in zip(*parts, strict=True)
        ]
        return _Counts(*self._ordered(joined))

    def _parts(self, sides: Sides) -> Iterator[tuple[Tensor, ...]]:
        queries, keys = sides.queries, sides.keys
        num_queries, num_keys = queries.ids_BN.shape[1], keys.ids_BN.shape[1]
        place_K = torch.arange(num_keys, device=keys.ids_BN.device)
        for start in range(0, num_queries, AT_ONCE):
            part = slice(start, min(start + AT_ONCE, num_queries))
            place_Q1 = torch.arange(part.start, part.stop, device=keys.ids_BN.device)[:, None]
            is_key_BK = keys.is_content_BN if self.of_content else keys.is_token_BN
            sees_BQK = is_key_BK[:, None].expand(-1, len(place_Q1), -1)
            if sides.is_causal:
                sees_BQK = sees_BQK & (place_K <= place_Q1)
            is_at_OQK = torch.stack([place_K - place_Q1 == offset for offset in OFFSETS])
            seen_BQO = torch.stack([(sees_BQK & each).any(-1) for each in is_at_OQK], -1)
            visible_BQ = sees_BQK.sum(-1)
            is_query_BQ = queries.is_token_BN[:, part]
            if sides.is_causal:
                is_query_BQ = is_query_BQ & (place_Q1[:, 0] >= EARLY)
            everything = slice(0, len(keys.ids_BN))
            in_TBQK = torch.stack(
                [each.checked(sides, everything, part) & sees_BQK for each in self.classes]
            )
            size_TBQ = in_TBQK.sum(-1)
            near_TBQO = torch.stack([(in_TBQK & each).any(-1) for each in is_at_OQK], -1)
            is_case_TBQ = is_query_BQ & (size_TBQ > 0) & (size_TBQ < visible_BQ)
            chance_TBQ = size_TBQ.double() / visible_BQ.clamp_min(1)
            far_TBQ = size_TBQ - near_TBQO.sum(-1)
            yield is_case_TBQ, chance_TBQ, near_TBQO, far_TBQ, seen_BQO[None], visible_BQ

    @staticmethod
    def _ordered(parts: list[Tensor]) -> tuple[Tensor, ...]:
        *first, seen_1BQO, visible_BQ = parts
        return (*first, seen_1BQO[0], visible_BQ)


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
