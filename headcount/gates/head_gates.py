"""Head gates: the interface of gates that take part in training."""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float
from torch import Tensor, distributed, nn

from headcount.gates.layout import Layout
from headcount.tap import Gates


class HeadGates(nn.Module, ABC):
    """A module that holds the gates' parameters.

    Its state is saved in checkpoints and is all that a resumed training needs, including the
    position in the sequence of noise.
    """

    @abstractmethod
    def forward(self) -> Gates:
        """The gates of one batch: drawn in training mode, deterministic in evaluation mode.

        Raises:
            ModelError: if a gate is not a finite number; the error names the head.
        """

    @abstractmethod
    def penalty(self) -> Float[Tensor, ""]:
        """Penalty added to the loss (nats, or the loss's own unit)."""

    @abstractmethod
    def advance(self, share: int | float) -> None:
        """Set schedules before a step, given the share of the training that is done."""

    @abstractmethod
    def settle(self) -> None:
        """After a step, update what the optimizer does not."""

    @abstractmethod
    def numbers(self) -> dict[str, float]:
        """Numbers about the gates for the training log."""


class LearnedGates(HeadGates):
    """Gates whose scores decide which heads are kept."""

    layout: Layout
    """Which heads share a gate."""

    @abstractmethod
    def scores(self) -> Float[Tensor, " unit"]:
        """Score of every gate; the gates with the highest scores are kept."""


def uniform_noise(
    seed: int, num_draws: Tensor, size: int, eps: float
) -> Float[np.ndarray, " unit"]:
    """Uniform numbers between eps and 1 - eps, different in each draw and each process.

    The n-th draw of process r of P is draw P n + r. So P processes draw the same noise as one
    process that accumulates the gradients of P batches.
    """
    joined = distributed.is_available() and distributed.is_initialized()
    rank, world = (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)
    generator = np.random.default_rng((seed, int(num_draws) * world + rank))
    return generator.uniform(eps, 1 - eps, size)
