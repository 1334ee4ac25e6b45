"""Word alignment in the papers' words, one word and one link at a time."""

from collections.abc import Sequence

import numpy as np


def link_map(
    attention: np.ndarray, target_of: Sequence[int], source_of: Sequence[int]
) -> np.ndarray:
    """Attention from a target word to a source word: keys summed, queries averaged."""
    num_targets, num_sources = max(target_of) + 1, max(source_of) + 1
    found = np.zeros((num_targets, num_sources))
    for target in range(num_targets):
        rows = [i for i, word in enumerate(target_of) if word == target]
        for source in range(num_sources):
            for i in rows:
                for j, word in enumerate(source_of):
                    if word == source:
                        found[target, source] += attention[i, j] / len(rows)
    return found


def links(word_map: np.ndarray, sources: Sequence[int]) -> set[tuple[int, int]]:
    """A link from every target word to the source word, of some, with its largest value."""
    found = set()
    for target, row in enumerate(word_map):
        best = max(sources, key=lambda source: (row[source], -source))
        found.add((best, target))
    return found


def alignment_error_rate(
    found: set[tuple[int, int, int]],
    sure: set[tuple[int, int, int]],
    possible: set[tuple[int, int, int]],
) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|), over the links of all pairs."""
    return 1 - (len(found & sure) + len(found & possible)) / (len(found) + len(sure))


def norm_of_sum(
    attention: np.ndarray, values: np.ndarray, outputs: np.ndarray, query: int, key: int
) -> float:
    """Norm of the sum over heads of A f(x), for one query and one key."""
    total = np.zeros(outputs.shape[2])
    for head in range(len(attention)):
        total += attention[head, query, key] * (values[head, key] @ outputs[head])
    return float(np.linalg.norm(total))
