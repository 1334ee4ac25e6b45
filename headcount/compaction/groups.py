"""Groups: what may stay of a layer whose query heads share key/value heads.

transformers knows one number of query heads per key/value head in a layer, so a layer keeps whole
groups, or the same number of query heads of every group that stays.
"""

from collections.abc import Sequence

from headcount.errors import InputError
from headcount.heads import Head
from headcount.models.anatomy import AttentionLayer


def kept_groups(layer: AttentionLayer, kept: Sequence[int]) -> tuple[int, ...]:
    """The key/value heads that stay.

    Raises:
        InputError: if groups would be left with unequal numbers; says the nearest that can be.
    """
    counts = _counts(layer, kept)
    if len(set(counts) - {0}) > 1:
        size = layer.num_heads // layer.num_key_value_heads
        nearest = ", ".join(
            str(Head(layer.site, layer.layer, index)) for index in nearest_kept(layer, kept)
        )
        raise InputError(
            f"{layer.site} layer {layer.layer}: {size} query heads share a key/value head, and a "
            "layer keeps the same number of each group that stays; the plan keeps "
            f"{', '.join(map(str, counts))} of its groups; the nearest that can be is to keep "
            f"{nearest or 'none'}"
        )
    return tuple(group for group, count in enumerate(counts) if count)


def nearest_kept(layer: AttentionLayer, kept: Sequence[int]) -> list[int]:
    """The heads that can be kept with the fewest changes, rather one more head than one less."""
    size = layer.num_heads // layer.num_key_value_heads
    options = [_evened(layer, kept, number) for number in range(1, size + 1)]
    wanted = set(kept)
    return min(options, key=lambda option: (len(wanted ^ set(option)), -len(option)))


def _evened(layer: AttentionLayer, kept: Sequence[int], number: int) -> list[int]:
    """`number` heads of every group, or none where dropping the group changes less."""
    size = layer.num_heads // layer.num_key_value_heads
    heads: list[int] = []
    for first in range(0, layer.num_heads, size):
        group = range(first, first + size)
        inside = [head for head in group if head in kept]
        others = [head for head in group if head not in kept]
        if abs(number - len(inside)) <= len(inside):
            heads += sorted((inside + others)[:number])
    return heads


def _counts(layer: AttentionLayer, kept: Sequence[int]) -> list[int]:
    size = layer.num_heads // layer.num_key_value_heads
    counts = [0] * layer.num_key_value_heads
    for head in kept:
        counts[head // size] += 1
    return counts
