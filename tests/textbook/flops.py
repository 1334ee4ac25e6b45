"""FLOPs of a Transformer layer, by hand: a multiplication and an addition are two.

Reference: Attention Is All You Need (Vaswani et al., 2017), section 3, for a layer's operations
"""


def of_product(rows: int, inner: int, columns: int) -> int:
    """A product of two matrices: for every row and column, `inner` products and sums."""
    count = 0
    for _row in range(rows):
        for _column in range(columns):
            count += 2 * inner
    return count


def of_attention(
    hidden: int, head_dim: int, heads: int, groups: int, queries: int, keys: int
) -> int:
    """Projections to queries, keys and values, scores, weighted sum of values, output projection.

    Keys and values are computed once per group of heads that shares them.
    """
    count = 0
    for _head in range(heads):
        count += of_product(queries, hidden, head_dim)
        count += of_product(queries, head_dim, keys)
        count += of_product(queries, keys, head_dim)
        count += of_product(queries, head_dim, hidden)
    for _group in range(groups):
        count += of_product(keys, hidden, head_dim)
        count += of_product(keys, hidden, head_dim)
    return count


def of_feed_forward(hidden: int, inner: int, tokens: int, maps: int = 2) -> int:
    """Two maps, or three if one of them is a gate."""
    return maps * of_product(tokens, hidden, inner)
