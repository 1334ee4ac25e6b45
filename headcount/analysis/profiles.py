"""Profiles: how strongly each head shows each trait, between its null and what is attainable.

What is free to choose (a fixed offset; the relation and direction of a family; which cells are
tested at all) is chosen on the first half of the corpus. All other numbers are of the second half.

The *null* of a trait is the larger of two numbers: `chance` (a head that looks at no key in
particular; for a relation, its most frequent offset) and `position_null` (a head that looks at each
offset as often as this one does). *Attainable* is what a perfect head would have. The strength is

    (share - null) / (attainable - null),

0 for a head that is explained by its null and 1 for a perfect one, below 0 for less than the null.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headcount.analysis.frames import LookedAt
from headcount.analysis.images import PatchLayer
from headcount.analysis.profile_cells import (
    Cells,
    ProfileRow,
    chosen_rows,
    class_cells,
    look_cells,
    profile_frame,
    profile_rows,
    ratio,
)
from headcount.core import SITES, Grid, Heads, LayerId
from headcount.measures import (
    MEASURES,
    TRAITS,
    ClassWeights,
    FrameMoments,
    FrameTraits,
    Looks,
    Patterns,
    Positional,
    RelationTests,
    Sums,
    Syntactic,
    Totals,
    Traits,
    classes_of,
)
from headcount.statistics import ClusteredRates
from headcount.vocabulary import DIRECTIONS, LINK_DIRECTIONS, LINKS, NOT_SYNTAX, SYNTAX, TraitEntry
from headcount.vocabulary import TRAITS as ENTRIES


@final
@dataclass(frozen=True)
class RelationNames:
    """Names of relations and links, in the order of the sums, and traits of plug-ins."""

    relations: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    further: Mapping[str, TraitEntry] = field(default_factory=dict[str, TraitEntry])
    """Traits of plug-ins, by name."""

    @property
    def every(self) -> list[tuple[TraitEntry, str]]:
        """All of them, each with its trait."""
        return [
            *((SYNTAX, name) for name in self.relations),
            *((LINKS, name) for name in self.links),
        ]


def profile_table(
    heads: Heads,
    totals: Totals,
    named: RelationNames,
    grid: Grid | None = None,
    frame_ms: float | None = None,
) -> pd.DataFrame:
    """One row per head and trait, untested: see `judged`.

    Args:
        heads: the model's heads.
        totals: the sums of a pass.
        named: names of the relations and links, in the order of the sums.
        grid: patches of the images; None for sentences and sound.
        frame_ms: milliseconds of a frame of sound; None for sentences and images.
    """
    rows = list[ProfileRow]()
    for place, _ in layers_of(heads):
        rows += _Layer(place, totals, named, frame_ms).rows()
        rows += PatchLayer(place, totals, grid).rows()
    return _ordered(profile_frame(rows), [*map(str, heads)])


def with_rows(profiles: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """A profile table with further traits of the same heads, after those it has."""
    heads = list(dict.fromkeys([*profiles["head"], *more["head"]]))
    return _ordered(pd.concat([profiles, more]) if len(profiles) else more, heads)


def _ordered(table: pd.DataFrame, heads: Sequence[str]) -> pd.DataFrame:
    order = {head: number for number, head in enumerate(heads)}
    table = table.sort_values("head", key=lambda names: names.map(order), kind="stable")
    whole = dict.fromkeys(("offset", "cases", "units"), "Int64")
    return table.astype(whole).reset_index(drop=True)


@final
class _Layer:
    """The profiles of one layer's heads."""

    def __init__(
        self, place: LayerId, totals: Totals, named: RelationNames, frame_ms: float | None
    ) -> None:
        self.place, self.totals, self.named = place, totals, named
        self.keys = LookedAt.by(place.site, frame_ms)

    def _sums(self, measure: type[Sums]) -> Any:
        return self.totals.sums.get((measure, self.place))

    def rows(self) -> Iterator[ProfileRow]:
        looks, traits, tests = map(self._sums, (Looks, Traits, RelationTests))
        if looks is not None and self.keys.other is not None:
            yield from self._positional(looks, self.keys.other)
        if looks is not None and traits is not None:
            yield from self._classes(looks, traits)
        if tests is not None:
            yield from self._relations(tests)
        yield from self._further()
        if (moments := self._sums(FrameMoments)) is not None:
            yield from self.keys.moments(self.place, moments)

    # ------------------------------------------------------------ offsets

    def _positional(self, looks: Looks, other: TraitEntry) -> Iterator[ProfileRow]:
        reach = looks.cases.shape[1] // 2
        of = {offset: self._offset(looks, offset) for offset in range(-reach, reach + 1)}
        for offset, entry in self.keys.at_offsets.items():
            yield from profile_rows(self.place, entry, of[offset], offset=offset)
        best = _best_offsets(looks, self.keys.at_offsets).tolist()
        named = [*map(self.keys.at, best)]
        yield from chosen_rows(self.place, other, best, of.__getitem__, named)

    def _offset(self, looks: Looks, offset: int) -> Cells:
        reach = looks.cases.shape[1] // 2
        beside = [reach + o for o in (offset - 1, offset + 1) if abs(o) <= reach]
        return look_cells(
            looks, reach + offset, beside, self._share_at(offset, looks.hits.shape[1])
        )

    def _share_at(self, offset: int, count: int) -> np.ndarray:
        sums = self._sums(Positional)
        if sums is None:
            return np.full(count, np.nan)
        shares, middle = sums.shares().numpy(), sums.offsets.shape[1] // 2
        return shares[:, middle + offset] if abs(offset) <= middle else np.zeros(count)

    # ------------------------------------------------------------ classes of keys

    def _classes(self, looks: Looks, traits: Traits) -> Iterator[ProfileRow]:
        count = traits.weight.shape[-1]
        by_position = _position_nulls(looks, traits)
        for t, trait in enumerate(TRAITS):
            entry = self.keys.classes.get(trait)
            if entry is None:
                continue
            paper = self._column(entry.column, count) if entry.column else None
            score = self._blocks() if trait == "segment" else None
            cells = class_cells(traits, t, by_position[:, t], paper, score)
            yield from profile_rows(self.place, entry, cells)

    def _column(self, name: str, count: int) -> np.ndarray:
        """A column of the head table for this layer; NaN where it was not measured."""
        sums = self._sums(next(each for each in MEASURES if name in each.names()))
        return np.full(count, np.nan) if sums is None else sums.value()[name].numpy()

    def _blocks(self) -> np.ndarray | None:
        sums = self._sums(Patterns)
        return None if sums is None else sums.second_block().numpy()

    def _further(self) -> Iterator[ProfileRow]:
        """The rows of plug-ins' traits."""
        for (kind, place), sums in self.totals.sums.items():
            if place == self.place and isinstance(sums, ClassWeights):
                by_position = ratio(_by_offset(sums), sums.cases.numpy()[..., None])
                for t, trait in enumerate(classes_of(kind)):
                    cells = class_cells(sums, t, by_position[:, t])
                    entry = self.named.further.get(trait.name) or ENTRIES[trait.name]
                    more = self.keys.nearby if kind is FrameTraits else {}
                    yield from profile_rows(self.place, entry, cells, **more)

    # ------------------------------------------------------------ relations

    def _relations(self, tests: RelationTests) -> Iterator[ProfileRow]:
        families: dict[tuple[str, str], list[list[ProfileRow]]] = {}
        paper = self._accuracies()
        for r, (entry, relation) in enumerate(self.named.every):
            is_syntax = entry == SYNTAX
            if (is_syntax and relation in NOT_SYNTAX) or not int(tests.offsets[1, r].sum()):
                continue
            names = DIRECTIONS if is_syntax else LINK_DIRECTIONS
            for d, (side, direction) in enumerate(zip(DIRECTIONS, names, strict=True)):
                cells = self._relation(tests, r, d, side, paper)
                found = {"relation": relation, "direction": direction}
                rows = [*profile_rows(self.place, entry, cells, **found)]
                families.setdefault((entry.key, rows[0].trait), []).append(rows)
        for candidates in families.values():
            for rows in zip(*candidates, strict=True):
                yield max(rows, key=_first_gain)

    def _relation(
        self, tests: RelationTests, r: int, d: int, direction: str, paper: np.ndarray | None
    ) -> Cells:
        hits, cases = tests.hits[:, r, :, d].numpy(), tests.cases[:, r].numpy()
        baseline = ratio(tests.baseline[:, r].numpy(), cases)
        gains = hits[1] - float(tests.baseline[1, r])
        gain = tests.moments_of(d).rates(gains, int(cases[1]), r)
        at_offset_O = tests.offsets[1, r].double().numpy() / max(int(cases[1]), 1)
        # Two offsets can be nearly as frequent: the better one in the second half counts
        fixed = max(float(baseline[1]), float(at_offset_O[:-2].max()))
        habit_HO = _word_habits(*tests.habit(r, d), direction)
        return Cells(
            ClusteredRates(gain.rate_H + baseline[1], gain.error_H, gain.units),
            chance=fixed,
            position_null=habit_HO @ at_offset_O,
            first_share=ratio(hits[0], cases[0]),
            first_null=float(baseline[0]),
            cases=int(cases[1]),
            paper_share=np.full(len(gains), np.nan) if paper is None else paper[r, :, d],
            attainable=tests.seen_share(r, d),
        )

    def _accuracies(self) -> np.ndarray | None:
        """Accuracy on the whole corpus by relation, head and direction."""
        sums = self._sums(Syntactic)
        if sums is None:
            return None
        return (sums.correct / sums.cases[:, None, None]).numpy()


def _first_gain(row: ProfileRow) -> float:
    gain = row.cell.first_gain
    return -np.inf if np.isnan(gain) else gain


def _best_offsets(looks: Looks, named: Mapping[int, TraitEntry]) -> np.ndarray:
    """The offset without a trait of its own that each head hits most often in the first half."""
    reach = looks.cases.shape[1] // 2
    free = set(range(-reach, reach + 1)) - named.keys()
    far = sorted(free, key=lambda o: (abs(o), o))
    order = torch.tensor(far)
    return order[looks.hits[0][:, order + reach].max(-1).indices].numpy()


def _by_offset(traits: Traits | ClassWeights) -> np.ndarray:
    """What each head would give by its weights at offsets, over cases: [half, trait, head]."""
    weight_HO = ratio(traits.diagonal.numpy(), traits.diagonal_queries.numpy())
    far_H = int(traits.queries) - traits.diagonal.sum(-1).numpy()
    far_H = far_H / max(int(traits.far_pairs), 1)
    near_2TO, far_2T = traits.near.double().numpy(), traits.far.double().numpy()
    return near_2TO @ np.nan_to_num(weight_HO).T + far_2T[..., None] * far_H


def _position_nulls(looks: Looks, traits: Traits) -> np.ndarray:
    """What each head would have by the offsets it looks at: [half, trait, head]."""
    found = _by_offset(traits)
    hits_HO, cases_O = looks.hits.sum(0).double().numpy(), looks.cases.sum(0).numpy()
    far_pairs = max(int(looks.far_pairs.sum()), 1)
    habit_HO = np.nan_to_num(ratio(hits_HO[:, :-1], cases_O))
    habit_HO = np.concatenate([habit_HO, *[hits_HO[:, -1:] / far_pairs] * 2], -1)
    found[:, TRAITS.index("rare")] = traits.rare_offsets.double().numpy() @ habit_HO.T
    return ratio(found, traits.cases.numpy()[..., None])


def _word_habits(looks: Tensor, words: Tensor, direction: str) -> np.ndarray:
    """How often each head looks at each offset head - dependent that exists: [head, offset]."""
    looks_HO, pairs_O = looks.double().numpy(), words.double().numpy()
    habit_HO = np.nan_to_num(ratio(looks_HO[:, :-1], pairs_O[:-2]))
    if direction == "head->dependent":
        habit_HO = habit_HO[:, ::-1]
    far_H1 = looks_HO[:, -1:] / max(pairs_O[-2:].sum(), 1)
    return np.concatenate([habit_HO, far_H1, far_H1], -1)


def layers_of(heads: Heads) -> list[tuple[LayerId, int]]:
    """The layers of a model, site by site, with the number of heads of each."""
    return [
        (LayerId(site, layer), count)
        for site in SITES
        for layer, count in enumerate(heads.counts.get(site, ()))
    ]
