"""Heads: the names and the grid of a model's attention heads, and a table over all of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd

from headcount.core.errors import InputError
from headcount.core.files import write_atomically

SITES = {"encoder.self": "enc", "decoder.self": "dec", "decoder.cross": "cross"}
"""Every site with the short form used in head names, in the order of all tables."""

Place = tuple[str, int]
"""Site and layer."""

_NAME = re.compile(r"(enc|dec|cross)\.(\d+)\.(\d+)")


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

    def __str__(self) -> str:
        return f"{SITES[self.site]}.{self.layer}.{self.index}"

    @classmethod
    def parse(cls, name: str) -> "Head":
        """The head with a name such as `enc.3.7`.

        >>> Head.parse("cross.0.2")
        Head(site='decoder.cross', layer=0, index=2)

        Raises:
            InputError: for anything but `enc`, `dec` or `cross` with a layer and an index.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise InputError(
                f"Expected a head such as enc.3.7, dec.0.1 or cross.5.0 (site, layer, index), "
                f"got {name!r}."
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
            parts.append(f"{site} {len(counts)} layers x {each} heads")
        return ", ".join(parts)


@final
@dataclass(frozen=True)
class HeadTable:
    """One row per head: `head site layer index`, then one column per measured number."""

    frame: pd.DataFrame

    @classmethod
    def of(cls, heads: Heads, columns: Mapping[str, object]) -> "HeadTable":
        """A table of all `heads`; each column follows the iteration order of `heads`."""
        rows = [(str(head), head.site, head.layer, head.index) for head in heads]
        frame = pd.DataFrame(rows, columns=["head", "site", "layer", "index"])
        return cls(frame.assign(**dict(columns)))

    @classmethod
    def read(cls, path: Path) -> "HeadTable":
        """The table in a `heads.parquet`."""
        return cls(pd.read_parquet(path))

    def write(self, path: Path) -> None:
        """Write as parquet, completely or not at all."""
        write_atomically(path, lambda file: self.frame.to_parquet(file, index=False))

    def row(self, head: str | Head) -> pd.Series:
        """The row of one head, e.g. `table.row("enc.3.7")`."""
        rows = self.frame[self.frame["head"] == str(head)]
        if rows.empty:
            raise InputError(
                f"Expected a head of this table ({self.frame['head'][0]}"
                f" to {self.frame['head'].iloc[-1]}), got {head}."
            )
        return rows.iloc[0]

    def grid(self, site: str, column: str) -> np.ndarray:
        """One column as an array [layer, index], NaN in layers with fewer heads."""
        rows = self.frame[self.frame["site"] == site]
        grid = rows.pivot(index="layer", columns="index", values=column)
        # A layer without heads has no rows
        num_layers = max(rows["layer"], default=-1) + 1
        return grid.reindex(range(num_layers)).to_numpy(dtype=float)
