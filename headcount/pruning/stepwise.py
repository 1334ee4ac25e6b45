"""Stepwise: heads go by ascending score, and scores are taken anew as they go.

After every step the heads that have gone are gated to 0 while those left are scored again. With a
step of 1 there is one scoring for the whole order, with a step of 0 one for each head. An order is
nested: under a smaller budget in all the same units go, and more, if units are equally large.
Budgets of sites make an order of their own, since a site that has lost its share is left as it is
while others are scored on.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4, https://arxiv.org/abs/1905.10650
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headcount.errors import InputError
from headcount.heads import Head
from headcount.importance.scores import Scores
from headcount.keyed import read_keyed, reading, write_keyed
from headcount.pruning.budget import Keep, Unit, Units
from headcount.pruning.method import Ranking, Setting
from headcount.pruning.order import Order, ascending, by_mean
from headcount.pruning.plan import Plan
from headcount.signature import signature
from headcount.tap import Tap

_WHAT = "an order of heads"
Room = Mapping[str | None, int]
"""How many more heads go, in all or at each site."""


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
        """Scores of the heads of the units that are left, while those that have gone are at 0.

        Args:
            setting: its model is gated.
            left: units that may go still. What is not among them has gone, or is at a site that has
                lost its share, whose layers need no score.
        """

    def order(self, setting: Setting, keep: Keep | None = None) -> Order:
        """Heads that may go, those with the lowest scores first.

        With a budget scores are taken anew until as many heads have gone; those that stay follow by
        their last scores. A site that has lost as many as its own budget says loses no more. Where
        units differ in size, or every group loses as many, there is no knowing which a budget takes
        without an order of all: there is none but that.

        Where the setting has a folder for the state, an order that was interrupted goes on, and a
        finished one is read.

        Raises:
            InputError: for a state of another run.
        """
        units = setting.units if keep is None else setting.units.named(keep)
        if not units.units:
            return Order(())
        size = max(1, round(self.step * len(units.units)))
        file, key = _file(setting), _key(setting, units, repr(self), keep)
        so_far = done = read_order(file, key)
        # Once everything is scored, even where nothing goes: scores are told.
        while any((room := _room(units, done.gone, keep)).values()) or not done.whole.heads:
            left = _left(units, done.gone, room) if done.whole.heads else units.units
            self._tell(setting, done.gone, room)
            found = self._scored(setting, done.gone, left)
            done = done.after(found, _going(found, units, size, room), units.units)
            write_order(file, key, done)
        if done is not so_far:
            self._tell(setting, done.gone, {})
        return done.whole

    def _tell(self, setting: Setting, gone: Order, room: Room) -> None:
        going = len(gone.heads) + sum(room.values())
        setting.progress("ranking", len(gone.heads), going)

    def _scored(self, setting: Setting, gone: Order, left: Sequence[Unit]) -> Order:
        """Those that are left, by scores of the model without those that have gone."""
        loaded = setting.loaded
        stay = set(loaded.heads) - set(gone.heads)
        gates = Plan.keeping(loaded.heads, stay).gates(loaded.heads)
        with Tap(loaded.model, loaded.anatomy, gates=gates) if gates else nullcontext():
            return ascending(left, self.scores(setting, left))


@final
@dataclass(frozen=True)
class Progressed:
    """An order so far."""

    gone: Order = field(default_factory=lambda: Order(()))
    left: Order = field(default_factory=lambda: Order(()))
    """Those that were scored and have not gone, by their last scores."""

    @property
    def whole(self) -> Order:
        """Those that have gone, then the others."""
        return self.gone.then(self.left, self.left.heads)

    def after(self, found: Order, going: Sequence[Head], units: Sequence[Unit]) -> "Progressed":
        """When more have gone of those that were scored.

        >>> from headcount.heads import Heads
        >>> a, b, c = Heads({"decoder.self": (3,)})
        >>> units = [(a,), (b,), (c,)]
        >>> first = Progressed().after(Order((b, a, c), {a: 2.0, b: 1.0, c: 3.0}), [b], units)
        >>> [str(head) for head in first.after(Order((c,), {c: 0.5}), [c], units).whole.heads]
        ['dec.0.1', 'dec.0.2', 'dec.0.0']
        """
        gone = self.gone.then(found, going)
        scores = {**self.left.scores, **found.scores}
        still = [unit for unit in units if unit[0] in scores and unit[0] not in gone.scores]
        return Progressed(gone, by_mean(still, {head: scores[head] for u in still for head in u}))


def read_order(file: Path | None, key: str) -> Progressed:
    """The order so far; nothing where there is no file.

    Raises:
        InputError: if the file is damaged, or of another model, data, units or method.
    """
    done = read_keyed(file, key, _WHAT)
    if file is None or not done:
        return Progressed()
    with reading(file, _WHAT):
        return Progressed(*(_order(done[part]) for part in ("gone", "left")))


def write_order(file: Path | None, key: str, done: Progressed) -> None:
    """Write the order so far, whole or not at all; nowhere for None."""
    parts = {"gone": done.gone, "left": done.left}
    write_keyed(file, key, {part: {str(head): each.scores[head] for head in each.heads}
                            for part, each in parts.items()})  # fmt: skip


def _order(scores: Mapping[str, float]) -> Order:
    found = {Head.parse(name): float(score) for name, score in scores.items()}
    return Order(tuple(found), found)


def _room(units: Units, gone: Order, keep: Keep | None) -> dict[str | None, int]:
    """How many more heads go: in all (None), or at each site that has a budget of its own."""
    uneven = units.groups or len({len(unit) for unit in units.units}) > 1
    if keep is None or uneven:
        return {None: sum(map(len, units.units)) - len(gone.heads)}
    if not isinstance(keep, Mapping):
        return {None: max(0, len(units.heads) - keep - len(gone.heads))}
    at = Counter(head.site for head in gone.heads)
    return {site: sum(units.heads.counts[site]) - number - at[site]
            for site, number in keep.items()}  # fmt: skip


def _left(units: Units, gone: Order, room: Room) -> list[Unit]:
    """Units that have not gone, at sites that still lose some."""
    return [
        unit
        for unit in units.units
        if unit[0] not in gone.scores and room[_counts_for(unit, room)] > 0
    ]


def _going(found: Order, units: Units, size: int, room: Room) -> tuple[Head, ...]:
    """The heads of the first units, no more of a site than there is room for.

    In all there may be more than that: the next steps are then the same under a smaller budget.
    """
    unit_of = {head: unit for unit in units.units for head in unit}
    rest, going = Counter(room), []
    for unit in dict.fromkeys(unit_of[head] for head in found.heads):
        where = _counts_for(unit, room)
        if len(going) < size and (where is None or rest[where] > 0):
            going.append(unit)
            rest[where] -= len(unit)
    return tuple(head for unit in going for head in unit)


def _counts_for(unit: Unit, room: Room) -> str | None:
    """What a unit counts for: its site, or all."""
    return None if None in room else unit[0].site


def _file(setting: Setting) -> Path | None:
    return None if setting.state is None else setting.state / "order.json"


def _key(setting: Setting, units: Units, way: str, keep: Keep | None) -> str:
    task, by_site = setting.sample, None if isinstance(keep, int | None) else dict(keep)
    # A gradient may be taken of batches.
    batch = setting.max_tokens if "level='batch'" in way else None
    metric = task.signature if "quantity='score'" in way else None
    return signature(
        setting.loaded, task.sha256, task=task.name, n=task.num_examples,
        units=units.sha256[:12], by=way, metric=metric, max_tokens=batch, keep=by_site,
    )  # fmt: skip
