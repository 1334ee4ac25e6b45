"""What an explanation shows of several heads: replaced together, and as a circuit.

A circuit says how few heads keep a prediction, and which ranking finds them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isnan

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import MUTED, Block, Chart, Heading, Table, Text, amount, new_figure, say
from headcount.explanation import EFFECTS
from headcount.numbers import nats, percent, within
from headcount.reports.figures.curves import COLOURS, MARKERS
from headcount.results import (
    LEVELS,
    RANDOM,
    CircuitRow,
    EffectWords,
    Explained,
    FaithfulnessRow,
    JointRow,
    Signature,
)
from headcount.vocabulary import COLUMNS

FEW = 5
"""Number of heads that a terminal shows, and largest number of best ones that sentences name."""


def together_blocks(found: Explained) -> Iterator[Block]:
    """The effects of several heads, and whether single effects add up to them."""
    if not found.joint:
        return
    yield Heading("Several heads together")
    yield Text(chosen_words(found))
    yield Text(preferred_words(found))
    yield Text(" ".join(_misleading(found)))
    yield together_table(found, found.joint)
    yield from _names(found)


def chosen_words(found: Explained) -> str:
    """On which prompts the best heads were chosen, and what stands beside them."""
    chosen = (
        "The best heads of each half of the prompts were chosen on the other half."
        if found.is_split
        else "The best heads were chosen on the prompts that they are measured on."
    )
    several = len(found.prompts) > 1
    over = ", with its interval over prompts, not over sets" if several else ""
    said = [
        f"{chosen} Beside them stand the sum of their single effects, and as many random heads of "
        f"the same layers: the mean of {amount(_draws(found), 'set')}{over}."
    ]
    if _has_spread(found):
        said.append("“Sets” are the smallest and the largest of these sets.")
    if any(row.effect == "restored" for row in found.joint):
        said.append(
            "“Left” is what is then predicted; into the second prompt, what the second prompt then "
            "predicts."
        )
    return " ".join(said)


def _draws(found: Explained) -> int:
    """Number of sets of random heads."""
    return int(Signature.parse(found.record.signature).get("draws") or 1)


def _has_spread(found: Explained) -> bool:
    """Whether sets of random heads differ; older results do not say it."""
    return _draws(found) > 1 and not any(isnan(row.random_least) for row in found.joint)


def few_together(found: Explained) -> list[JointRow]:
    """The rows of the largest number of best heads that is not above a few."""
    sizes = {row.heads for row in found.joint}
    size = max((each for each in sizes if each <= FEW), default=min(sizes, default=0))
    return [row for row in found.joint if row.heads == size]


def _counts(found: Explained) -> bool:
    """Whether it was counted in how many of several prompts the target is preferred."""
    return len(found.prompts) > 1 and not any(isnan(row.preferred) for row in found.joint)


def preferred_words(found: Explained) -> str:
    """In how many prompts the target is preferred to its rival, with and without some heads."""
    if not _counts(found):
        return ""
    rivals = [row for row in found.prompts if row.against]
    among = "prompts" if len(rivals) == len(found.prompts) else "prompts with a rival"
    said = [
        "The model prefers the target to its rival in "
        f"{sum(row.value > 0 for row in rivals)} of {len(rivals)} {among}"
    ]
    rows = [row for row in few_together(found) if row.effect != "restored"]
    said += [
        f"without the best {amount(row.heads, 'head')} by “{words_of(found, row.ranking).label}” "
        f"in {_number(row.preferred)}, without random ones in {_number(row.random_preferred)}"
        for row in rows
        if row.effect == rows[0].effect
    ]
    how = f" (effect “{words_of(found, rows[0].effect).label}”)" if rows else ""
    random = "those with random heads (the mean over sets) in brackets"
    last = f"The last column has these numbers, {random}."
    if any(row.effect == "restored" for row in found.joint):
        second = sum(row.second > 0 for row in rivals)
        last += (
            " Into the second prompt, they are of second prompts, of which "
            f"{second} prefer the target as they are."
        )
    return f"{'; '.join(said)}{how}. {last}"


def _number(mean: float) -> str:
    """A number of prompts, or the mean of several."""
    return f"{round(mean, 1):g}"


def together_table(found: Explained, rows: Sequence[JointRow]) -> Table:
    """The effects of several heads together."""
    has_spread, counts = _has_spread(found), _counts(found)
    headers = ("effect", "best by", "heads", "together", "sum of single effects", "random")
    return Table.of(
        (
            *headers,
            *(("sets",) if has_spread else ()),
            "left",
            *(("preferred",) if counts else ()),
        ),
        (
            (
                *(
                    words_of(found, row.effect).label,
                    words_of(found, row.ranking).label,
                    str(row.heads),
                ),
                within(row.value, row.low, row.high),
                nats(row.singles),
                within(row.random, row.random_low, row.random_high),
                *((f"{nats(row.random_least)} to {nats(row.random_most)}",) if has_spread else ()),
                nats(_left(found, row)),
                *(
                    (f"{_number(row.preferred)} ({_number(row.random_preferred)})",)
                    if counts
                    else ()
                ),
            )
            for row in rows
        ),
        "Effects of several heads together",
    )


def _names(found: Explained) -> Iterator[Block]:
    """Which heads are the best by each effect."""
    largest = {row.ranking: row for row in sorted(found.joint, key=lambda row: row.heads)}
    yield Text(
        "The best heads, the best one first; those of a smaller number are the first of them."
    )
    heads = ("in prompts 1, 3, …", "in prompts 2, 4, …") if found.is_split else ("heads",)
    yield Table.of(
        ("best by", *heads),
        (
            (words_of(found, ranking).label, *(row.names.split(" | ") * 2)[: len(heads)])
            for ranking, row in largest.items()
        ),
        "The best heads by each effect",
    )


def _left(found: Explained, row: JointRow) -> float:
    """What is predicted with the heads replaced."""
    if row.effect == "restored":
        return found.record.second + row.value
    return found.record.value - row.value


def _misleading(found: Explained) -> Iterator[str]:
    """Where single effects add up to something else, by the largest number of heads."""
    rows = found.joint
    wrong = {row.effect: row for row in rows if row.effect == row.ranking and row.misleads}
    for is_less, than, why in (
        (
            True,
            "smaller",
            "The sum counts an effect several times where heads share it, for example where one "
            "reads what another writes",
        ),
        (
            False,
            "larger",
            "A single effect is small where other heads make up for the missing one, and the sum "
            "lacks what they make up for",
        ),
    ):
        said = [
            f"{words_of(found, row.effect).label} {nats(row.value)}, not {nats(row.singles)} "
            f"({amount(row.heads, 'head')})"
            for row in wrong.values()
            if (abs(row.value) < abs(row.singles)) == is_less
        ]
        if said:
            yield (
                f"The best heads together have a {than} effect than the sum of their single "
                f"effects: {'; '.join(said)}. {why}. Which heads do was not measured."
            )


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
                ranking_label(found, area.ranking),
                *(str(row.heads) for row in found.circuits if row.ranking == area.ranking),
                within(area.cpr, area.cpr_low, area.cpr_high),
                within(area.cmd, area.cmd_low, area.cmd_high),
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
        lambda: faithfulness_curve(found.faithfulness, partial(ranking_label, found)),
    )
    yield Table.of(
        ("best by", "share", "heads", "faithfulness", "in both halves", "by chance", "which"),
        (
            (
                *(ranking_label(found, row.ranking), percent(row.level), str(row.heads)),
                within(row.value, row.low, row.high),
                *(("–", "–") if isnan(row.shared) else (f"{row.shared:.0f}", f"{row.chance:.1f}")),
                _which(row),
            )
            for row in found.circuits
            if row.ranking != RANDOM
        ),
        "The smallest sets of heads",
    )


def words_of(found: Explained, effect: str) -> EffectWords:
    """What an effect is called, also in a result of a version that did not store it."""
    return found.record.words.get(effect) or EFFECTS[effect].words()


def ranking_label(found: Explained, ranking: str) -> str:
    """What a ranking is called."""
    if ranking in found.record.words or ranking in EFFECTS:
        return words_of(found, ranking).label
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
            f"by {ranking_label(found, best.ranking)}; of random heads, {random.heads} do."
        )
    return " ".join(said)


def _which(row: CircuitRow) -> str:
    """The heads of both halves' sets, if they are few."""
    sets = [each.split() for each in row.names.split(" | ")]
    both = [name for name in sets[0] if name in sets[-1]]
    more = f" and {len(both) - NAMED} more" if len(both) > NAMED else ""
    return f"{' '.join(both[:NAMED])}{more}"
