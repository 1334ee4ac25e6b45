"""L0: heads whose Hard Concrete gates stay open under a penalty.

One training leads the expected number of open heads down to the budget (`gates.Budget`); then
exactly so many of the likeliest stay. With a `coefficient` the penalty has a fixed strength, as in
the paper, and the budget is met by rounding alone: sweep the coefficient until as many gates are
`open` in the record as are to stay.

References: Voita et al. (2019), section 6; Louizos et al. (2018); Wang et al. (2020): see
`headcount.gates`.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from headcount.errors import InputError
from headcount.gates import Budget, Constant, HardConcrete, Layout, quotas
from headcount.pruning.budget import Keep, by_site
from headcount.pruning.learned import learned
from headcount.pruning.method import Choice, Method, Setting
from headcount.training.tuning import Tuning


@final
@dataclass(frozen=True)
class L0(Method):
    """Learns which heads to keep, and the weights along with them."""

    name: ClassVar[str] = "l0"
    tuning: Tuning = field(default_factory=lambda: Tuning(gate_rate=0.1))
    """The training; `trained="encoder"` is the paper's where only encoder heads go."""
    coefficient: float | None = None
    """Penalty of an open head, in the loss's unit; None for one that leads to the budget."""
    falling: float = 0.5
    """Share of the training over which the expected number of open heads falls to the budget."""
    start: float = 2.0
    """log a at the start: 2 is an open gate."""
    voita2019: bool = False
    """Start near 1/2, as the authors do."""

    def __post_init__(self) -> None:
        if not 0 < self.falling <= 1:
            raise InputError(f"falling is a share above 0 and at most 1; came {self.falling}")

    def choose(self, setting: Setting, keep: Keep) -> Choice:
        """Train with gates, then keep the likeliest."""
        budget = tuple(by_site(setting.units, keep).items())
        layout = Layout(setting.units.heads, setting.units.named(keep).units)
        if self.coefficient is None:
            pressure = Budget(layout, quotas(layout, budget), self.falling)
        else:
            pressure = Constant(layout, self.coefficient)
        if self.voita2019:
            gates = HardConcrete.voita2019(layout, pressure, setting.seed)
        else:
            gates = HardConcrete(layout, pressure, setting.seed, self.start)
        choice = learned(setting, keep, gates, lambda: gates.log_a, self.tuning, self)
        is_open_U = gates.likelier().tolist()
        count = sum(
            len(unit) for unit, is_open in zip(layout.units, is_open_U, strict=True) if is_open
        )
        return replace(choice, record={**choice.record, "open": count})
