"""Head gates: the interface of gates that take part in a training."""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float
from torch import Tensor, distributed, nn

from headcount.gates.layout import Layout
from headcount.tap import Gates


class HeadGates(nn.Module, ABC):
    """A module whose parameters are those of the gates.

    Its state, which checkpoints hold, is all that a resumed training needs: also which noise comes
    next.
    """

    @abstractmethod
    def forward(self) -> Gates:
        """The gates of one batch: drawn in training mode, those of evaluation otherwise.

        Raises:
            ModelError: for a gate that is not a finite number; names the head.
        """

    @abstractmethod
    def penalty(self) -> Float[Tensor, ""]:
        """What joins the loss (nats, or the loss's own unit)."""

    @abstractmethod
    def advance(self, share: int | float) -> None:
        """Set schedules before a step, when so large a share of the training is done."""

    @abstractmethod
    def settle(self) -> None:
        """Move what an optimizer does not, after a step."""

    @abstractmethod
    def numbers(self) -> dict[str, float]:
        """What a log says of the gates."""


class LearnedGates(HeadGates):
    """Gates by which heads are chosen."""

    layout: Layout
    """Which heads share a gate."""

    @abstractmethod
    def scores(self) -> Float[Tensor, " unit"]:
        """A number for every gate; those that have the highest stay."""


def uniform_noise(
    seed: int, num_draws: Tensor, size: int, eps: float
) -> Float[np.ndarray, " unit"]:
    """Numbers between eps and 1 - eps; each draw of each process has its own.

    Process r of P takes the noise of draw P n + r for its n-th: P processes draw as one process
    does that accumulates the gradients of P batches.
    """
    joined = distributed.is_available() and distributed.is_initialized()
    rank, world = (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)
    generator = np.random.default_rng((seed, int(num_draws) * world + rank))
    return generator.uniform(eps, 1 - eps, size)
