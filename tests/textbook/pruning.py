"""Pruning in the papers' words: one head after the other, everything measured again each time.

References: Michel et al. 2019, section 4.2, https://arxiv.org/abs/1905.10650 (greedy pruning);
Kwon et al. 2022, section 4.1, https://arxiv.org/abs/2204.09656 (diagonal Fisher information).
"""

from collections.abc import Callable, Sequence
from itertools import combinations


def greedy_order(units: Sequence[tuple], loss_without: Callable[[list], float]) -> list[tuple]:
    """Remove the unit without which the loss is lowest, then the next one, until none is left."""
    gone: list[tuple] = []
    while len(gone) < len(units):
        best = None
        for unit in units:
            if unit in gone:
                continue
            loss = loss_without([head for each in [*gone, unit] for head in each])
            if best is None or loss < best[0]:
                best = (loss, unit)
        assert best is not None
        gone.append(best[1])
    return gone


def fisher(derivatives: Sequence[float]) -> float:
    """Mean over examples of the squared derivative of the example's loss."""
    total = 0.0
    for derivative in derivatives:
        total += derivative * derivative
    return total / len(derivatives)


def possible(total: int, sizes: Sequence[int]) -> list[int]:
    """Possible numbers of kept heads, found by trying every set of pruned units."""
    found = set()
    for number in range(len(sizes) + 1):
        for going in combinations(range(len(sizes)), number):
            found.add(total - sum(sizes[unit] for unit in going))
    return sorted(found)
