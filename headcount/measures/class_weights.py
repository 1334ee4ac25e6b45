"""Sums of weights on classes of keys, with what a test of them needs: see `key_classes`.

Measures of several classes share these sums: our own traits, which are measured together from what
the kernels reduce (`traits`, `patch_traits`), and those of plug-ins, whose keys are looked at block
by block (`ClassWeights`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.corpora import EARLY
from headcount.measures.key_classes import Trait
from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import Sums, over_queries
from headcount.measures.units import Moments, Slots
from headcount.tap import Reduction

AT_ONCE = 256
"""Number of queries whose keys are looked at together."""


@dataclass(frozen=True)
class ClassCases:
    """Sums that the inputs alone say, whatever heads do."""

    cases: Int[Tensor, "half trait"]
    """Number of queries that are cases."""
    chance: Float[Tensor, "half trait"]
    """Sum over cases of the share of keys that are in the class."""
    near: Int[Tensor, "half trait near"]
    """Number of cases whose key at each of `OFFSETS` is in the class; for patches, at each
    displacement up to one row and one column."""
    far: Int[Tensor, "half trait"]
    """Number of other keys in the class, over cases."""
    diagonal_queries: Int[Tensor, " near"]
    """Number of queries that see a key at each of these offsets."""
    far_pairs: Int[Tensor, ""]
    """Number of pairs of a query and a key that it sees at another offset."""


def is_late(sides: Sides) -> Bool[Tensor, "batch query"]:
    """Which queries are tokens and, in causal models, not among the first `EARLY`."""
    is_query_BQ = sides.queries.is_token_BN
    place_Q = torch.arange(is_query_BQ.shape[1], device=is_query_BQ.device)
    return is_query_BQ & (place_Q >= (EARLY if sides.is_causal else 0))


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """What each query sees of each class: it is a case of those with keys inside and outside."""

    is_case_TBQ: Bool[Tensor, "trait batch query"]
    chance_TBQ: Float[Tensor, "trait batch query"]
    """Share of the keys that are in the class."""
    near_TBQO: Bool[Tensor, "trait batch query near"]
    """Whether the key at each of `OFFSETS` is."""
    far_TBQ: Int[Tensor, "trait batch query"]
    """Number of other keys that are."""

    @classmethod
    def of(cls, can_be_TBQ: Tensor, size_TBQ: Tensor, near_TBQO: Tensor, visible_BQ: Tensor):
        """By the number of keys that are in each class, and of all.

        Args:
            can_be_TBQ: which queries can be cases.
            size_TBQ: number of keys in each class.
            near_TBQO: as the field.
            visible_BQ: number of all keys.
        """
        return cls(
            can_be_TBQ & (size_TBQ > 0) & (size_TBQ < visible_BQ),
            size_TBQ.double() / visible_BQ.clamp_min(1),
            near_TBQO,
            size_TBQ - near_TBQO.sum(-1),
        )

    @classmethod
    def joined(cls, parts: Iterable["Seen"], dim: int) -> "Seen":
        """Those of further queries (2), or of further classes (0)."""
        columns = zip(*(vars(each).values() for each in parts), strict=True)
        return cls(*(torch.cat(each, dim) for each in columns))

    def counted(self, sides: Sides, near_BQO: Tensor, visible_BQ: Tensor) -> "Counted":
        """The sums over the cases of a batch.

        Args:
            sides: its tokens.
            near_BQO: whether there is a key at each of `OFFSETS`.
            visible_BQ: number of all keys.
        """
        is_query_BQ = sides.queries.is_token_BN
        is_case_2TBQ = self.is_case_TBQ & sides.queries.is_half_2BN[:, None]
        sums = ClassCases(
            cases=is_case_2TBQ.sum((2, 3)),
            chance=(is_case_2TBQ * self.chance_TBQ).sum((2, 3)),
            near=torch.stack(
                [(is_case_2TBQ & each).sum((2, 3)) for each in self.near_TBQO.unbind(-1)], -1
            ),
            far=(is_case_2TBQ * self.far_TBQ).sum((2, 3)),
            diagonal_queries=(near_BQO & is_query_BQ[..., None]).sum((0, 1)),
            far_pairs=((visible_BQ - near_BQO.sum(-1)) * is_query_BQ).sum(),
        )
        return Counted.of(self.is_case_TBQ, sums, sides.once(Slots.of))


@final
@dataclass(frozen=True, eq=False)
class Counted:
    """What the inputs of a batch say of some classes, whatever heads do."""

    is_case_TBQ: Bool[Tensor, "trait batch query"]
    cases_UT: Int[Tensor, "unit trait"]
    """Number of cases in each unit of the second half."""
    sums: ClassCases

    @classmethod
    def of(cls, is_case_TBQ: Tensor, sums: ClassCases, slots: Slots) -> "Counted":
        """With the cases of each unit."""
        cases = slots.sums(is_case_TBQ[:, :, None], is_case_TBQ)
        return cls(is_case_TBQ, cases.second_UKH[..., 0].long(), sums)


@dataclass(frozen=True)
class ClassSums(ClassCases, Sums):
    """Weight on classes of keys, by half of the corpus and by unit, and chance's share."""

    weight: Float[Tensor, "half trait head"]
    """Sum over cases of the weight on the class, or of another number of each query."""
    moments: Moments
    """Moments of the weight over units of the second half, by trait and head."""
    diagonal: Float[Tensor, "head near"]
    """Sum over all queries of the weight at each offset of `near`."""

    @classmethod
    def made(
        cls, weights_TBHQ: Tensor, counted: Counted, slots: Slots, diagonal: Tensor, **more: Tensor
    ) -> Any:
        """The sums over one batch.

        Args:
            weights_TBHQ: The number of each query, by trait.
            counted: The cases.
            slots: Where queries are added.
            diagonal: As the field.
            more: Further fields.
        """
        found = slots.sums(weights_TBHQ, counted.is_case_TBQ)
        moments = Moments.of(found.second_UKH, counted.cases_UT, slots)
        shared = vars(counted.sums) | {"diagonal": diagonal} | more
        return cls(weight=found.halves(), moments=moments, **shared)


@dataclass(frozen=True)
class ClassWeights(ClassSums):
    """Weight on classes of keys of any kind, and what chance has there."""

    needs = frozenset({Reduction.CLASS_WEIGHTS, Reduction.DIAGONALS})
    classes: ClassVar[tuple[Trait, ...]] = ()
    """The classes, in order."""
    of_content: ClassVar[bool] = False
    """Whether chance and position are those of a head that looks at content only."""

    queries: Int[Tensor, ""]
    """Number of all queries."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether tokens attend to tokens of the same text."""
        return bool(cls.classes) and attention.sides.is_self

    @classmethod
    def of(cls, attention: Attention) -> "ClassWeights":
        """The sums over one batch."""
        sides, is_query_BQ = attention.sides, attention.queries.is_token_BN
        return cls.made(
            attention.class_weights_BHQT.movedim(-1, 0),
            sides.once(_Counting(cls.classes, cls.of_content)),
            sides.once(Slots.of),
            over_queries(attention.diagonals_BHQO, is_query_BQ),
            queries=is_query_BQ.sum(),
        )


def measure_of_traits(traits: Sequence[Trait]) -> type[ClassWeights]:
    """The measure that sums the weights on the classes of some traits."""
    return type("ClassWeights", (ClassWeights,), {"classes": tuple(traits), "__module__": __name__})


def classes_of(measure: type[Sums]) -> tuple[Trait, ...]:
    """The classes of keys that a measure sums the weights of."""
    return measure.classes if issubclass(measure, ClassWeights) else ()


@final
@dataclass(frozen=True)
class _Counting:
    """Counts the keys of some classes, by blocks; one that equals it has found the same."""

    classes: tuple[Trait, ...]
    of_content: bool = False

    def __call__(self, sides: Sides) -> Counted:
        seen, near_BQO, visible_BQ = zip(*self._parts(sides), strict=True)
        return Seen.joined(seen, 2).counted(sides, torch.cat(near_BQO, 1), torch.cat(visible_BQ, 1))

    def _parts(self, sides: Sides) -> Iterator[tuple[Seen, Tensor, Tensor]]:
        queries, keys = sides.queries, sides.keys
        num_queries, num_keys = queries.ids_BN.shape[1], keys.ids_BN.shape[1]
        place_K = torch.arange(num_keys, device=keys.ids_BN.device)
        can_be_TBQ = torch.stack([each.checked_cases(sides) for each in self.classes])
        can_be_TBQ &= is_late(sides)
        for start in range(0, num_queries, AT_ONCE):
            part = slice(start, min(start + AT_ONCE, num_queries))
            place_Q1 = torch.arange(part.start, part.stop, device=keys.ids_BN.device)[:, None]
            is_key_BK = keys.is_content_BN if self.of_content else keys.is_token_BN
            sees_BQK = is_key_BK[:, None].expand(-1, len(place_Q1), -1)
            if sides.last_BQ is not None:
                sees_BQK = sees_BQK & (place_K <= sides.last_BQ[:, part, None])
            elif sides.is_causal:
                sees_BQK = sees_BQK & (place_K <= place_Q1)
            is_at_OQK = torch.stack([place_K - place_Q1 == offset for offset in OFFSETS])
            visible_BQ = sees_BQK.sum(-1)
            everything = slice(0, len(keys.ids_BN))
            in_TBQK = torch.stack(
                [each.checked(sides, everything, part) & sees_BQK for each in self.classes]
            )
            near_BQO, near_TBQO = (
                torch.stack([(each & is_at).any(-1) for is_at in is_at_OQK], -1)
                for each in (sees_BQK, in_TBQK)
            )
            seen = Seen.of(can_be_TBQ[..., part], in_TBQK.sum(-1), near_TBQO, visible_BQ)
            yield seen, near_BQO, visible_BQ
