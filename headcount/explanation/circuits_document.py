"""What an explanation shows of circuits: how few heads keep a prediction, and who finds them.

Of a stable circuit it shows the certain heads, what they keep, and agreement.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite, isnan

from matplotlib.figure import Figure

from headcount.core import (
    MUTED,
    Block,
    Chart,
    Heading,
    Table,
    Text,
    amount,
    capital,
    latex,
    new_figure,
    say,
    sorted_by,
)
from headcount.explanation.circuit_rows import (
    ASKED,
    LEVELS,
    SIGNED,
    AreaRow,
    CircuitRow,
    ComplementRow,
    FaithfulnessRow,
    KeptRow,
    StabilityRow,
)
from headcount.explanation.paths_document import path_blocks
from headcount.explanation.result import Explained
from headcount.explanation.together_document import ranking_label
from headcount.numbers import listed, nats, percent, within
from headcount.pages import COLOURS, MARKERS
from headcount.results import RANDOM, Signature, find, select
from headcount.statistics import ALPHA

NAMED = 8
"""Largest number of heads that a cell names."""
_TICKS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000)
"""Numbers of heads that an axis names."""
_STAYS = 0.8
"""Share of the prediction of which a table says from which size on it stays."""


def circuit_blocks(found: Explained) -> Iterator[Block]:
    """The smallest sets of heads, how good rankings are, and the curve."""
    if not found.areas:
        return
    first, *others = complements(found)
    yield from _stable_blocks(found)
    yield from path_blocks(found)
    yield Heading("A circuit of heads")
    yield Text(smallest(found))
    if unit(found) != "head":
        mlps = sum(part.startswith("mlp.") for part in found.of(found.measured[0]))
        yield Text(
            f"Units are heads and {amount(mlps, 'MLP')}; tables below count both as heads. A "
            "circuit of heads alone keeps all MLPs, so numbers with and without don’t compare."
        )
    yield Text(_how(found, first))
    yield _table(found, first.others)
    yield Text(
        "CPR is the area under faithfulness by the share of heads that are kept, those with the "
        "highest scores first, and CMD that between it and 1, those with the largest scores first "
        "(Mueller et al., 2025). Heads that work against the prediction raise CPR above 1 if they "
        "are left out, so read it beside CMD; random heads are the mean of random orders."
    )
    yield Chart(
        "faithfulness",
        "Faithfulness by the number of heads that are kept",
        lambda: faithfulness_curve(
            select(found.faithfulness, others=first.others, order=SIGNED),
            partial(ranking_label, found),
        ),
    )
    yield from _areas(found, first.others)
    for other in others:
        yield Text(_how(found, other))
        yield _table(found, other.others)
    yield _sets(found, first.others)


def complements(found: Explained) -> tuple[ComplementRow, ...]:
    """What the heads outside circuits give; in results of versions without, their means."""
    record = found.record
    gain = record.value - record.nothing
    nan = float("nan")
    old = ComplementRow("mean", "their mean outputs", record.nothing, gain, nan, nan)
    return found.complements or (old,)


def _how(found: Explained, row: ComplementRow) -> str:
    """What the other heads give, and what is then left."""
    begins = "All other heads" if row == complements(found)[0] else "Judged otherwise, all others"
    said = (
        f"{begins} give {row.about}: without any head that leaves {nats(row.nothing)} nats of "
        f"{nats(found.record.value)}, and faithfulness is the share of the difference, "
        f"{within(row.gain, row.low, row.high)}, that is left."
    )
    best, first = found.areas[0].ranking, complements(found)[0].others
    if row.others != first:
        is_brief = _num_sizes(found, row.others, best) < _num_sizes(found, first, best)
        return f"{said} Sizes are MIB's." if is_brief else said
    is_brief = _num_sizes(found, first, RANDOM) < _num_sizes(found, first, best)
    few = ", but random heads have MIB's" if is_brief else ""
    return (
        f"{said} The heads of each half of the prompts were chosen on the other half. Sizes are "
        f"exact to 10 heads, and then to a fifth{few}. Each is the first that reaches the share, "
        f"so a larger set may fall below it again. From the size under “{percent(_STAYS)} stays” "
        "on, no larger set does."
    )


def _num_sizes(found: Explained, others: str, ranking: str) -> int:
    """The number of sizes that a ranking's circuits have."""
    return len(select(found.faithfulness, others=others, ranking=ranking, order=SIGNED))


def _table(found: Explained, others: str) -> Table:
    """How many heads keep a share of the prediction, and both areas, by ranking."""
    known = {"others": others, "order": SIGNED}

    def cells(area: AreaRow) -> Iterator[str]:
        rows = select(found.circuits, ranking=area.ranking, **known)
        yield ranking_label(found, area.ranking)
        yield from (str(row.heads) for row in rows)
        stays = next(row.stays for row in rows if row.level == _STAYS)
        yield str(stays) if stays >= 0 else "–"
        yield within(area.cpr, area.cpr_low, area.cpr_high)
        yield within(area.cmd, area.cmd_low, area.cmd_high)

    return Table.of(
        (
            "best by",
            *(percent(level) for level in LEVELS),
            f"{percent(_STAYS)} stays",
            "CPR",
            "CMD",
        ),
        (
            tuple(cells(area))
            for area in select(found.areas, others=others, sizes="ours", scale="linear")
        ),
        "Heads that keep a share of the prediction, and areas",
    )


def latex_rows(found: Explained) -> str:
    r"""A row of a LaTeX table for each ranking.

    Its cells are the model, the ranking, the heads that keep 80 %, those from which on it stays,
    CPR and CMD with their intervals.
    """
    others = complements(found)[0].others
    rows = list[str]()
    for area in select(found.areas, others=others, sizes="ours", scale="linear"):
        circuits = select(found.circuits, ranking=area.ranking, others=others, order=SIGNED)
        row = next(each for each in circuits if each.level == _STAYS)
        cells = [
            found.record.model,
            ranking_label(found, area.ranking),
            str(row.heads),
            str(row.stays),
            within(area.cpr, area.cpr_low, area.cpr_high),
            within(area.cmd, area.cmd_low, area.cmd_high),
        ]
        rows.append(rf"{' & '.join(map(latex, cells))} \\")
    return "\n".join(rows)


def _areas(found: Explained, others: str) -> Iterator[Block]:
    """Both areas at other sizes, and over the logarithm of the share."""
    kinds = [("mib", "linear"), ("ours", "log"), ("mib", "log")]
    rows = [select(found.areas, others=others, sizes=sizes, scale=scale) for sizes, scale in kinds]
    if not rows[0]:
        return
    yield Text(
        "Four fifths of these areas lie above 20 % of the heads. Over the logarithm of the share "
        "small circuits count as much as large ones. MIB's sizes are ten shares from 0.1 to 100 % "
        "of the heads, rounded down."
    )
    headers = ("MIB’s sizes", "logarithm", "MIB’s sizes, logarithm")
    yield Table.of(
        ("best by", *(f"{area}, {each}" for each in headers for area in ("CPR", "CMD"))),
        (
            (
                ranking_label(found, each[0].ranking),
                *(nats(value) for row in each for value in (row.cpr, row.cmd)),
            )
            for each in zip(*rows, strict=True)
        ),
        "Areas at other sizes and over logarithms",
    )


def _sets(found: Explained, others: str) -> Table:
    """The smallest sets of heads."""
    return Table.of(
        ("best by", "share", "heads", "faithfulness", "in both halves", "by chance", "which"),
        (
            (
                *(ranking_label(found, row.ranking), percent(row.level), str(row.heads)),
                within(row.value, row.low, row.high),
                *(("–", "–") if isnan(row.shared) else (f"{row.shared:.0f}", f"{row.chance:.1f}")),
                _which(row),
            )
            for row in select(found.circuits, others=others, order=SIGNED)
            if row.ranking != RANDOM
        ),
        "The smallest sets of heads",
    )


def smallest(found: Explained) -> str:
    """The ranking that needs the fewest heads for most of the prediction."""
    said, total, noun = list[str](), found.faithfulness[-1].heads, unit(found)
    others = complements(found)[0].others
    for level in LEVELS[1:3]:
        rows = select(found.circuits, level=level, others=others, order=SIGNED)
        best = min((row for row in rows if row.ranking != RANDOM), key=lambda row: row.heads)
        random = next(row for row in rows if row.ranking == RANDOM)
        said.append(
            f"{best.heads} of {amount(total, noun)} keep {percent(level)} of the prediction, "
            "the best "
            f"by {ranking_label(found, best.ranking)}; of random {noun}s, {random.heads} do."
        )
    return " ".join(said)


def unit(found: Explained) -> str:
    """What circuits are made of: heads, or heads and MLPs."""
    return "unit" if Signature.parse(found.record.signature).get("units") else "head"


def _which(row: CircuitRow) -> str:
    """The heads of both halves' sets, if they are few."""
    sets = [each.split() for each in row.names.split(" | ")]
    both = [name for name in sets[0] if name in sets[-1]]
    more = f" and {len(both) - NAMED} more" if len(both) > NAMED else ""
    return f"{' '.join(both[:NAMED])}{more}"


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
                f"{label(ranking)}, {amount(row.heads, 'head')}: "
                f"{within(row.value, row.low, row.high)}"
                for row in here
            ],
        )
    ends = [each for row in rows for each in (row.value, row.low, row.high) if isfinite(each)]
    total = max(row.heads for row in rows)
    axes.set(
        xlabel=f"heads that are kept, of {total} (logarithmic)",
        ylabel="faithfulness",
        ylim=(min(-0.2, *ends) - 0.05, max(1.2, *ends) + 0.05),
    )
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.set_xlim(-0.2, total * 1.15)
    ticks = [each for each in _TICKS if each < total / 1.5]
    axes.set_xticks([*ticks, total], [*map(str, ticks), str(total)])
    axes.minorticks_off()
    figure.legend(loc="outside right upper")
    return figure


BOTH = "in and undecided"
"""The heads that are certain or undecided."""


_NAMED = 3
"""The most certain heads that are named, not counted."""


def stable_words(found: Explained) -> str:
    """Which heads are certain, or how many, and what they keep; empty without a stable circuit."""
    kept = find(found.kept, prompts="these", kept=BOTH)
    if kept is None:
        return ""
    number = {each: len(select(found.stable, verdict=each)) for each in ("in", "undecided")}
    verb = "is" if number["in"] == 1 else "are"
    certain = amount(number["in"], unit(found))
    if 0 < number["in"] <= _NAMED:
        certain = listed([row.head for row in select(found.stable, verdict="in")])
    said = (
        f"{certain} {verb} certain, {number['undecided']} undecided; with "
        f"both {_kept(kept)} of the prediction is kept"
    )
    there = find(found.kept, prompts="elsewhere", kept=BOTH)
    return f"{said}{'' if there is None else f', and {_kept(there)} on other prompts'}."


def _kept(row: KeptRow) -> str:
    if isnan(row.low):
        return percent(row.value)
    return f"{percent(row.value)} ({percent(row.low, 0, '')} to {percent(row.high, 0, '')})"


def _stable_blocks(found: Explained) -> Iterator[Block]:
    """The stable circuit, tests of it, and how far circuits agree."""
    if not found.stable:
        return
    yield Heading("The stable circuit")
    yield Text(stable_words(found))
    yield Text(
        f"The best {amount(found.record.stable_size, 'head')} by "
        f"{ranking_label(found, found.record.stable)} keep 80 % of the prediction. Prompts were "
        "drawn again 100 times by blocks: certain heads are among the best in at least 95 of the "
        "circuits, undecided ones in more than 5. Faithfulness on these prompts, which chose the "
        "heads, is too good; --elsewhere FILE measures it on others."
    )
    yield Text(f"{_tests(found)} {_agreement(found)}")
    yield Table.of(
        ("heads", "number", "prompts", "faithfulness"),
        (
            (row.kept, str(row.heads), row.prompts, within(row.value, row.low, row.high))
            for row in found.kept
        ),
        "What the stable circuit keeps",
    )
    rows = [row for row in found.stable if row.verdict != "out"]
    yield Table.of(
        ("head", "verdict", "in resamples", "lost without it"),
        (
            (
                *(row.head, row.verdict, percent(row.share)),
                f"{nats(row.lost)}{'*' if row.p < ALPHA else ''}",
            )
            for row in sorted_by(rows, lambda row: row.share, descending=True)
        ),
        "Heads of the stable circuit",
    )


def _tests(found: Explained) -> str:
    """Whether the circuit does what the model does, and its rest does not, and heads are needed."""
    said = list[str]()
    for row in select(found.kept, kept=BOTH):
        where = "these prompts" if row.prompts == "these" else "other prompts"
        does = "does what the model does" if row.is_equivalent else "is not shown to do that"
        said.append(f"On {where} the circuit {does} within a fifth (two one-sided tests at 2.5 %).")
    rest = find(found.kept, prompts="these", kept="rest")
    assert rest is not None
    knows = "nothing shows that the rest of the heads knows the answer"
    if not rest.is_independent:
        knows = f"the rest of the heads alone keeps {_kept(rest)}"
    rows = [row for row in found.stable if row.verdict != "out"]
    needed = sum(row.p < ALPHA and row.lost > 0 for row in rows)
    return (
        f"{' '.join(said)} {capital(knows)}. Of the circuit's "
        f"{amount(len(rows), 'head')}, {needed} are needed: without one of them (*) it keeps less "
        f"(p < {ALPHA:g} after Holm's correction)."
    )


def _agreement(found: Explained) -> str:
    """How far circuits of the same size agree, and from which size on that is enough."""
    rows = select(found.stability, ranking=found.record.stable)
    here = next(row for row in rows if row.heads == found.record.stable_size)
    total = rows[-1].heads
    good = next((row for row in rows if row.value >= ASKED and row.heads <= total / 5), None)
    more = (
        f"An index of {ASKED:g} is first reached by {good.heads}."
        if good
        else f"No circuit of up to a fifth of the heads reaches {ASKED:g}."
    )
    return f"Two such circuits agree by {_index(here)} (Jaccard). {more}{_enough(found, here)}"


def _enough(found: Explained, row: StabilityRow) -> str:
    """How many prompts circuits of this size would take to agree."""
    num = len(found.prompts)
    if not row.enough or row.value >= ASKED:
        return ""
    if row.enough < 0:
        return f" {32 * num:,} prompts like these would not be enough at this size (extrapolated)."
    return f" At this size it would take about {row.enough:,} prompts like these (extrapolated)."


def _index(row: StabilityRow) -> str:
    return (
        f"{within(row.value, row.low, row.high)}, those of both halves by {row.halves:.2f}, random "
        f"ones by {row.chance:.2f}"
    )
