"""Sums of weights on classes of keys, with what a test of them needs: see `key_classes`.

Measures of several classes share these sums: our own traits, which are measured together from what
the kernels reduce (`traits`, `patch_traits`), and those of plug-ins, whose keys are looked at block
by block (`ClassWeights`).
"""

from collections.abc import Iterator, Sequence
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
            sides.once(_counted(cls.classes, cls.of_content)),
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
class _counted:
    """Counts the keys of some classes, by blocks; one that equals it has found the same."""

    classes: tuple[Trait, ...]
    of_content: bool

    def __call__(self, sides: Sides) -> Counted:
        parts = zip(*self._parts(sides), strict=True)
        joined = [torch.cat(each, -2 if each[0].ndim == 4 else -1) for each in parts]
        is_case_TBQ, chance_TBQ, near_TBQO, far_TBQ, seen_1BQO, visible_BQ = joined
        is_query_BQ, seen_BQO = sides.queries.is_token_BN, seen_1BQO[0]
        is_case_2TBQ = is_case_TBQ & sides.queries.is_half_2BN[:, None]
        sums = ClassCases(
            cases=is_case_2TBQ.sum((2, 3)),
            chance=(is_case_2TBQ * chance_TBQ).sum((2, 3)),
            near=(is_case_2TBQ[..., None] & near_TBQO).sum((2, 3)),
            far=(is_case_2TBQ * far_TBQ).sum((2, 3)),
            diagonal_queries=(seen_BQO & is_query_BQ[..., None]).sum((0, 1)),
            far_pairs=((visible_BQ - seen_BQO.sum(-1)) * is_query_BQ).sum(),
        )
        return Counted.of(is_case_TBQ, sums, sides.once(Slots.of))

    def _parts(self, sides: Sides) -> Iterator[tuple[Tensor, ...]]:
        queries, keys = sides.queries, sides.keys
        num_queries, num_keys = queries.ids_BN.shape[1], keys.ids_BN.shape[1]
        place_K = torch.arange(num_keys, device=keys.ids_BN.device)
        can_be_TBQ = torch.stack([each.checked_cases(sides) for each in self.classes])
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
            is_query_TBQ = can_be_TBQ[..., part]
            if sides.is_causal:
                is_query_TBQ = is_query_TBQ & (place_Q1[:, 0] >= EARLY)
            everything = slice(0, len(keys.ids_BN))
            in_TBQK = torch.stack(
                [each.checked(sides, everything, part) & sees_BQK for each in self.classes]
            )
            size_TBQ = in_TBQK.sum(-1)
            near_TBQO = torch.stack([(in_TBQK & each).any(-1) for each in is_at_OQK], -1)
            is_case_TBQ = is_query_TBQ & (size_TBQ > 0) & (size_TBQ < visible_BQ)
            chance_TBQ = size_TBQ.double() / visible_BQ.clamp_min(1)
            far_TBQ = size_TBQ - near_TBQO.sum(-1)
            yield is_case_TBQ, chance_TBQ, near_TBQO, far_TBQ, seen_BQO[None], visible_BQ
