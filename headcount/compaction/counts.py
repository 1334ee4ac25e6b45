"""Counts: attributes in which attention modules store their number of heads.

Most modules reshape by the size of a head and read none of these. The others need them updated.
"""

from torch import nn

NUM_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
NUM_KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
GROUP_SIZE = ("num_key_value_groups",)
WIDTH = ("all_head_size", "inner_dim", "split_size")
"""Names for the width of all heads together. GPT-2 splits its fused map by it."""


def recounted(module: nn.Module, heads: int, key_value_heads: int, width: int) -> dict[str, int]:
    """New values of the attributes that a module has, for other numbers of heads.

    Args:
        module: Attention module.
        heads: New number of query heads.
        key_value_heads: New number of key/value heads.
        width: New width of all query heads together.
    """
    values = dict.fromkeys(NUM_HEADS, heads) | dict.fromkeys(NUM_KEY_VALUE_HEADS, key_value_heads)
    values |= dict.fromkeys(GROUP_SIZE, heads // key_value_heads) | dict.fromkeys(WIDTH, width)
    return {name: value for name, value in values.items() if name in vars(module)}
