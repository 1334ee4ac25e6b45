"""Grid: the patches that a Vision Transformer cuts an image into, and the tokens before them."""

from dataclasses import dataclass
from typing import final

from headcount.core.errors import InputError
from headcount.core.wording import amount


@final
@dataclass(frozen=True)
class Grid:
    """Patches row by row, after the special tokens (class, distillation and register tokens).

    >>> Grid(rows=2, columns=3, special=1).labels()
    ['[CLS]', 'r1c1', 'r1c2', 'r1c3', 'r2c1', 'r2c2', 'r2c3']
    """

    rows: int
    """Number of rows of patches."""
    columns: int
    """Number of patches in a row."""
    special: int
    """Number of tokens before the first patch; the first of them is the class token."""

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1 or self.special < 0:
            raise InputError(
                f"Expected at least 1 row and 1 column of patches, got {self.rows} x "
                f"{self.columns} after {amount(self.special, 'special token')}. Give "
                "positive numbers."
            )

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return self.rows * self.columns

    @property
    def num_tokens(self) -> int:
        """Number of tokens of every image, special ones included."""
        return self.special + self.num_patches

    def labels(self) -> list[str]:
        """The names of the tokens: `r3c5` is the patch in row 3 and column 5, counted from 1."""
        special = ["[CLS]", *(f"[special {n}]" for n in range(2, self.special + 1))]
        rows, columns = (range(1, number + 1) for number in (self.rows, self.columns))
        return special[: self.special] + [f"r{r}c{c}" for r in rows for c in columns]
