"""Counts: what attention modules remember of their number of heads, by the names they use for it.

Most modules reshape by the size of a head and read none of these; the others would go wrong.
"""

from torch import nn

NUM_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
NUM_KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
GROUP_SIZE = ("num_key_value_groups",)
WIDTH = ("all_head_size", "inner_dim", "split_size")
"""Of all heads together. GPT-2 splits its fused map by it."""


def recounted(module: nn.Module, heads: int, key_value_heads: int, width: int) -> dict[str, int]:
    """The module's attributes for other numbers of heads, those only that it has.

    Args:
        module: an attention module.
        heads: query heads that it is to have.
        key_value_heads: key/value heads that it is to have.
        width: of all query heads together.
    """
    values = dict.fromkeys(NUM_HEADS, heads) | dict.fromkeys(NUM_KEY_VALUE_HEADS, key_value_heads)
    values |= dict.fromkeys(GROUP_SIZE, heads // key_value_heads) | dict.fromkeys(WIDTH, width)
    return {name: value for name, value in values.items() if name in vars(module)}
