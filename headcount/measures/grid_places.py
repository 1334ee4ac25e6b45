"""Places in a grid: where every patch of an image is, seen from every other.

Tokens before the patches have no place. A displacement is that of the key, in patches: one up and
none to the side is "above".
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from headcount.core import Grid
from headcount.measures.reductions import Sides

BESIDE = 1
"""Largest displacement, in rows and in columns, whose weights are counted on their own."""


def displacements(reach: int) -> list[tuple[int, int]]:
    """Displacements of up to `reach` rows and columns, row by row.

    >>> displacements(1)[:4]
    [(-1, -1), (-1, 0), (-1, 1), (0, -1)]
    """
    steps = range(-reach, reach + 1)
    return [(row, column) for row in steps for column in steps]


@final
@dataclass(frozen=True, eq=False)
class Places:
    """Rows and columns of all tokens of an image; -1 for those that are no patch."""

    row_N: Int64[Tensor, " token"]
    column_N: Int64[Tensor, " token"]
    is_patch_N: Bool[Tensor, " token"]

    @classmethod
    def of(cls, sides: Sides) -> "Places":
        """The places of the tokens of a batch of images."""
        assert sides.grid is not None
        return cls.in_grid(sides.grid, sides.keys.ids_BN.device)

    @classmethod
    def in_grid(cls, grid: Grid, device: torch.device | str = "cpu") -> "Places":
        """The places of the tokens of one image."""
        patch_N = torch.arange(grid.num_tokens, device=device) - grid.special
        is_patch_N = patch_N >= 0
        row_N = torch.where(is_patch_N, patch_N // grid.columns, -1)
        return cls(row_N, torch.where(is_patch_N, patch_N % grid.columns, -1), is_patch_N)

    def key_at(self, row: int, column: int) -> Int64[Tensor, " token"]:
        """The patch at a displacement from each token; -1 where there is none."""
        to_row_N, to_column_N = self.row_N + row, self.column_N + column
        num_rows, num_columns = int(self.row_N[-1]) + 1, int(self.column_N[-1]) + 1
        is_inside_N = self.is_patch_N & (to_row_N >= 0) & (to_row_N < num_rows)
        is_inside_N &= (to_column_N >= 0) & (to_column_N < num_columns)
        first = len(self.row_N) - num_rows * num_columns
        return torch.where(is_inside_N, first + to_row_N * num_columns + to_column_N, -1)

    def keys_at(self, reach: int) -> Int64[Tensor, "token displacement"]:
        """The patch at each of `displacements` from each token; -1 where there is none."""
        return torch.stack([self.key_at(*each) for each in displacements(reach)], -1)

    def is_same_row(self) -> Bool[Tensor, "token token"]:
        """Whether two tokens are patches in one row."""
        return (self.row_N[:, None] == self.row_N) & self.are_patches()

    def is_same_column(self) -> Bool[Tensor, "token token"]:
        """Whether two tokens are patches in one column."""
        return (self.column_N[:, None] == self.column_N) & self.are_patches()

    def distance(self) -> Float[Tensor, "token token"]:
        """Euclidean distance between two patches, in patches; 0 for other tokens."""
        rows = self.row_N[:, None] - self.row_N
        columns = self.column_N[:, None] - self.column_N
        return (rows**2 + columns**2).float().sqrt() * self.are_patches()

    def are_patches(self) -> Bool[Tensor, "token token"]:
        """Whether two tokens are both patches."""
        return self.is_patch_N[:, None] & self.is_patch_N


@final
@dataclass(frozen=True, eq=False)
class GridColumns:
    """What weights of patches are multiplied with, made once for a batch."""

    factors_QKM: Float[Tensor, "query key mass"]
    """1 for keys in the query's row, 1 for those in its column, 1 for all patches, distance."""
    beside_QO: Int64[Tensor, "query displacement"]
    """The patch at each displacement up to `BESIDE`; 0 where there is none."""
    has_beside_QO: Bool[Tensor, "query displacement"]

    @classmethod
    def of(cls, sides: Sides) -> "GridColumns":
        """The factors of the patches of a batch of images."""
        places = sides.once(Places.of)
        tables = [places.is_same_row(), places.is_same_column(), places.are_patches()]
        factors = torch.stack([*(each.float() for each in tables), places.distance()], -1)
        beside_QO = places.keys_at(BESIDE)
        return cls(factors, beside_QO.clamp_min(0), beside_QO >= 0)

    def reduced(
        self, weights_BHQK: Float[Tensor, "row head query key"], queries: slice
    ) -> tuple[Float[Tensor, "row head query displacement"], Float[Tensor, "row head query mass"]]:
        """Weights at each displacement, and the sums over patches, of some queries."""
        index_QO = self.beside_QO[queries].expand(*weights_BHQK.shape[:2], -1, -1)
        beside_BHQO = weights_BHQK.gather(-1, index_QO) * self.has_beside_QO[queries]
        factors_QKM = self.factors_QKM[queries].to(weights_BHQK.dtype)
        return beside_BHQO, torch.einsum("bhqk,qkm->bhqm", weights_BHQK, factors_QKM)
