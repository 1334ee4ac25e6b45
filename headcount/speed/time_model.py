r"""Time of a plan, between two measured ones: of the dense model, and without any prunable head.

$$\frac{t}{t_\mathrm{dense}} = 1 - \Big(1 - \frac{1}{s}\Big) \cdot
\frac{F_\mathrm{dense} - F}{F_\mathrm{dense} - F_\mathrm{fewest}}$$

s is the measured speedup without any prunable head, and F are FLOPs of one forward. FLOPs alone
would promise too much, since softmax, norms and moving numbers cost time as well; here they decide
only how the gain that was measured is shared among heads.
"""

from dataclasses import dataclass
from typing import final

from headcount.core import Plan, Progress, silent
from headcount.models import Loaded
from headcount.speed.comparison import Timing, compare_speed
from headcount.speed.flop_ceiling import ModelFlops, model_flops
from headcount.speed.options import Options


@final
@dataclass(frozen=True, eq=False)
class TimeModel:
    """The time of any plan as a share of the dense model's time."""

    flops: ModelFlops
    fewest: Plan
    """The plan that keeps no head that can be pruned."""
    timing: Timing
    """The dense model and this plan's, timed in turns."""

    @classmethod
    def measured(
        cls,
        dense: Loaded,
        smallest: Loaded,
        fewest: Plan,
        options: Options,
        progress: Progress = silent,
    ) -> "TimeModel":
        """Time the dense model beside the smallest one that pruning can make.

        Args:
            dense: The dense model.
            smallest: The compact model of `fewest`.
            fewest: The plan that keeps no head that can be pruned.
            options: The case to time, its first one counts; and how often.
            progress: Called before every case.

        Raises:
            InputError: If the case does not fit the model.
            ModelError: If the model reads no text.
        """
        timing = compare_speed(dense, smallest, options, progress=progress).timings[0]
        flops = model_flops(dense.model, dense.anatomy, timing.case.length)
        return cls(flops, fewest, timing)

    def share(self, plan: Plan) -> float:
        """The predicted time of a plan's compact model, as a share of the dense model's."""
        total = self.flops.total
        gone = (total - self.flops.of(plan)) / (total - self.flops.of(self.fewest))
        return 1 - gone * (1 - 1 / self.timing.speedup.value)
