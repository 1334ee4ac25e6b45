"""What a decoder's key/value cache costs in memory, before and after pruning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.core import amount


@final
@dataclass(frozen=True)
class CachePart:
    """A part of the cache: all layers of one kind."""

    site: str
    """`decoder.self`, whose cache grows with every token read or written; or `decoder.cross`, whose
    cache grows with the source."""
    window: int | None
    """Largest number of tokens that these layers keep, by their sliding window; None for all."""
    bytes_per_token: int
    """Bytes of the keys and values of one token, summed over the layers."""


@final
@dataclass(frozen=True)
class CacheRecord:
    """The key/value cache of a dense and of a pruned model, in the same number format."""

    dtype: str
    """Number format of the keys and values, e.g. `float32`."""
    dense: tuple[CachePart, ...]
    """Parts of the dense model's cache."""
    pruned: tuple[CachePart, ...]
    """Parts of the pruned model's cache; a part without heads is missing."""

    @property
    def sentence(self) -> str:
        """The cost of a token before and after."""
        parts = [
            f"{name}: {before:,} before, {after:,} after"
            for name, before, after in cache_rows(self.dense, self.pruned)
        ]
        return f"Key/value cache in {self.dtype}, {'; '.join(parts)}."


def cache_rows(
    dense: Sequence[CachePart], pruned: Sequence[CachePart]
) -> list[tuple[str, int, int]]:
    """Every part in words, with the bytes a token of the dense and of the pruned model.

    >>> cache_rows([CachePart("decoder.self", 512, 96)], [])
    [('bytes a token, for the last 512 tokens', 96, 0)]
    """
    both = [
        {(each.site, each.window): each.bytes_per_token for each in parts}
        for parts in (dense, pruned)
    ]
    return [
        (_words(*place), both[0].get(place, 0), both[1].get(place, 0))
        for place in dict.fromkeys((*both[0], *both[1]))
    ]


def _words(site: str, window: int | None) -> str:
    token = "source token" if site == "decoder.cross" else "token"
    return f"bytes a {token}" + (
        "" if window is None else f", for the last {amount(window, 'token')}"
    )
