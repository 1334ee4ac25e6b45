"""Programs in which each bit of a label has one head that writes it, of any kind of input."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float

from headcount.core import Head
from headcount.testing.programs import TELLING, Planted, Planting, sigmoid, softplus

Example = TypeVar("Example")


class Alone(Planting, ABC, Generic[Example]):
    """Heads each of which says a bit of the label alone, some of them what another one tells."""

    @abstractmethod
    def read(self, planted: Planted, example: Example) -> Float[np.ndarray, " label"]:
        """What a head reads, for every label of an example."""

    def classes(self, examples: Sequence[Example], seed: int) -> list[int]:
        """The class of every example of one label, whose bits agree with what heads read."""
        rng, found = np.random.default_rng((2, seed)), np.zeros(len(examples), int)
        for number, label in enumerate(self.labels):
            (writer,) = self.writers(label)
            read_N = np.concatenate([self.read(writer, example) for example in examples])
            is_one_N = rng.random(len(read_N)) < sigmoid(writer.evidence * read_N)
            found += is_one_N.astype(int) << number
        return found.tolist()

    def effects(self, examples: Sequence[Example], sets: Sequence[Iterable[Head]]) -> list[float]:
        """By how much the mean loss of a label rises in nats without each of some sets of heads.

        The loss is expected over labels. What nobody tells is 0.
        """
        risen = dict[Head, float]()
        for each in (each for each in self.planted if each.label is not None):
            read = [self.read(each, example) for example in examples]
            odds_L = each.evidence * np.concatenate(read)
            likely_L = sigmoid(odds_L)
            dense_L = likely_L * softplus(-odds_L) + (1 - likely_L) * softplus(odds_L)
            risen[each.head] = float((np.log(2) - dense_L).mean())
        found = list[float]()
        for without in ({*each} for each in sets):
            untold = any(self.of(head).kind in TELLING for head in without)
            missing = (h for h in risen if h in without or (untold and self.of(h).reads_told))
            found.append(sum((risen[head] for head in missing), 0.0))
        return found
