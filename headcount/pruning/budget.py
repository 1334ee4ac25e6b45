"""Budget: which heads can be pruned, and exactly how many."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import final

from headcount.compaction import compact
from headcount.core import Head, Heads, InputError, LayerId, Plan, amount, release_memory
from headcount.models import Loaded
from headcount.pruning.budget_spec import GivenKeep, Keep, check_share, dense
from headcount.tap import Anatomy

Unit = tuple[Head, ...]
"""Heads that are pruned together."""


@final
@dataclass(frozen=True)
class Units:
    """What can be pruned: single heads or, where heads share keys and values, entire groups.

    Alternatively, a layer keeps equally many heads of every group. Then each head is a unit, and
    one head of each of the layer's `groups` is pruned at once. Where all layers of a site keep
    equally many, their groups are those of one layer.
    """

    heads: Heads
    """All heads of the model; heads in no unit are kept."""
    units: tuple[Unit, ...]
    """Heads that share a score, a gate and a place in the order."""
    groups: tuple[tuple[Unit, ...], ...] = ()
    """For every layer that keeps equally many heads of each group: its groups, of equal size unless
    heads are protected."""
    protected: tuple[Head, ...] = ()
    """Heads that could be pruned but are kept whatever the budget; they are in no unit."""

    @classmethod
    def of(
        cls,
        anatomy: Anatomy,
        sites: Sequence[str] | None = None,
        whole_groups: bool = True,
        even: bool = False,
    ) -> "Units":
        """The units of some sites, or of all if None.

        Args:
            anatomy: anatomy of the model.
            sites: sites whose heads can be pruned.
            whole_groups: whether heads that share keys and values are pruned together; otherwise
                a layer keeps equally many heads of every group.
            even: whether all layers of a site keep equally many heads.

        Raises:
            InputError: for a site that the model does not have, or layers that can't be even.
        """
        heads = anatomy.heads
        if unknown := [site for site in sites or () if site not in heads.counts]:
            anatomy.check_saw_images(unknown[0])
            raise InputError(
                f"Expected a site of the model ({' or '.join(heads.counts)}), got {unknown[0]!r}."
            )
        units: list[Unit] = []
        evenly: list[tuple[Unit, ...]] = []
        for layer in anatomy.layers:
            if sites is None or layer.site in sites:
                size = layer.num_heads // layer.num_key_value_heads
                each = [Head(layer.site, layer.layer, index) for index in range(layer.num_heads)]
                step = len(each) if even and size == 1 else size
                shared = [tuple(each[i : i + step]) for i in range(0, len(each), step)]
                if (whole_groups or size == 1) and not even:
                    units += shared
                else:
                    units += [(head,) for head in each]
                    evenly.append(tuple(shared))
        if even:
            _check_can_be_even(anatomy, sites, whole_groups)
            evenly = _joined(evenly)
        return cls(heads, tuple(units), tuple(evenly))

    def protecting(self, protected: Iterable[Head]) -> "Units":
        """The units that hold none of some heads, which all methods keep.

        In a layer that keeps equally many heads of each group, no group loses more heads than the
        group with the most protected heads can lose.

        >>> heads = Heads({"decoder.self": (4,)})
        >>> pairs = tuple(tuple(heads)[i : i + 2] for i in (0, 2))
        >>> [str(head) for head in Units(heads, pairs).protecting([pairs[1][1]]).protected]
        ['dec.0.2', 'dec.0.3']
        """
        named = set(protected)
        kept = named.union(*(unit for unit in self.units if named.intersection(unit)))
        layers = [
            tuple(tuple(head for head in group if head not in kept) for group in groups)
            for groups in self.groups
        ]
        full = {head for groups in layers if not all(groups) for group in groups for head in group}
        kept |= full
        return Units(
            self.heads,
            tuple(unit for unit in self.units if not kept.intersection(unit)),
            tuple(groups for groups in layers if all(groups)),
            tuple(head for unit in self.units for head in unit if head in kept),
        )

    @property
    def sha256(self) -> str:
        """Hash of the names of the heads that can be pruned, unit by unit."""
        names = [list(map(str, unit)) for unit in self.units]
        return hashlib.sha256(json.dumps(names).encode()).hexdigest()

    def at(self, site: str | None) -> list[Unit]:
        """The units of one site, or all units for None."""
        return [unit for unit in self.units if site in (None, unit[0].site)]

    def named(self, keep: Keep) -> "Units":
        """The units that a budget covers: all, or those of the sites that it names."""
        if not isinstance(keep, Mapping):
            return self
        units = tuple(unit for site in keep for unit in self.at(site))
        groups = tuple(each for each in self.groups if _site(each) in keep)
        return replace(self, units=units, groups=groups)

    def alone(self) -> "Units":
        """The same units, without the heads of sites where none can be pruned or is protected.

        >>> heads = Heads({"encoder.self": (2,), "decoder.self": (3,)})
        >>> alone = Units(heads, tuple((head,) for head in heads if head.site[0] == "e")).alone()
        >>> len(alone.heads), len(alone.units)
        (2, 2)
        """
        could = (*self.protected, *(unit[0] for unit in self.units))
        sites = dict.fromkeys(head.site for head in could)
        heads = Heads({site: self.heads.counts[site] for site in sites})
        return replace(self, heads=heads)

    def tied(self) -> "Units":
        """Units for layers with equally many heads per group: one for each place in the groups.

        >>> heads = Heads({"decoder.self": (4,)})
        >>> first, second = tuple(heads)[:2], tuple(heads)[2:]
        >>> tied = Units(heads, tuple((head,) for head in heads), ((first, second),)).tied()
        >>> [list(map(str, unit)) for unit in tied.units]
        [['dec.0.0', 'dec.0.2'], ['dec.0.1', 'dec.0.3']]
        """
        rows = {row[0]: row for groups in self.groups for row in zip(*groups, strict=False)}
        others = {head for groups in self.groups for group in groups for head in group} - set(rows)
        units = (rows.get(unit[0], unit) for unit in self.units if unit[0] not in others)
        return replace(self, units=tuple(units), groups=())

    def sizes(self, site: str | None = None) -> list[int]:
        """Number of heads pruned at once, for everything prunable at one site or in all.

        >>> heads = Heads({"decoder.self": (4,)})
        >>> first, second = tuple(heads)[:2], tuple(heads)[2:]
        >>> Units(heads, tuple((head,) for head in heads), ((first, second),)).sizes()
        [2, 2]
        """
        return [len(unit) for unit in self.going(site, lambda head: 0.0)]

    def going(self, site: str | None, place: Callable[[Head], float]) -> list[Unit]:
        """What is pruned at once at one site or in all, lowest place first.

        A unit has the place of its first head. In a layer that keeps equally many heads of each
        group, the first head of every group is pruned at once, then the second of every group, as
        long as every group has one; each such set has the mean of its heads' places.

        Args:
            site: the site, or None for all.
            place: function that gives a head's place in the order.
        """
        evenly = [groups for groups in self.groups if site in (None, _site(groups))]
        rows = [
            row
            for groups in evenly
            for row in zip(*(sorted(group, key=place) for group in groups), strict=False)
        ]
        among = {head for groups in evenly for group in groups for head in group}
        places = {
            unit: min(map(place, unit)) for unit in self.at(site) if not among.intersection(unit)
        }
        places |= {row: sum(map(place, row)) / len(row) for row in rows}
        return sorted(places, key=places.__getitem__)

    def possible(self, site: str | None = None) -> list[int]:
        """Possible numbers of kept heads, at one site or in all, in ascending order.

        >>> heads = Heads({"encoder.self": (2, 4)})
        >>> pairs = [tuple(heads)[i : i + 2] for i in (0, 2)]
        >>> Units(heads, tuple(pairs)).possible()
        [2, 4, 6]
        """
        total = len(self.heads) if site is None else sum(self.heads.counts[site])
        return [total - going for going in reversed(_bits(_sums(self.sizes(site))))]


def _check_can_be_even(anatomy: Anatomy, sites: Sequence[str] | None, whole_groups: bool) -> None:
    """Check that the layers of each site are alike, and groups are not pruned as a whole.

    Raises:
        InputError: if they are not.
    """
    for site, counts in anatomy.heads.counts.items():
        layers = [each for each in anatomy.layers if each.site == site]
        if sites is not None and site not in sites:
            continue
        if len({(each.num_heads, each.num_key_value_heads) for each in layers}) > 1:
            raise InputError(
                f"Expected layers with equally many heads, to keep equally many (--even), got "
                f"{', '.join(map(str, counts))} at {site}. Leave --even out."
            )
        if whole_groups and layers[0].num_heads > layers[0].num_key_value_heads:
            raise InputError(
                f"Expected --no-groups beside --even, since at {site} several share keys and "
                "values: each group then keeps equally many heads, and all keys and values stay."
            )


def _joined(evenly: Sequence[tuple[Unit, ...]]) -> list[tuple[Unit, ...]]:
    """The groups of all layers of a site as those of one layer: one head of each is pruned."""
    found = defaultdict[str, list[Unit]](list)
    for groups in evenly:
        found[_site(groups)] += groups
    return [tuple(groups) for groups in found.values()]


def pruned_heads(order: Sequence[Head], units: Units, keep: GivenKeep) -> list[Head]:
    """The heads pruned under a budget: the first of an order that meet it exactly.

    Args:
        order: heads that can be pruned, in the order of pruning.
        units: what is pruned together. A unit has the place of its first head. A unit is skipped if
            the units after it could not make up the rest of the budget.
        keep: the budget.

    Raises:
        InputError: for a budget that the units can't meet; the error names the nearest possible.
    """
    place = {head: number for number, head in enumerate(order)}
    gone: list[Head] = []
    for site, number in by_site(units, keep).items():
        pool = units.going(site, place.__getitem__)
        total = len(units.heads) if site is None else sum(units.heads.counts[site])
        gone += [head for unit in _first(pool, total - number) for head in unit]
    return gone


def by_site(units: Units, keep: GivenKeep) -> Mapping[str | None, int]:
    """The budget of every site, or of None for all sites together, after a check of each.

    Raises:
        InputError: for a budget that the units can't meet; the error names the nearest possible.
    """
    given = dense(keep)
    budgets: dict[str | None, int] = {**given} if isinstance(given, Mapping) else {None: given}
    for site, number in budgets.items():
        if site is not None and not units.at(site):
            raise InputError(
                f"Expected a budget for a site where heads can be pruned ("
                f"{', '.join(_sites(units)) or 'no site'}), got one for {site!r}. Name one of "
                "these, or allow pruning at that site."
            )
        possible = units.possible(site)
        if number not in possible:
            raise InputError(
                f"Expected between {possible[0]} and {amount(possible[-1], 'head')} to keep "
                f"{'in all' if site is None else f'at {site}'}"
                f"{_in_groups(units, site)}, got {number}. The nearest is "
                f"{nearest(possible, number)}{_protected(units, site)}."
                f"{_by_single_heads(units, site, number)}"
            )
    return budgets


def share(units: Units, part: int | float) -> int:
    """The number of heads in all that are kept when a share of the prunable heads is kept.

    It is the nearest number that the units allow; of two equally near, the larger.

    Raises:
        InputError: for a share that is not between 0 and 1.
    """
    check_share(part)
    free = sum(map(len, units.units))
    return nearest(units.possible(), len(units.heads) - free + part * free)


def nearest(possible: Sequence[int], number: int | float) -> int:
    """The nearest possible number; of two equally near, the larger.

    >>> nearest([2, 4], 3)
    4
    """
    return min(possible, key=lambda each: (abs(each - number), -each))


def _first(pool: Sequence[Unit], number: int) -> list[Unit]:
    """The first units that sum to `number` heads, skipping units that make the sum impossible."""
    rests = [1]  # bit n: the units after this one can sum to n heads
    for unit in reversed(pool):
        rests.append(rests[-1] | rests[-1] << len(unit))
    taken = []
    for unit, behind in zip(pool, reversed(rests[:-1]), strict=True):
        if number >= len(unit) and behind >> (number - len(unit)) & 1:
            taken.append(unit)
            number -= len(unit)
    assert number == 0, "by_site accepts only budgets that can be met"
    return taken


def _sums(sizes: Sequence[int]) -> int:
    """A bit set in which bit n says that some of the sizes add up to n."""
    return reduce(lambda sums, size: sums | sums << size, sizes, 1)


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def _site(groups: tuple[Unit, ...]) -> str:
    """The site of the layer that has these groups."""
    return groups[0][0].site


def _sites(units: Units) -> list[str]:
    return list(dict.fromkeys(unit[0].site for unit in units.units))


def _in_groups(units: Units, site: str | None) -> str:
    sizes = sorted({*units.sizes(site)} - {1})
    return f", in groups of {' or '.join(map(str, sizes))}" if sizes else ""


def _by_single_heads(units: Units, site: str | None, number: int) -> str:
    """What is possible if heads that share keys and values need not be pruned together."""
    if not (layers := _by_layer(unit for unit in units.units if len(unit) > 1)):
        return ""
    single = tuple((head,) for unit in units.units for head in unit)
    groups = tuple(map(tuple, layers))
    possible = Units(units.heads, single, groups, units.protected).possible(site)
    whole = units.possible(site)
    shown = ", ".join(map(str, whole if len(whole) < 12 else [*whole[:3], "...", *whole[-3:]]))
    found = nearest(possible, number)
    if found == nearest(whole, number):
        return ""
    also = f"{number} is possible" if found == number else f"the nearest is {found}"
    return (
        f" Possible are {shown}, since heads that share keys and values are pruned together. "
        f"Without this (--no-groups, or whole_groups=False) {also}."
    )


def _protected(units: Units, site: str | None) -> str:
    number = sum(site in (None, head.site) for head in units.protected)
    return f"; {amount(number, 'head')} there {'is' if number == 1 else 'are'} protected" * bool(
        number
    )


def check_prunable(loaded: Loaded, units: Units | None = None) -> None:
    """Check that a model can be made smaller, by cutting one unit out of every layer as a trial.

    Meanwhile, the smaller model takes memory beside the original.

    Args:
        loaded: the model.
        units: what can be pruned; all of its heads, or groups, if None.

    Raises:
        ModelError: if the model can't be made smaller; the error says why.
    """
    units = units or Units.of(loaded.anatomy)
    pruned = {head for unit in _trial(units.tied()) for head in unit}
    plan = Plan.keeping(loaded.heads, [head for head in loaded.heads if head not in pruned])
    compact(loaded, plan, origin="trial")
    release_memory()


def _trial(units: Units) -> list[Unit]:
    """The last unit of every layer with several; if none has, all layers except the first."""
    layers = _by_layer(units.units)
    several = [each[-1] for each in layers if len(each) > 1]
    return several or [each[0] for each in layers[1:]]


def _by_layer(units: Iterable[Unit]) -> list[list[Unit]]:
    """The units of each layer."""
    layers = defaultdict[LayerId, list[Unit]](list)
    for unit in units:
        layers[unit[0].layer_id].append(unit)
    return [*layers.values()]
