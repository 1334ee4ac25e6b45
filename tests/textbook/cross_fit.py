"""Cross-fitting by definition: what each half chooses is measured on the other."""

from collections.abc import Sequence


def cross_fitted(losses: Sequence[Sequence[float]], half: Sequence[int]) -> tuple[int, int, float]:
    """The choice of the half, that of the rest, and the mean loss under the other's choice."""
    examples = range(len(losses[0]))
    rest = [n for n in examples if n not in half]

    def best(some: Sequence[int]) -> int:
        return min(range(len(losses)), key=lambda each: sum(losses[each][n] for n in some))

    one, other = best(half), best(rest)
    total = sum(losses[other][n] for n in half) + sum(losses[one][n] for n in rest)
    return one, other, total / len(examples)
