"""Stepwise: heads go by ascending score, and scores are taken anew as they go.

After every step the heads that have gone are gated to 0 while those left are scored again. With a
step of 1 there is one scoring for the whole order, with a step of 0 one for each head. An order is
nested: under a smaller budget the same heads go, and more.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4, https://arxiv.org/abs/1905.10650
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from headcount.errors import InputError
from headcount.heads import Head
from headcount.importance.scores import Scores
from headcount.keyed import read_keyed, reading, write_keyed
from headcount.pruning.budget import Unit, Units
from headcount.pruning.method import Ranking, Setting
from headcount.pruning.order import Order, ascending
from headcount.pruning.plan import Plan
from headcount.signature import signature
from headcount.tap import Tap

_WHAT = "an order of heads"


@dataclass(frozen=True)
class Stepwise(Ranking):
    """A ranking by scores of the heads; higher scores stay."""

    step: float = 1.0
    """Share of the heads that go before the others are scored anew; 0: after each."""

    def __post_init__(self) -> None:
        if not 0 <= self.step <= 1:
            raise InputError(
                f"a share of the heads from 0 to 1 was expected as a step; came {self.step}"
            )

    @abstractmethod
    def scores(self, setting: Setting, left: Sequence[Unit]) -> Scores:
        """Scores of the heads of the units that are left, while the others are gated to 0."""

    def order(self, setting: Setting) -> Order:
        """Heads that may go, those with the lowest scores first.

        Where the setting has a folder for the state, an order that was interrupted goes on, and a
        finished one is read.

        Raises:
            InputError: for a state of another run.
        """
        units, loaded = setting.units.units, setting.loaded
        size = max(1, round(self.step * len(units)))
        file, key = _file(setting), _key(setting, repr(self))
        order = so_far = read_order(file, key)
        while left := _left(setting.units, order):
            setting.progress("ranking", len(units) - len(left), len(units))
            stay = set(loaded.heads) - set(order.heads)
            gates = Plan.keeping(loaded.heads, stay).gates(loaded.heads)
            with Tap(loaded.model, loaded.anatomy, gates=gates) if gates else nullcontext():
                found = ascending(left, self.scores(setting, left))
            order = order.then(found, _going(found, setting.units, size))
            write_order(file, key, order)
        if order is not so_far:
            setting.progress("ranking", len(units), len(units))
        return order


def read_order(file: Path | None, key: str) -> Order:
    """The order so far; nothing where there is no file.

    Raises:
        InputError: if the file is damaged, or of another model, data, units or method.
    """
    done = read_keyed(file, key, _WHAT)
    if file is None or not done:
        return Order(())
    with reading(file, _WHAT):
        scores = {Head.parse(name): float(score) for name, score in done.items()}
    return Order(tuple(scores), scores)


def write_order(file: Path | None, key: str, order: Order) -> None:
    """Write the order so far, whole or not at all; nowhere for None."""
    write_keyed(file, key, {str(head): order.scores[head] for head in order.heads})


def _left(units: Units, order: Order) -> list[Unit]:
    gone = set(order.heads)
    return [unit for unit in units.units if unit[0] not in gone]


def _going(found: Order, units: Units, size: int) -> tuple[Head, ...]:
    """The heads of the first units."""
    unit_of = {head: unit for unit in units.units for head in unit}
    first = list(dict.fromkeys(unit_of[head] for head in found.heads))[:size]
    return tuple(head for unit in first for head in unit)


def _file(setting: Setting) -> Path | None:
    return None if setting.state is None else setting.state / "order.json"


def _key(setting: Setting, way: str) -> str:
    task, units = setting.sample, setting.units.sha256[:12]
    # A gradient may be taken of batches.
    batch = setting.max_tokens if "level='batch'" in way else None
    return signature(
        setting.loaded.model, task.sha256, task=task.name, n=task.num_examples, units=units, by=way,
        max_tokens=batch,
    )  # fmt: skip
