"""Section 4 of Are Sixteen Heads Really Better than One?: curves of pruning, and speed (table 4).

Heads are pruned by the paper's importance, re-estimated after every tenth of the heads, and for
comparison in the order of the measured score differences of single heads and in random orders.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), sections 4 and 5,
https://arxiv.org/abs/1905.10650
"""

from collections.abc import Mapping

import pandas as pd

from headcount.core import share, table
from headcount.importance import DeltaOf
from headcount.pruning import Gradient, Greedy, Method, Random, RankingMethod, Units
from headcount.pruning import share as share_of
from headcount.reproduce.comparison import free_share
from headcount.speed import Speed


def michel2019_methods(quantity: DeltaOf) -> Mapping[str, Method]:
    """Pruning by importance, by measured difference, and at random.

    Args:
        quantity: the quantity whose differences order the heads; the paper uses the score.
    """
    return {
        "gradient": RankingMethod(Gradient(0.1, "sample", True)),
        "ablation": RankingMethod(Greedy(1.0, quantity)),
        "random": RankingMethod(Random()),
    }


FREE = {"WMT": 0.2, "BERT, MNLI": 0.4, "BERT, SST-2": 0.6}
"""Share of heads that the paper prunes without notable loss (section 4.2, figures 3 and 5)."""

SPEED = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
"""Table 4: gain in examples per second of BERT without half its heads, %, by batch size."""


def tenths(units: Units) -> list[int]:
    """Numbers of kept heads when one to nine tenths are pruned; half is among them."""
    return [share_of(units, (10 - part) / 10) for part in range(1, 10)]


def pruning_document(
    frame: pd.DataFrame,
    metric: str,
    higher_is_better: bool,
    signature: str,
    speed: Speed | str,
    quantity: DeltaOf,
) -> str:
    """The document: our numbers beside the published ones; speed, or why it is missing."""
    rows = [[f"paper, {name}", "gradient", share(part)] for name, part in FREE.items()]
    rows += [
        ["here", name, share(free_share(frame, name, higher_is_better))]
        for name in michel2019_methods(quantity)
        if name in set(frame["method"])
    ]
    parts = [
        "# Pruning (Michel et al., 2019, sections 4 and 5), with our numbers",
        f"Score: {metric}. The curves are in [curve.md](curve.md).",
        "## How many heads can be pruned (section 4.2)",
        table(["", "order", "% of heads pruned"], rows),
        "The paper says 'without noticeable impact'; here that means a loss of at most 1 % of the "
        f"score, averaged over seeds. `ablation` orders heads by the differences of the {quantity} "
        f"without a head{'' if quantity == 'score' else '; the paper uses the score'}.",
        "## Speed of a model without half its heads (section 5, table 4)",
        speed if isinstance(speed, str) else _speeds(speed),
        f"`{signature}`",
    ]
    return "\n\n".join(parts) + "\n"


def _speeds(speed: Speed) -> str:
    rows = [
        [
            str(each.case.batch),
            f"{each.case.mode}, {each.case.length} tokens",
            f"{SPEED[each.case.batch]:+.1f}" if each.case.batch in SPEED else "–",
            _gain(each.speedup.value),
            f"{_gain(each.speedup.low)} to {_gain(each.speedup.high)}",
            _gain(each.ceiling),
        ]
        for each in speed.timings
    ]
    names = ["batch", "case", "paper, %", "here, %", "95 % interval", "ceiling by FLOPs, %"]
    reported = (f"**Warning**: {warning}." for warning in speed.warnings())
    return "\n\n".join([table(names, rows), *reported])


def _gain(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−")
