"""Heads: the names and the grid of a model's attention heads, and tables with one row a head."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final
from unicodedata import normalize

import numpy as np

from headcount.core.errors import InputError
from headcount.core.files import parquet, write_atomically, write_text
from headcount.core.wording import amount, visible

if TYPE_CHECKING:
    import pandas as pd


SITES = {
    "encoder.self": "enc",
    "decoder.self": "dec",
    "decoder.cross": "cross",
    "vision.self": "vision",
}
"""Every site with the short form used in head names, in the order of all tables."""

FEED_FORWARDS = ("encoder.mlp", "decoder.mlp", "vision.mlp")
"""Every kind of feed-forward network whose neurons can be pruned, in the order of all tables."""


class LayerId(NamedTuple):
    """One layer of heads: its site, and its number at that site from 0."""

    site: str
    layer: int


def layer_name(place: object) -> str:
    """A layer as it is named, `enc.3`; anything else that somebody gave as it is written.

    >>> layer_name(LayerId("encoder.self", 3)), layer_name(("nowhere", 3))
    ('enc.3', "('nowhere', 3)")
    """
    if isinstance(place, tuple) and len(place) == 2 and place[0] in SITES:
        return f"{SITES[place[0]]}.{place[1]}"
    return repr(place)


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

    A feed-forward network that is counted among heads is the only one of its layer.

    >>> str(Head("encoder.self", 3, 7)), str(Head("decoder.mlp", 3, 0))
    ('enc.3.7', 'mlp.3')
    """

    site: str
    layer: int
    index: int

    @property
    def layer_id(self) -> LayerId:
        """The layer that the head belongs to."""
        return LayerId(self.site, self.layer)

    def __str__(self) -> str:
        if self.site in FEED_FORWARDS:
            return f"mlp.{self.layer}"
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


PLACE = ("head", "site", "layer", "index")
"""Columns that name a head."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters with which a spreadsheet's formula begins; full-width and small forms of them, too."""
SHOWN, _SHOWN_ROWS = 5, 12
"""Numbers of columns in a `repr`, and of rows in a notebook."""


@final
@dataclass(frozen=True)
class HeadTable:
    """One row per head: `head site layer index`, then one column per measured number."""

    frame: "pd.DataFrame"

    def __repr__(self) -> str:
        columns = [str(name) for name in self.frame if name not in PLACE]
        shown = ", ".join(columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "")
        return f"HeadTable({amount(len(self.frame), 'head')}: {shown or 'no numbers'})"

    def _repr_html_(self) -> str:
        return self.frame.to_html(max_rows=_SHOWN_ROWS, index=False, border=0, float_format="%.4g")

    @classmethod
    def of(cls, heads: Heads, columns: Mapping[str, object]) -> "HeadTable":
        """A table of all `heads`; each column follows the iteration order of `heads`."""
        import pandas as pd  # only here: files are named and claimed without

        rows = [(str(head), head.site, head.layer, head.index) for head in heads]
        frame = pd.DataFrame(rows, columns=list(PLACE))
        return cls(frame.assign(**dict(columns)))

    @classmethod
    def read(cls, path: Path) -> "HeadTable":
        """The table in a file as it is: to hash it, or to copy it; `read_table` checks it, too."""
        return cls(parquet(path).to_pandas())

    def write(self, path: Path) -> None:
        """Write as Parquet, completely or not at all; the CSV of an earlier table is replaced."""
        beside = path.with_suffix(".csv")
        is_copied = beside.exists() and path.exists() and _is_copy(beside, path)
        if is_copied:
            beside.unlink()  # a run that is killed leaves no CSV of another table
        write_atomically(path, lambda file: self.frame.to_parquet(file, index=False))
        if is_copied:
            self.write_csv(beside)

    def write_csv(self, path: Path) -> None:
        """Write as CSV, completely or not at all; see `to_csv`."""
        write_text(path, self.to_csv())

    def to_csv(self) -> str:
        """The table as CSV: lists joined by "; ", nothing for a missing number.

        A text that a spreadsheet would run as a formula gets an apostrophe; signs stand for control
        characters.
        """
        frame = self.frame.apply(lambda column: column.map(_cell))
        frame.columns = [_cell(str(name)) for name in frame.columns]
        return visible(frame.to_csv(index=False, lineterminator="\n"))

    def row(self, head: str | Head) -> "pd.Series":
        """The row of one head, e.g. `table.row("enc.3.7")`."""
        sites = Heads(dict.fromkeys(self.frame["site"], ()))
        rows = self.frame[self.frame["head"] == str(sites.named(str(head)))]
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


def _is_copy(copy: Path, path: Path) -> bool:
    """Whether a file is the CSV of the table in a Parquet file."""
    try:
        return copy.read_text(encoding="utf-8") == HeadTable.read(path).to_csv()
    except (OSError, ValueError):  # damaged, or of another program
        return False


def _cell(value: object) -> object:
    """A value as a cell of a CSV."""
    if isinstance(value, np.ndarray | list | tuple):
        value = "; ".join(map(str, value))
    if isinstance(value, str) and normalize("NFKC", value[:1]).startswith(_FORMULA):
        return f"'{value}"
    return value
