"""Gradient of attention, by definition: change one weight a little, and see what the loss does.

Clark et al. (2019), section 3.2: "magnitude of the gradient of the loss with respect to each
attention weight", averaged over the weights on one kind of token.
"""

from collections.abc import Callable, Sequence


def slope(loss: Callable[[float], float], step: float = 1e-5) -> float:
    """|dL/dA| of the weight that `loss` adds a number to."""
    return abs(loss(step) - loss(-step)) / (2 * step)


def mean_by_kind(
    slopes: Sequence[tuple[str, float]], kinds: Sequence[str]
) -> dict[str, float | None]:
    """The mean of the slopes of weights on each kind of token; None if there are none."""
    found: dict[str, float | None] = {}
    for kind in kinds:
        of_kind = [each for name, each in slopes if name == kind]
        found[kind] = sum(of_kind) / len(of_kind) if of_kind else None
    return found
