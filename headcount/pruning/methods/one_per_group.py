"""One per group: the last open head of each group of heads is pruned after all other heads.

Heads of a group look at the same places, so that one of them may do for all. A ranking's order is
kept, except that a unit waits as long as pruning it would leave a group of which no head is open.
The units that waited follow in the ranking's order: a budget smaller than the number of groups
prunes them, too. Groups come from `headcount cluster`; a head that is near no other is a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headcount.clusters import Clusters
from headcount.core import InputError
from headcount.models import Loaded, revision
from headcount.pruning.budget import Unit
from headcount.pruning.budget_spec import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.by_score import Stepwise
from headcount.pruning.methods.method import Method, Order, Ranking, in_order
from headcount.results import SPARED, Signature

Groups = Sequence[Sequence[str]]
"""Names of the heads of every group."""


@final
@dataclass(frozen=True)
class OnePerGroup(Ranking):
    """A ranking in which every group keeps its last head as long as possible."""

    ranking: Ranking
    """The ranking to follow otherwise."""
    groups: tuple[tuple[str, ...], ...]
    """Names of the heads of every group."""

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the ranking, and what is spared."""
        return f"{self.ranking.name}{SPARED}"

    def order(self, context: PruningContext, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, in the order of pruning."""
        found = self.ranking.order(context, keep)
        unit_of = {head: unit for unit in context.units.units for head in unit}
        units = list(dict.fromkeys(unit_of[head] for head in found))
        return in_order(spared_last(units, self.groups), found)


def spared_last(units: Sequence[Unit], groups: Groups) -> list[Unit]:
    """Units in order of pruning, those with the last head of a group after all others.

    >>> from headcount.core import Head
    >>> a, b, c = (Head("decoder.self", 0, index) for index in range(3))
    >>> [str(head) for (head,) in spared_last([(a,), (b,), (c,)], [["dec.0.0"], ["dec.0.1", "dec.0.2"]])]
    ['dec.0.1', 'dec.0.0', 'dec.0.2']
    """  # noqa: E501
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    num_open = [len(group) for group in groups]
    gone, waiting = list[Unit](), list[Unit]()
    for unit in units:
        members = [group_of[str(head)] for head in unit]
        if any(num_open[group] <= members.count(group) for group in members):
            waiting.append(unit)
            continue
        gone.append(unit)
        for group in members:
            num_open[group] -= 1
    return gone + waiting


def spare_groups(method: Method, groups: Groups) -> Method:
    """A method that spares the last head of every group.

    Raises:
        InputError: if the method is no single ranking, or scores heads again while it prunes.
    """
    if not isinstance(method, Ranking):
        raise InputError(
            f"Expected a method that ranks heads by one score, since one head per group is spared, "
            f"got {method.name}. Name one, such as --method fisher."
        )
    if isinstance(method, Stepwise) and method.step < 1:
        raise InputError(
            f"Expected step=1, since one head per group is spared, got step={method.step}: "
            "later scores would be those without heads that are spared."
        )
    return OnePerGroup(method, tuple(map(tuple, groups)))


def read_groups(folder: Path) -> Sequence[Sequence[str]]:
    """The groups of heads in a folder of `headcount cluster`."""
    return Clusters.read(folder).groups


def check_groups(folder: Path, loaded: Loaded) -> None:
    """Check that the groups in a folder of `headcount cluster` are those of a model's heads.

    Raises:
        InputError: if the folder holds no groups, or those of another model.
    """
    found = Clusters.read(folder)
    grouped = {place.head for place in found.places}
    same = Signature.parse(found.record.signature).revision == revision(loaded.model)
    if not same or grouped != set(map(str, loaded.heads)):
        raise InputError(
            f"Expected groups of the heads of this model in {folder}, got those of "
            f"{found.record.model}, another model or other weights. Run `headcount cluster` on "
            "this model."
        )
