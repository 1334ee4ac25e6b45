"""A table with one row for each attention head of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final
from unicodedata import normalize

import numpy as np

from headcount.core.errors import InputError
from headcount.core.files import write_atomically, write_text
from headcount.core.heads import Head, Heads
from headcount.core.wording import amount, visible

if TYPE_CHECKING:
    import pandas as pd

PLACE = ("head", "site", "layer", "index")
"""Columns that name a head."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters with which a spreadsheet's formula begins; full-width and small forms of them, too."""
SHOWN, SHOWN_ROWS = 5, 12
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
        return self.frame.to_html(max_rows=SHOWN_ROWS, index=False, border=0, float_format="%.4g")

    @classmethod
    def of(cls, heads: Heads, columns: Mapping[str, object]) -> "HeadTable":
        """A table of all `heads`; each column follows the iteration order of `heads`."""
        import pandas as pd  # only here: files are named and claimed without

        rows = [(str(head), head.site, head.layer, head.index) for head in heads]
        frame = pd.DataFrame(rows, columns=list(PLACE))
        return cls(frame.assign(**dict(columns)))

    @classmethod
    def read(cls, path: Path) -> "HeadTable":
        """The table in a `heads.parquet`."""
        import pandas as pd

        return cls(pd.read_parquet(path))

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
    if isinstance(value, str) and normalize("NFKC", value[:1]).startswith(FORMULA):
        return f"'{value}"
    return value
