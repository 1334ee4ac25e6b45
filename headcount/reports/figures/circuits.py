"""The figure of circuits: faithfulness by the number of heads that are kept."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import MUTED, amount, new_figure, say
from headcount.reports.figures.curves import COLOURS, MARKERS
from headcount.results import RANDOM, FaithfulnessRow


def faithfulness_curve(rows: Sequence[FaithfulnessRow], label: Callable[[str], str]) -> Figure:
    """Faithfulness with its interval, one line for each ranking."""
    figure = new_figure(5.8, 3.4)
    axes = figure.subplots()
    for level in (0, 1):
        axes.axhline(level, color=MUTED, linewidth=0.7, linestyle="--", zorder=0)
    for number, ranking in enumerate(dict.fromkeys(row.ranking for row in rows)):
        here = [row for row in rows if row.ranking == ranking]
        colour = MUTED if ranking == RANDOM else COLOURS[number % len(COLOURS)]
        sizes, values = [row.heads for row in here], [row.value for row in here]
        ends = [row.low for row in here], [row.high for row in here]
        axes.fill_between(sizes, *ends, color=colour, alpha=0.12, linewidth=0, zorder=0)
        axes.plot(
            sizes,
            values,
            color=colour,
            marker=MARKERS[number % len(MARKERS)],
            markersize=2.5,
            linewidth=1.2,
            label=label(ranking),
        )
        say(
            axes.scatter(sizes, values, s=30, alpha=0, zorder=4),
            [
                f"{label(ranking)}, {amount(row.heads, 'head')}: {row.value:.2f} "
                f"({row.low:.2f} to {row.high:.2f})"
                for row in here
            ],
        )
    values = [row.value for row in rows]
    axes.set(
        xlabel=f"heads that are kept, of {rows[-1].heads}",
        ylabel="faithfulness",
        ylim=(min(-0.2, *values) - 0.05, max(1.2, *values) + 0.05),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right upper")
    return figure
