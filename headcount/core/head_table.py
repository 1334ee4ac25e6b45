"""A table with one row for each attention head of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd

from headcount.core.errors import InputError
from headcount.core.files import write_atomically
from headcount.core.heads import Head, Heads
from headcount.core.wording import amount

NAMES = ("head", "site", "layer", "index")
"""Columns that name a head."""
SHOWN, SHOWN_ROWS = 5, 12
"""Numbers of columns in a `repr`, and of rows in a notebook."""


@final
@dataclass(frozen=True)
class HeadTable:
    """One row per head: `head site layer index`, then one column per measured number."""

    frame: pd.DataFrame

    def __repr__(self) -> str:
        columns = [str(name) for name in self.frame if name not in NAMES]
        shown = ", ".join(columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "")
        return f"HeadTable({amount(len(self.frame), 'head')}: {shown or 'no numbers'})"

    def _repr_html_(self) -> str:
        return self.frame.to_html(max_rows=SHOWN_ROWS, index=False, border=0, float_format="%.4g")

    @classmethod
    def of(cls, heads: Heads, columns: Mapping[str, object]) -> "HeadTable":
        """A table of all `heads`; each column follows the iteration order of `heads`."""
        rows = [(str(head), head.site, head.layer, head.index) for head in heads]
        frame = pd.DataFrame(rows, columns=list(NAMES))
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
