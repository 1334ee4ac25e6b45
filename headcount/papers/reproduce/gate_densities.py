r"""Densities of gates: where trained Hard Concrete gates lie between 0 and 1.

If gates decide, nearly all draws are exactly 0 or exactly 1, and rounding them changes little. The
density of a budget is the mean of its gates' distributions, in closed form:

$$P(g_h \le x) = \sigma\Big(\beta \,\mathrm{logit}\frac{x - \gamma}{\zeta - \gamma} - \log a_h\Big),
\qquad 0 \le x < 1$$

with point masses at 0 and 1.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 6 and figure 6,
https://arxiv.org/abs/1905.09418
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from headcount.core import (
    SITE_COLOURS,
    SITES,
    Block,
    Chart,
    Document,
    Head,
    Heading,
    HeadTable,
    Kept,
    Text,
    amount,
    grid_of,
)
from headcount.core import Table as Shown
from headcount.gates import Stretched
from headcount.pages import SITE_TITLES
from headcount.papers.reproduce.experiment import PruningExperiment
from headcount.pruning import Keep, Method, PruningContext, Selection
from headcount.results import CurvePoint, CurvePoints, Table, frame_of, read_table
from headcount.training import FinetuneConfig

GATES = "gates.parquet"
"""Table of trained gates in the folder of a reproduction."""


@final
@dataclass(frozen=True)
class GateRow:
    """One head's gate after a training under one budget."""

    method: str
    """Name of the method in the curve."""
    keep: int
    """Number of kept heads under the budget."""
    head: str
    """Name of the head."""
    site: str
    """Site of the head."""
    log_a: float
    """Learned parameter of the gate's distribution."""
    closed: float
    """Probability that a drawn gate is exactly 0."""
    below: float
    """Probability that it is below 0.1."""
    above: float
    """Probability that it is above 0.9."""
    open: float
    """Probability that it is exactly 1."""
    mean: float
    """Gate without noise, which evaluation uses: 0 to 1."""
    is_kept: bool
    """Whether the head was kept."""

    @property
    def between(self) -> float:
        """Probability that a drawn gate is from 0.1 to 0.9."""
        return 1 - self.below - self.above


def write_gates(rows: Sequence[GateRow], folder: Path) -> None:
    """Write the table into a folder; nothing if there are no rows."""
    if rows:
        HeadTable(frame_of(tuple[GateRow, ...], rows)).write(folder / GATES)


def read_gates(folder: Path) -> tuple[GateRow, ...]:
    """The table in the folder of a reproduction.

    Raises:
        InputError: if there is none, or it is damaged.
    """
    stored = Table(GATES, "the gates of a reproduction")
    advice = "Run the reproduction again."
    return read_table(folder / GATES, tuple[GateRow, ...], stored, advice)


NEAR = 0.1
"""Largest distance of a gate that is near 0, or near 1."""

BINS = 20
"""Number of bars from 0 to 1, besides those of exactly 0 and exactly 1."""

_WHAT = "the gates of a training"

SHAPE = Stretched()
"""Temperature and limits of the gates, which `l0` leaves at their defaults."""


@final
@dataclass(frozen=True, eq=False)
class GateRecorder(Method):
    """A method with Hard Concrete gates, whose gates are stored with the state of each point."""

    method: Method
    """The method that chooses."""
    curve_name: str
    """Its name in the curve."""

    def __repr__(self) -> str:
        return repr(self.method)  # points and trainings are those of the method itself

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the method."""
        return self.method.name

    @property
    def tuning(self) -> FinetuneConfig | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Settings of its training."""
        return self.method.tuning

    @property
    def changed_options(self) -> list[str]:
        """Its options that differ from their defaults."""
        return self.method.changed_options

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Choose heads as the method does, and store log a of every gate."""
        selection = self.method.choose(context, keep)
        if context.state is not None:
            kept = selection.plan.kept_heads(context.units.heads)
            file = context.state / f"gates-{len(kept)}.json"
            Kept(file, repr(self), _WHAT, float).keep(selection.scores)
        return selection


def recorded_gates(recorder: GateRecorder, state: Path, points: CurvePoints) -> list[GateRow]:
    """The gates that a method had after its trainings, most kept heads first.

    Budgets without a record, whose points an earlier version made, are left out.

    Args:
        recorder: the method.
        state: folder of the state of all points.
        points: the points of the curve; those of other methods are not read.
    """
    rows = list[GateRow]()
    for point in points.points:
        folder = state / f"{point.method}-{point.seed}"
        if point.method == recorder.curve_name and not point.is_control:
            file = folder / f"gates-{len(point.heads)}.json"
            if log_a := Kept(file, repr(recorder), _WHAT, float):
                rows += gate_rows(point, log_a)
    return rows


def with_densities(
    document: Document, recorder: GateRecorder, experiment: PruningExperiment, points: CurvePoints
) -> Document:
    """A paper's document with a part on the gates of its trainings, whose table is written."""
    rows = recorded_gates(recorder, experiment.state, points)
    write_gates(rows, experiment.out)
    return replace(document, blocks=(*document.blocks, *densities_section(rows)))


def gate_rows(point: CurvePoint, log_a: Mapping[str, float]) -> list[GateRow]:
    """The rows of one training, from log a of every gate by head."""
    kept = set(map(str, point.heads))
    values = np.array(list(log_a.values()))
    closed, below, above = (SHAPE.at_most(values, value) for value in (0.0, NEAR, 1 - NEAR))
    low, high = SHAPE.stretch
    is_open = 1 - SHAPE.at_most(values, 1.0)
    means = np.clip(low + (high - low) / (1 + np.exp(-values)), 0, 1)
    return [
        GateRow(
            method=point.method,
            keep=point.keep,
            head=head,
            site=Head.parse(head).site,
            log_a=float(values[at]),
            closed=float(closed[at]),
            below=float(below[at]),
            above=float(1 - above[at]),
            open=float(is_open[at]),
            mean=float(means[at]),
            is_kept=head in kept,
        )
        for at, head in enumerate(log_a)
    ]


def density(rows: Sequence[GateRow]) -> Float[np.ndarray, " bar"]:
    """Mean probability over gates: exactly 0, each of BINS bins between, exactly 1."""
    values = np.array([row.log_a for row in rows])
    edges = np.linspace(0, 1, BINS + 1).tolist()
    shares = np.array([SHAPE.at_most(values, edge).mean() for edge in edges])
    return np.concatenate([shares[:1], np.diff(shares), 1 - shares[-1:]])


def densities_section(rows: Sequence[GateRow]) -> Iterator[Block]:
    """The document's part on the shares of gates near 0, near 1 and between, by budget."""
    yield Heading("Densities of gates (figure 6)")
    if not rows:
        yield Text("Gates were not recorded: an earlier version trained them.")
        return
    lines = []
    for keep, found in _by_keep(rows).items():
        numbers = (
            np.mean([getattr(row, name) for row in found])
            for name in ("closed", "below", "between", "above", "open")
        )
        undecided = sum(NEAR <= row.mean <= 1 - NEAR for row in found)
        lines.append(
            [str(keep), *(f"{100 * each:.1f}" for each in numbers), f"{undecided} of {len(found)}"]
        )
    header = ["kept", "exactly 0", "< 0.1", "between", "> 0.9", "exactly 1", "mean gate between"]
    yield Text(
        "Probability in % that a drawn gate has such a value at the end of the training, mean over "
        "heads. The last column counts the heads whose gate without noise is from 0.1 to 0.9: "
        "those that rounding changes most."
    )
    yield Shown.of(header, lines, "Shares of gates by budget")
    yield Text(f"Every gate is in {GATES}.")
    yield Chart("gate_densities", "Densities of gates by budget", partial(densities_figure, rows))


def densities_figure(rows: Sequence[GateRow]) -> Figure:
    """A panel for each budget: exactly 0, bins between, exactly 1, by site, on a log axis."""
    panels = _by_keep(rows)
    is_narrow = len(panels) < 4  # too narrow for a legend of one line
    size = (max(3.2, 1.9 * len(panels) + 0.9), 2.9 if is_narrow else 2.4)
    figure, (grid,) = grid_of(1, len(panels), size, sharey=True)
    places = np.array([-0.06, *(np.arange(BINS) + 0.5) / BINS, 1.06])
    for axes, (keep, found) in zip(grid, panels.items(), strict=True):
        for site in SITES:
            own = [row for row in found if row.site == site]
            if own:
                bars = np.maximum(density(own), 1e-6)
                label = SITE_TITLES.get(site, site)
                axes.step(places, bars, where="mid", color=SITE_COLOURS[site], lw=1.1, label=label)
                ends = axes.plot(places[[0, -1]], bars[[0, -1]], "o", ms=4)
                ends[0].set_color(SITE_COLOURS[site])
        axes.set_yscale("log")
        axes.set_ylim(1e-4, 1.2)
        axes.set_xticks([-0.06, 0.1, 0.5, 0.9, 1.06], ["0", "0.1", "0.5", "0.9", "1"])
        axes.set_title(f"{amount(keep, 'head')} kept")
        axes.set_xlabel("gate")
    grid[0].set_ylabel("probability")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=1 if is_narrow else len(labels)
    )
    return figure


def _by_keep(rows: Sequence[GateRow]) -> dict[int, list[GateRow]]:
    found: dict[int, list[GateRow]] = {}
    for row in rows:
        found.setdefault(row.keep, []).append(row)
    return found
