"""L0: heads whose Hard Concrete gates stay open under a penalty.

One training leads the expected number of open heads down to the budget (`gates.Budget`); then
exactly so many of the likeliest stay. With a `coefficient` the penalty has a fixed strength, as in
the paper, and the budget is met by rounding alone. With a `sweep` the coefficient is looked for
that leaves as many gates `open` as are to stay, each in a training of its own; budgets that share a
folder for their state share these trainings.

Departure: gradients of the loss are cut to the norm `tuning.clip`, that of the penalty is not, so a
fixed coefficient weighs more in steps that are cut; a large `tuning.clip` gives it as written.

References: Voita et al. (2019), section 6; Louizos et al. (2018); Wang et al. (2020): see
`headcount.gates`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from headcount.errors import InputError
from headcount.gates import Budget, Constant, HardConcrete, Layout, Quota, quotas
from headcount.pruning.budget import Keep, by_site
from headcount.pruning.coefficient import swept
from headcount.pruning.learned import learned
from headcount.pruning.method import Choice, Method, Setting
from headcount.training.tuning import Tuning

PUBLISHED = 0.1
"""The coefficient of the authors' code, for a mean over the layers that have gates; a sweep begins
with it."""


@final
@dataclass(frozen=True)
class L0(Method):
    """Learns which heads to keep, and the weights along with them."""

    name: ClassVar[str] = "l0"
    tuning: Tuning = field(default_factory=lambda: Tuning(gate_rate=0.1))
    """The training; `trained="encoder"` is the paper's where only encoder heads go."""
    coefficient: float | None = None
    """Penalty of an open head, in the loss's unit; None for one that leads to the budget."""
    sweep: int = 0
    """Coefficients that are tried at most, the one given first; 0 for no sweep."""
    falling: float = 0.5
    """Share of the training over which the expected number of open heads falls to the budget."""
    start: float = 2.0
    """log a at the start: 2 is an open gate."""
    voita2019: bool = False
    """Start near 1/2, as the authors do."""

    def __post_init__(self) -> None:
        if self.voita2019 and self.start != L0.start:
            raise InputError("voita2019 has its own start: leave start out")
        if self.falling != L0.falling and (self.sweep or self.coefficient is not None):
            raise InputError("falling is of a training without a coefficient: leave it out")
        if not 0 < self.falling <= 1:
            raise InputError(f"falling is a share above 0 and at most 1; came {self.falling}")
        if self.sweep < 0:
            raise InputError(f"a sweep of at least 0 trainings was expected; came {self.sweep}")
        if self.coefficient is not None and not 0 <= self.coefficient < math.inf:
            raise InputError(
                "a finite number of at least 0 was expected for coefficient; came "
                f"{self.coefficient}"
            )
        if self.sweep and self.coefficient == 0:
            raise InputError("a sweep begins with a coefficient above 0; came 0")

    def choose(self, setting: Setting, keep: Keep) -> Choice:
        """Train with gates, then keep the likeliest."""
        setting = replace(setting, units=setting.units.tied())
        return self._swept(setting, keep) if self.sweep else self._trained(setting, keep)

    def _swept(self, setting: Setting, keep: Keep) -> Choice:
        """As chosen with the coefficient that leaves as many gates open, or nearly."""
        layout, open_quotas = _gated(setting, keep)
        num_layers = len({(head.site, head.layer) for unit in layout.units for head in unit})
        found = swept(
            lambda coefficient: replace(self, sweep=0, coefficient=coefficient)._trained(
                setting, keep
            ),
            lambda choice: [_open(choice, quota.site) for quota in open_quotas],
            [quota.heads for quota in open_quotas],
            self.coefficient or PUBLISHED / num_layers,
            self.sweep,
        )
        tried = {str(coefficient): number for coefficient, number in found.tried.items()}
        return replace(found.nearest, record={**found.nearest.record, "swept": tried})

    def _trained(self, setting: Setting, keep: Keep) -> Choice:
        layout, open_quotas = _gated(setting, keep)
        if self.coefficient is None:
            name, pressure = None, Budget(layout, open_quotas, self.falling)
        else:
            name = f"coefficient-{self.coefficient:.6g}"
            pressure = Constant(layout, self.coefficient)
        if self.voita2019:
            gates = HardConcrete.voita2019(layout, pressure, setting.seed)
        else:
            gates = HardConcrete(layout, pressure, setting.seed, self.start)
        choice = learned(setting, keep, gates, self.tuning, self, name)
        open_at = {site: int(n) for site, n in layout.by_site(gates.likelier().float()).items()}
        return replace(choice, record={**choice.record, "open": open_at})


def _open(choice: Choice, site: str | None) -> int:
    """Heads whose gates a training left open, at a site or in all."""
    open_at: Mapping[str, int] = choice.record["open"]
    return sum(open_at.values()) if site is None else open_at[site]


def _gated(setting: Setting, keep: Keep) -> tuple[Layout, tuple[Quota, ...]]:
    """The heads that a budget has gates for, and how many of them are to stay open."""
    layout = Layout(setting.units.heads, setting.units.named(keep).units)
    return layout, quotas(layout, tuple(by_site(setting.units, keep).items()))
