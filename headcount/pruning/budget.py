"""Budget: what may go, and how much of it, exactly."""

import hashlib
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import SupportsIndex, final

from headcount.errors import InputError
from headcount.heads import Head, Heads
from headcount.models.anatomy import Anatomy

Keep = Mapping[str, int] | int
"""How many heads stay: in all, or at each site named (the others keep all of theirs)."""

GivenKeep = Mapping[str, SupportsIndex] | SupportsIndex
"""The same as a caller may give it: NumPy's whole numbers are taken too."""

Unit = tuple[Head, ...]
"""Heads that go together."""


@final
@dataclass(frozen=True)
class Units:
    """What may go: heads one by one, or, where heads share keys and values, whole groups.

    Or as many heads of every group: then each head is a unit, and a layer loses a head of each of
    its `groups` at once.
    """

    heads: Heads
    """All heads of the model; those in no unit stay."""
    units: tuple[Unit, ...]
    """Heads that have a score, a gate and a place in the order together."""
    groups: tuple[tuple[Unit, ...], ...] = ()
    """Of every layer that keeps as many heads of each group: its groups, equally large."""

    @classmethod
    def of(
        cls, anatomy: Anatomy, sites: Sequence[str] | None = None, whole_groups: bool = True
    ) -> "Units":
        """The units of some sites; of all if None.

        Args:
            anatomy: of the model.
            sites: whose heads may go.
            whole_groups: whether heads that share keys and values go together; otherwise a layer
                keeps as many heads of every group.

        Raises:
            InputError: for a site that the model does not have.
        """
        heads = anatomy.heads
        if unknown := [site for site in sites or () if site not in heads.counts]:
            raise InputError(
                f"a site of the model was expected, {' or '.join(heads.counts)}; came "
                f"{unknown[0]!r}"
            )
        units: list[Unit] = []
        evenly: list[tuple[Unit, ...]] = []
        for layer in anatomy.layers:
            if sites is None or layer.site in sites:
                size = layer.num_heads // layer.num_key_value_heads
                each = [Head(layer.site, layer.layer, index) for index in range(layer.num_heads)]
                shared = [tuple(each[i : i + size]) for i in range(0, len(each), size)]
                if whole_groups or size == 1:
                    units += shared
                else:
                    units += [(head,) for head in each]
                    evenly.append(tuple(shared))
        return cls(heads, tuple(units), tuple(evenly))

    @property
    def sha256(self) -> str:
        """Hash of the names of the heads that may go, unit by unit."""
        names = [list(map(str, unit)) for unit in self.units]
        return hashlib.sha256(json.dumps(names).encode()).hexdigest()

    def at(self, site: str | None) -> list[Unit]:
        """The units of one site; all of them for None."""
        return [unit for unit in self.units if site in (None, unit[0].site)]

    def named(self, keep: Keep) -> "Units":
        """Those that a budget is for: all, or the units of the sites that it names."""
        if not isinstance(keep, Mapping):
            return self
        units = tuple(unit for site in keep for unit in self.at(site))
        return Units(self.heads, units, tuple(each for each in self.groups if _site(each) in keep))

    def alone(self) -> "Units":
        """The same units without the heads of sites that lose none.

        >>> heads = Heads({"encoder.self": (2,), "decoder.self": (3,)})
        >>> alone = Units(heads, tuple((head,) for head in heads if head.site[0] == "e")).alone()
        >>> len(alone.heads), len(alone.units)
        (2, 2)
        """
        sites = dict.fromkeys(unit[0].site for unit in self.units)
        heads = Heads({site: self.heads.counts[site] for site in sites})
        return Units(heads, self.units, self.groups)

    def tied(self) -> "Units":
        """Where a layer keeps as many heads of each group, those at one place of each as one unit.

        >>> heads = Heads({"decoder.self": (4,)})
        >>> first, second = tuple(heads)[:2], tuple(heads)[2:]
        >>> tied = Units(heads, tuple((head,) for head in heads), ((first, second),)).tied()
        >>> [list(map(str, unit)) for unit in tied.units]
        [['dec.0.0', 'dec.0.2'], ['dec.0.1', 'dec.0.3']]
        """
        rows = {row[0]: row for groups in self.groups for row in zip(*groups, strict=True)}
        later = {head for row in rows.values() for head in row[1:]}
        units = (rows.get(unit[0], unit) for unit in self.units if unit[0] not in later)
        return Units(self.heads, tuple(units))

    def sizes(self, site: str | None = None) -> list[int]:
        """How many heads go at once, of everything that can go at one site or in all.

        >>> heads = Heads({"decoder.self": (4,)})
        >>> first, second = tuple(heads)[:2], tuple(heads)[2:]
        >>> Units(heads, tuple((head,) for head in heads), ((first, second),)).sizes()
        [2, 2]
        """
        return [len(unit) for unit in self.going(site, lambda head: 0.0)]

    def going(self, site: str | None, place: Callable[[Head], float]) -> list[Unit]:
        """What goes at once at one site or in all, first what has the lowest place.

        A unit has the place of its first head. A layer that keeps as many heads of each group loses
        the first of every group at once, then the second of every group; these have their mean.

        Args:
            site: None for all.
            place: of a head in the order.
        """
        evenly = [groups for groups in self.groups if site in (None, _site(groups))]
        rows = [
            row
            for groups in evenly
            for row in zip(*(sorted(group, key=place) for group in groups), strict=True)
        ]
        among = {head for row in rows for head in row}
        places = {
            unit: min(map(place, unit)) for unit in self.at(site) if not among.intersection(unit)
        }
        places |= {row: sum(map(place, row)) / len(row) for row in rows}
        return sorted(places, key=places.__getitem__)

    def possible(self, site: str | None = None) -> list[int]:
        """Numbers of heads that can stay, at one site or in all, least first.

        >>> heads = Heads({"encoder.self": (2, 4)})
        >>> pairs = [tuple(heads)[i : i + 2] for i in (0, 2)]
        >>> Units(heads, tuple(pairs)).possible()
        [2, 4, 6]
        """
        total = len(self.heads) if site is None else sum(self.heads.counts[site])
        return [total - going for going in reversed(_bits(_sums(self.sizes(site))))]


def leaving(order: Sequence[Head], units: Units, keep: GivenKeep) -> list[Head]:
    """The heads that go under a budget: the first of an order that meet it exactly.

    Args:
        order: heads that may go, in the order in which they go.
        units: what goes together. A unit has the place of its first head; one that would leave a
            rest which those behind it can't make up is passed over.
        keep: the budget.

    Raises:
        InputError: for a budget that the units can't meet; says the nearest that they can.
    """
    place = {head: number for number, head in enumerate(order)}
    gone: list[Head] = []
    for site, number in by_site(units, keep).items():
        pool = units.going(site, place.__getitem__)
        total = len(units.heads) if site is None else sum(units.heads.counts[site])
        gone += [head for unit in _first(pool, total - number) for head in unit]
    return gone


def by_site(units: Units, keep: GivenKeep) -> Mapping[str | None, int]:
    """The budget of every site, or of None for all together, each of which can be met.

    Raises:
        InputError: for a budget that the units can't meet; says the nearest that they can.
    """
    given = whole(keep)
    budgets: dict[str | None, int] = {**given} if isinstance(given, Mapping) else {None: given}
    for site, number in budgets.items():
        if site is not None and not units.at(site):
            raise InputError(
                f"heads that may go are at {', '.join(_sites(units)) or 'no site'}; came a budget "
                f"for {site!r}: name one of these, or let heads of that site go"
            )
        possible = units.possible(site)
        if number not in possible:
            raise InputError(
                f"between {possible[0]} and {possible[-1]} heads can stay "
                f"{'in all' if site is None else f'at {site}'}"
                f"{_in_groups(units, site)}; came {number}: the nearest is "
                f"{nearest(possible, number)}"
            )
    return budgets


def whole(keep: GivenKeep) -> Keep:
    """The same budget in Python's own numbers.

    Raises:
        InputError: for what is no whole number.
    """
    try:
        if isinstance(keep, Mapping):
            return {site: operator.index(number) for site, number in keep.items()}
        return operator.index(keep)
    except TypeError:
        raise InputError(
            f"a whole number of heads that stay, or one for every site, was expected; came {keep!r}"
        ) from None


def share(units: Units, part: int | float) -> int:
    """The number of heads in all that stay when a share of those that may go stays.

    The nearest that the units allow; the larger of two.

    Raises:
        InputError: for a share that is not between 0 and 1.
    """
    if not 0 <= part <= 1:
        raise InputError(f"a share of the heads between 0 and 1 was expected to stay; came {part}")
    free = sum(map(len, units.units))
    return nearest(units.possible(), len(units.heads) - free + part * free)


def nearest(possible: Sequence[int], number: int | float) -> int:
    """The nearest possible number; the larger of two.

    >>> nearest([2, 4], 3)
    4
    """
    return min(possible, key=lambda each: (abs(each - number), -each))


def _first(pool: Sequence[Unit], number: int) -> list[Unit]:
    """The first units with so many heads; a later one only where the rest would not come out."""
    rests = [1]  # bit n: n heads can be made up of the units behind
    for unit in reversed(pool):
        rests.append(rests[-1] | rests[-1] << len(unit))
    taken = []
    for unit, behind in zip(pool, reversed(rests[:-1]), strict=True):
        if number >= len(unit) and behind >> (number - len(unit)) & 1:
            taken.append(unit)
            number -= len(unit)
    assert number == 0, "by_site lets only budgets pass that can be met"
    return taken


def _sums(sizes: Sequence[int]) -> int:
    """Bit n is set where some of the sizes add up to n."""
    return reduce(lambda sums, size: sums | sums << size, sizes, 1)


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def _site(groups: tuple[Unit, ...]) -> str:
    """Of the layer that has these groups."""
    return groups[0][0].site


def _sites(units: Units) -> list[str]:
    return list(dict.fromkeys(unit[0].site for unit in units.units))


def _in_groups(units: Units, site: str | None) -> str:
    sizes = sorted({*units.sizes(site)} - {1})
    return f", in groups of {' or '.join(map(str, sizes))}" if sizes else ""
