"""Section 4 of Are Sixteen Heads Really Better than One?: curves of pruning, and speed (table 4).

Heads go by the importance of the paper, estimated anew after every tenth; beside it the order of
the measured score differences of single heads, and random orders.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), sections 4 and 5,
https://arxiv.org/abs/1905.10650
"""

from collections.abc import Mapping

import pandas as pd

from headcount.importance.ablation import DeltaOf
from headcount.markdown import share, table
from headcount.pruning.ablation import Greedy
from headcount.pruning.budget import Units
from headcount.pruning.budget import share as share_of
from headcount.pruning.gradient import Gradient
from headcount.pruning.method import Method
from headcount.pruning.random import Random
from headcount.pruning.ranked import Ranked
from headcount.reproduce.comparison import free_share
from headcount.speed import Speed


def methods(quantity: DeltaOf) -> Mapping[str, Method]:
    """By importance, by measured difference, at random.

    Args:
        quantity: what differences are of; the paper's is the score.
    """
    return {
        "gradient": Ranked(Gradient(0.1, "sample", True)),
        "ablation": Ranked(Greedy(1.0, quantity)),
        "random": Ranked(Random()),
    }


FREE = {"WMT": 0.2, "BERT, MNLI": 0.4, "BERT, SST-2": 0.6}
"""Share of the heads that goes without notable loss (section 4.2, figures 3 and 5)."""

SPEED = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
"""Table 4: examples a second of BERT without half of its heads, gain in per cent by batch size."""


def tenths(units: Units) -> list[int]:
    """Heads that stay when a tenth, two tenths, ... go; half of them among these."""
    return [share_of(units, (10 - part) / 10) for part in range(1, 10)]


def document(
    frame: pd.DataFrame,
    metric: str,
    higher_is_better: bool,
    signature: str,
    speed: Speed | str,
    quantity: DeltaOf,
) -> str:
    """Ours beside the published ones; of speed, or why there is none."""
    rows = [[f"paper, {name}", "gradient", share(part)] for name, part in FREE.items()]
    rows += [
        ["here", name, share(free_share(frame, name, higher_is_better))]
        for name in methods(quantity)
        if name in set(frame["method"])
    ]
    parts = [
        "# Pruning (Michel et al., 2019, sections 4 and 5), with our numbers",
        f"Score: {metric}. The curves are in [curve.md](curve.md).",
        "## How many heads can go (section 4.2)",
        table(["", "order", "% of heads that go"], rows),
        "The paper says 'without noticeable impact'; here: at most 1 % of the score, as the mean "
        f"over seeds. `ablation` is the order of the differences of the {quantity} without a head"
        f"{'' if quantity == 'score' else ', where the paper has the score'}.",
        "## Speed of a model without half of its heads (section 5, table 4)",
        speed if isinstance(speed, str) else _speeds(speed),
        f"`{signature}`",
    ]
    return "\n\n".join(parts) + "\n"


def _speeds(speed: Speed) -> str:
    rows = [
        [str(each.case.batch), f"{each.case.mode}, {each.case.length} tokens",
         f"{SPEED[each.case.batch]:+.1f}" if each.case.batch in SPEED else "–",
         _gain(each.speedup.value), f"{_gain(each.speedup.low)} to {_gain(each.speedup.high)}",
         _gain(each.ceiling)]
        for each in speed.timings
    ]  # fmt: skip
    names = ["batch", "case", "paper, %", "here, %", "95 % interval", "ceiling by FLOPs, %"]
    told = (f"**Warning**: {warning}." for warning in speed.warnings())
    return "\n\n".join([table(names, rows), *told])


def _gain(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−")
