"""Bytes of a key/value cache, counted number by number.

Reference: Fast Transformer Decoding: One Write-Head is All You Need (Shazeer, 2019), section 2.4,
https://arxiv.org/abs/1911.02150
"""

from collections.abc import Sequence


def bytes_per_token(groups: Sequence[int], head_dim: int, bytes_per_number: int) -> int:
    """What one token adds to the cache: in every layer a key and a value for every group."""
    count = 0
    for layer in groups:
        for _group in range(layer):
            for _tensor in ("key", "value"):
                for _dimension in range(head_dim):
                    count += bytes_per_number
    return count
