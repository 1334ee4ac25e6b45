"""Groups: the heads that a layer may keep if its query heads share key/value heads.

transformers has one number of query heads per key/value head in a layer. So a layer keeps whole
groups, or the same number of query heads of every kept group.
"""

from collections.abc import Sequence

from headcount.errors import InputError
from headcount.heads import Head
from headcount.models.anatomy import AttentionLayer


def kept_groups(layer: AttentionLayer, kept: Sequence[int]) -> tuple[int, ...]:
    """The kept key/value heads.

    Raises:
        InputError: If groups would keep unequal numbers; the message names the nearest choice.
    """
    counts = _counts(layer, kept)
    if len(set(counts) - {0}) > 1:
        size = layer.num_heads // layer.num_key_value_heads
        nearest = ", ".join(
            str(Head(layer.site, layer.layer, index)) for index in nearest_kept(layer, kept)
        )
        raise InputError(
            f"{layer.site} layer {layer.layer}: {size} query heads share a key/value head. "
            "Expected the same number of heads in each kept group, got "
            f"{', '.join(map(str, counts))}. The nearest choice is to keep {nearest or 'none'}."
        )
    return tuple(group for group, count in enumerate(counts) if count)


def nearest_kept(layer: AttentionLayer, kept: Sequence[int]) -> list[int]:
    """The possible choice with the fewest changes; of equal choices, the one with more heads."""
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
