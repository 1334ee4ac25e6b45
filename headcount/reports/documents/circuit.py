"""What a circuit shows: how few heads keep a prediction, and which ranking finds them."""

from collections.abc import Callable, Iterator, Sequence
from math import isnan

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import MUTED, Block, Chart, Heading, Table, Text, amount, new_figure, say
from headcount.numbers import percent
from headcount.reports.figures.curves import COLOURS, MARKERS
from headcount.results import LEVELS, RANDOM, CircuitRow, Explained, FaithfulnessRow
from headcount.vocabulary import COLUMNS, EFFECTS


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


NAMED = 8
"""Largest number of heads that a cell names."""


def circuit_blocks(found: Explained) -> Iterator[Block]:
    """The smallest sets of heads, how good rankings are, and the curve."""
    if not found.areas:
        return
    record = found.record
    yield Heading("A circuit of heads")
    yield Text(smallest(found))
    yield Text(
        "All other heads give their mean outputs: without any head that leaves "
        f"{record.nothing:.2f} nats of {record.value:.2f}, and faithfulness is the share of the "
        "difference that is left. The heads of each half of the prompts were chosen on the other "
        "half. Sizes are exact to 10 heads, and then to a fifth; each is the first that reaches "
        "the share, so a larger set may fall below it again."
    )
    yield Table.of(
        ("best by", *(percent(level) for level in LEVELS), "CPR", "CMD"),
        (
            (
                ranking_label(area.ranking),
                *(str(row.heads) for row in found.circuits if row.ranking == area.ranking),
                f"{area.cpr:.2f} ({area.cpr_low:.2f} to {area.cpr_high:.2f})",
                f"{area.cmd:.2f} ({area.cmd_low:.2f} to {area.cmd_high:.2f})",
            )
            for area in found.areas
        ),
        "Heads that keep a share of the prediction, and areas",
    )
    yield Text(
        "CPR is the area under faithfulness by the share of heads that are kept, CMD that between "
        "it and 1 (Mueller et al., 2025). Heads that work against the prediction raise CPR if they "
        "are left out; random heads are the mean of random orders."
    )
    yield Chart(
        "faithfulness",
        "Faithfulness by the number of heads that are kept",
        lambda: faithfulness_curve(found.faithfulness, ranking_label),
    )
    yield Table.of(
        ("best by", "share", "heads", "faithfulness", "in both halves", "by chance", "which"),
        (
            (
                *(ranking_label(row.ranking), percent(row.level), str(row.heads)),
                f"{row.value:.2f} ({row.low:.2f} to {row.high:.2f})",
                *(("–", "–") if isnan(row.shared) else (f"{row.shared:.0f}", f"{row.chance:.1f}")),
                _which(row),
            )
            for row in found.circuits
            if row.ranking != RANDOM
        ),
        "The smallest sets of heads",
    )


def ranking_label(ranking: str) -> str:
    """What a ranking is called."""
    if ranking in EFFECTS:
        return EFFECTS[ranking].label
    return COLUMNS[ranking].label if ranking in COLUMNS else ranking.replace("_", " ")


def smallest(found: Explained) -> str:
    """The ranking that needs the fewest heads for most of the prediction."""
    said, total = list[str](), found.faithfulness[-1].heads
    for level in LEVELS[1:3]:
        rows = [row for row in found.circuits if row.level == level]
        best = min((row for row in rows if row.ranking != RANDOM), key=lambda row: row.heads)
        random = next(row for row in rows if row.ranking == RANDOM)
        said.append(
            f"{best.heads} of {amount(total, 'head')} keep {percent(level)} of the prediction, "
            "the best "
            f"by {ranking_label(best.ranking)}; of random heads, {random.heads} do."
        )
    return " ".join(said)


def _which(row: CircuitRow) -> str:
    """The heads of both halves' sets, if they are few."""
    sets = [each.split() for each in row.names.split(" | ")]
    both = [name for name in sets[0] if name in sets[-1]]
    more = f" and {len(both) - NAMED} more" if len(both) > NAMED else ""
    return f"{' '.join(both[:NAMED])}{more}"
