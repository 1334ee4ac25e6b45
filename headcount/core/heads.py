"""Heads: the names and the grid of a model's attention heads."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

from headcount.core.errors import InputError
from headcount.core.wording import amount

SITES = {
    "encoder.self": "enc",
    "decoder.self": "dec",
    "decoder.cross": "cross",
    "vision.self": "vision",
}
"""Every site with the short form used in head names, in the order of all tables."""


class LayerId(NamedTuple):
    """One layer of heads: its site, and its number at that site from 0."""

    site: str
    layer: int


_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def is_number(name: object) -> bool:
    """Whether a name in a file is a whole number, written in the one usual way.

    >>> [is_number(name) for name in ("10", "-3", "-0", "00", "٠", "1e3")]
    [True, True, False, False, False, False]
    """
    return isinstance(name, str) and _NUMBER.fullmatch(name) is not None


_NAME = re.compile(rf"({'|'.join(SITES.values())})\.(\d{{1,9}})\.(\d{{1,9}})")
_WITHOUT_SITE = re.compile(r"L(\d{1,9})H(\d{1,9})", re.ASCII)


def names_a_head(name: str) -> bool:
    """Whether a name has the form of a head's, with or without its site.

    >>> [names_a_head(name) for name in ("dec.23.3", "L23H3", "sink")]
    [True, True, False]
    """
    return any(form.fullmatch(name) for form in (_NAME, _WITHOUT_SITE))


@final
@dataclass(frozen=True)
class Head:
    """One attention head: site, layer and index, all 0-based.

    >>> str(Head("encoder.self", 3, 7))
    'enc.3.7'
    """

    site: str
    layer: int
    index: int

    @property
    def layer_id(self) -> LayerId:
        """The layer that the head belongs to."""
        return LayerId(self.site, self.layer)

    def __str__(self) -> str:
        return f"{SITES[self.site]}.{self.layer}.{self.index}"

    @classmethod
    def parse(cls, name: object) -> "Head":
        """The head with a name such as `enc.3.7`.

        >>> Head.parse("cross.0.2")
        Head(site='decoder.cross', layer=0, index=2)

        Raises:
            InputError: for anything but a site's short form with a layer and an index.
        """
        match = _NAME.fullmatch(name) if isinstance(name, str) and name.isascii() else None
        if match is None:
            raise InputError(
                "Expected a head such as enc.3.7, dec.0.1, cross.5.0 or vision.2.4 (site, layer, "
                f"index), got {name!r}."
            )
        sites = {short: site for site, short in SITES.items()}
        return cls(sites[match[1]], int(match[2]), int(match[3]))


@final
@dataclass(frozen=True)
class Heads:
    """The grid: how many heads each layer of each site has.

    >>> heads = Heads({"encoder.self": (2, 3)})
    >>> len(heads), [str(head) for head in heads][2:]
    (5, ['enc.1.0', 'enc.1.1', 'enc.1.2'])
    """

    counts: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer, by site."""

    def named(self, name: object) -> Head:
        """The head that somebody names: as tables do, or at the only site as `L3H7`.

        It need not be in the grid.

        >>> Heads({"decoder.self": (9,) * 30}).named("L23H3")
        Head(site='decoder.self', layer=23, index=3)

        Raises:
            InputError: for anything else.
        """
        match = _WITHOUT_SITE.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            return Head.parse(name)
        layer, index = map(int, match.groups())
        if len(self.counts) > 1:
            found = ", ".join(f"{SITES[site]}.{layer}.{index}" for site in self.counts)
            raise InputError(f"Expected one of {found}, got {name}. Name the kind of attention.")
        return Head(next(iter(self.counts)), layer, index)

    def __iter__(self) -> Iterator[Head]:
        for site in SITES:
            for layer, count in enumerate(self.counts.get(site, ())):
                for index in range(count):
                    yield Head(site, layer, index)

    def __len__(self) -> int:
        return sum(sum(counts) for counts in self.counts.values())

    def __contains__(self, head: Head) -> bool:
        counts = self.counts.get(head.site, ())
        return head.layer < len(counts) and head.index < counts[head.layer]

    def __str__(self) -> str:
        parts = []
        for site, counts in self.counts.items():
            each = str(counts[0]) if len(set(counts)) == 1 else "/".join(map(str, counts))
            heads = "head" if each == "1" else "heads"
            parts.append(f"{site} {amount(len(counts), 'layer')} x {each} {heads}")
        return ", ".join(parts)
