"""What an explanation shows: the heads that made a prediction, alone, together and in circuits."""

from collections.abc import Callable, Iterator, Sequence
from math import isnan

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import (
    MUTED,
    Block,
    Chart,
    Document,
    Head,
    Heading,
    Table,
    Text,
    Warned,
    amount,
    new_figure,
    say,
)
from headcount.numbers import listed
from headcount.reports.figures.curves import COLOURS, MARKERS
from headcount.results import (
    LEVELS,
    RANDOM,
    UNLIKELY,
    CircuitRow,
    EffectRow,
    Explained,
    FaithfulnessRow,
    JointRow,
)
from headcount.statistics import rank_correlations
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


def circuits_blocks(found: Explained) -> Iterator[Block]:
    """The smallest sets of heads, how good rankings are, and the curve."""
    if not found.areas:
        return
    record, total = found.record, found.faithfulness[-1].heads
    yield Heading("A circuit of heads")
    yield Text(_smallest(found, total))
    yield Text(
        "All other heads give their mean outputs: without any head that leaves "
        f"{record.nothing:.2f} nats of {record.value:.2f}, and faithfulness is the share of the "
        "difference that is left. The heads of each half of the prompts were chosen on the other "
        "half. Sizes are exact to 10 heads, and then to a fifth; each is the first that reaches "
        "the share, so a larger set may fall below it again."
    )
    yield Table.of(
        ("best by", *(f"{level:.0%}" for level in LEVELS), "CPR", "CMD"),
        (
            (
                label_of(area.ranking),
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
        lambda: faithfulness_curve(found.faithfulness, label_of),
    )
    yield Table.of(
        ("best by", "share", "heads", "faithfulness", "in both halves", "by chance", "which"),
        (
            (
                *(label_of(row.ranking), f"{row.level:.0%}", str(row.heads)),
                f"{row.value:.2f} ({row.low:.2f} to {row.high:.2f})",
                *(("–", "–") if isnan(row.shared) else (f"{row.shared:.0f}", f"{row.chance:.1f}")),
                _which(row),
            )
            for row in found.circuits
            if row.ranking != RANDOM
        ),
        "The smallest sets of heads",
    )


def label_of(ranking: str) -> str:
    """What a ranking is called."""
    if ranking in EFFECTS:
        return EFFECTS[ranking].label
    return COLUMNS[ranking].label if ranking in COLUMNS else ranking.replace("_", " ")


def _smallest(found: Explained, total: int) -> str:
    """The ranking that needs the fewest heads for most of the prediction."""
    said = list[str]()
    for level in LEVELS[1:3]:
        rows = [row for row in found.circuits if row.level == level]
        best = min((row for row in rows if row.ranking != RANDOM), key=lambda row: row.heads)
        random = next(row for row in rows if row.ranking == RANDOM)
        said.append(
            f"{best.heads} of {amount(total, 'head')} keep {level:.0%} of the prediction, the best "
            f"by {label_of(best.ranking)}; of random heads, {random.heads} do."
        )
    return " ".join(said)


def _which(row: CircuitRow) -> str:
    """The heads of both halves' sets, if they are few."""
    sets = [each.split() for each in row.names.split(" | ")]
    both = [name for name in sets[0] if name in sets[-1]]
    more = f" and {len(both) - NAMED} more" if len(both) > NAMED else ""
    return f"{' '.join(both[:NAMED])}{more}"


SHOWN = 10
"""Number of heads in a table, or of those by its first effect."""
RAISING = 3
"""Number of heads that are named as those that raise what is predicted most, by each effect."""
WRITES = (
    "Promoted and demoted tokens: what a head gives where the prediction is made raises and lowers "
    "their logits most, through the final norm (its scale kept) and the unembedding."
)
"""What promoted and demoted tokens are."""


def explanation_document(found: Explained) -> Document:
    """The document of an explanation."""
    return Document(
        "Which heads made the prediction",
        (
            *_unlikely(found),
            Text(f"{what_is_predicted(found)} {_best(found)}", "lede"),
            Text(_how(found)),
            *_heads(found),
            *_parts(found),
            *_written(found),
            *_together(found),
            *_layers(found),
            *circuits_blocks(found),
            Heading("Prompts"),
            Table.of(
                ("prompt", "target", "rival", "second prompt", "predicted", "second", "P(target)"),
                (
                    (
                        *(row.prompt, row.tokens, row.against, row.corrupt, _nats(row.value)),
                        "" if isnan(row.second) else _nats(row.second),
                        f"{row.probability:.2g}",
                    )
                    for row in found.prompts
                ),
                "Prompts and what is predicted",
            ),
        ),
    )


def _unlikely(found: Explained) -> Iterator[Block]:
    """What a reader must know before anything else: that hardly anything was predicted."""
    if not found.unlikely:
        return
    row = found.unlikely[0]
    blank = ""
    if found.record.kind == "causal-lm" and not row.target.startswith(" "):
        blank = ". Words in a text begin with a blank: maybe the target should"
    more = "" if len(found.prompts) == 1 else f" after {row.prompt!r}"
    yield Warned(
        f"the model gives {_spoken(row.target)} a probability of {row.probability:.0e}{more}, less "
        f"than {UNLIKELY:.0e}, in {amount(len(found.unlikely), 'prompt')} of "
        f"{len(found.prompts)}, so what is explained was hardly predicted{blank}"
    )


def what_is_predicted(found: Explained) -> str:
    """What the model predicts, in a sentence."""
    record, row, number = found.record, found.prompts[0], len(found.prompts)
    value = _within(record.value, record.low, record.high)
    target, rival = _spoken(row.target), _spoken(row.against)
    chance = f" (P({target}) = {row.probability:.2g})"
    if number > 1:
        target, rival, chance = f"the targets of {number} prompts", "their rivals", ""
    if row.against:
        return f"{record.model} prefers {target} to {rival} by {value} nats{chance}."
    return f"{record.model} gives {target} a log-probability of {value} nats{chance}."


def _spoken(text: str) -> str:
    """A target or rival with its blanks."""
    return f"“{text}”"


def _within(value: float, low: float, high: float) -> str:
    """A number with its interval, if it has one."""
    within = "" if isnan(low) else f" ({_nats(low)} to {_nats(high)})"
    return _nats(value) + within


def _nats(value: float, sign: str = "") -> str:
    """A number with a true minus."""
    return f"{value:{sign}z.2f}".replace("-", "−")


def _ranked(found: Explained, effect: str) -> list[EffectRow]:
    """The heads by the size of an effect, the largest first."""
    rows = [row for row in found.of(effect).values() if row.is_head]
    return sorted(rows, key=lambda row: -abs(row.value))


def _extremes(found: Explained, effect: str) -> tuple[list[EffectRow], list[EffectRow]]:
    """The heads that raise what is predicted most by an effect, and the one that lowers it most."""
    rows = sorted(_ranked(found, effect), key=lambda row: -row.value)
    lowering = [row for row in rows[-1:] if row.value < 0]
    return [row for row in rows[:RAISING] if row.value > 0], lowering


def _best(found: Explained) -> str:
    """The heads that raise and lower what is predicted most."""
    parts = list[str]()
    for effect in found.measured[:2]:
        raising, lowering = (
            [f"{row.part} ({_nats(row.value, '+')})" for row in side]
            for side in _extremes(found, effect)
        )
        said = [f"{', '.join(raising)} raise it most"] if raising else []
        said += [f"{lowering[0]} lowers it most"] if lowering else []
        if said:
            parts.append(f"{EFFECTS[effect].label}: {', and '.join(said)}.")
    return " ".join(f"{each[0].upper()}{each[1:]}" for each in parts)


def _how(found: Explained) -> str:
    """What the numbers are."""
    record, several = found.record, any("|" in row.tokens for row in found.prompts)
    said = [
        "An effect says by how much a head raises what is predicted, in nats: the log-probability "
        "of the target, less that of its rival."
    ]
    if record.first:
        said.append("Of targets of several tokens, the first is read (--first).")
    elif several:
        said.append(
            "Of targets of several tokens (between |), the joint log-probability is read; --first "
            "reads the first token alone."
        )
    if "gradient" in found.measured:
        said.append(
            "Heads of this model don't add up to a logit (it has norms behind attention, or a "
            "transformation in front of the unembedding), so gradient x output stands in place of "
            "attribution."
        )
    if early := _early(found):
        verb = "lies" if len(early) == 1 else "lie"
        said.append(
            f"Of the heads named for zeroing, {listed(early)} {verb} in the first two layers: "
            "zeroing these changes every later layer, whatever the prompt."
        )
    if len(found.prompts) > 1:
        said.append("Intervals are Student's over prompts (95 %); halves hold every second prompt.")
    return " ".join(said)


def _early(found: Explained) -> list[str]:
    """The heads named for zeroing that lie in the first two layers."""
    named = [row for side in _extremes(found, "zero") for row in side]
    return [row.part for row in named if Head.parse(row.part).layer < 2]


def _heads(found: Explained) -> Iterator[Block]:
    """The heads with the largest effects."""
    halves = len(found.prompts) > 1
    yield Heading("Single heads")
    about = "; ".join(f"{EFFECTS[name].label}: {EFFECTS[name].about}" for name in found.measured)
    means = f" Means are over {found.record.means_over}." if "mean" in found.measured else ""
    yield Text(f"{about[0].upper()}{about[1:]}.{means} {_order(found)}")
    columns = {name: found.of(name) for name in found.measured}
    yield Table.of(
        ("head", *(EFFECTS[name].label for name in columns), *(("halves",) if halves else ())),
        (
            (
                row.part,
                *(_cell(rows[row.part]) for rows in columns.values()),
                *((f"{_nats(row.first)} / {_nats(row.second)}",) if halves else ()),
            )
            for row in _shown(found)
        ),
        "The heads with the largest effects",
    )
    if {"corrupt", "estimate"} <= {*columns}:
        yield Text(_error(found))


def _shown(found: Explained) -> list[EffectRow]:
    """The heads of the table: the largest by the first effect, and those named by each other."""
    first, *others = found.measured
    rows = _ranked(found, first)
    named = {row.part for each in others for side in _extremes(found, each) for row in side}
    return rows[:SHOWN] + [row for row in rows[SHOWN:] if row.part in named]


def _order(found: Explained) -> str:
    """Which heads stand in the table, and in which order."""
    first, *others = found.measured
    label = EFFECTS[first].label
    if len(found.of(first)) <= SHOWN or not others:
        return f"Heads are sorted by the size of their effect “{label}”."
    return (
        f"Heads are sorted by the size of their effect “{label}”: the {SHOWN} largest, and below "
        f"them, of every other effect, the {RAISING} heads that raise the prediction most and the "
        "one that lowers it most."
    )


def _cell(row: EffectRow) -> str:
    return _within(row.value, row.low, row.high)


def _error(found: Explained) -> str:
    """How good the estimate of patching is."""
    patched, estimated = found.of("corrupt"), found.of("estimate")
    pairs = np.array([(row.value, estimated[name].value) for name, row in patched.items()]).T
    shown = [row.part for row in _ranked(found, found.measured[0])[:SHOWN]]
    near = np.array([(patched[name].value, estimated[name].value) for name in shown])
    error, size = np.abs(near[:, 0] - near[:, 1]).mean(), np.abs(near[:, 0]).mean()
    said = (
        f"For the first {amount(len(shown), 'head')} the estimate is wrong by {error:.2f} on "
        f"average, and patching has an effect of {size:.2f}"
    )
    if len(patched) < 3:
        return f"{said}."
    correlation = float(rank_correlations(pairs[:1], pairs[1:])[0])
    return f"{said}. Over all heads their rank correlation is {_nats(correlation)}."


def _parts(found: Explained) -> Iterator[Block]:
    """What adds up to the logit."""
    rows = found.of("attribution")
    others = [row for row in rows.values() if not row.is_head]
    if not others:
        return
    mlps = [row for row in others if row.part.startswith("mlp.")]
    largest = max(mlps, key=lambda row: abs(row.value))
    heads = sum(row.value for row in rows.values() if row.is_head)
    yield Heading("What adds up to the logit")
    yield Text(
        "With the final norm's scale kept, the logit of the target, less that of its rival, is a "
        f"sum. Of the MLPs, {largest.part} adds most, {_nats(largest.value, '+')}. A logit that is "
        "capped is the one before the cap."
    )
    total = heads + sum(row.value for row in others)
    lines = [("heads", heads), ("MLPs", sum(row.value for row in mlps))]
    lines += [(row.part, row.value) for row in others if row not in mlps]
    if abs(rest := found.record.logit - total) > 0.005:  # of --heads, some were chosen
        lines.insert(1, ("other heads", rest))
    yield Table.of(
        ("part", "adds"),
        [
            *((name, _nats(value)) for name, value in lines),
            ("logit", _nats(found.record.logit)),
        ],
        "Parts of the logit",
    )


def _written(found: Explained) -> Iterator[Block]:
    """What the largest heads write, or why that is not said."""
    if len(found.prompts) > 1:
        return
    if not found.written:
        is_label = found.record.kind == "classification"
        if is_label or "gradient" in found.measured:
            why = "labels are predicted" if is_label else "attribution is not exact here"
            yield Text(f"The tokens that heads promote are not said, since {why}.")
        return
    rows = [row for row in _ranked(found, "attribution") if any(found.writes(row.part))]
    yield Heading("What heads write")
    yield Text(f"{WRITES} Tokens stand between |.")
    yield Table.of(
        ("head", "promotes", "demotes"),
        (
            (row.part, *("|".join(each.token for each in side) for side in found.writes(row.part)))
            for row in rows[:SHOWN]
        ),
        "Tokens that heads promote and demote",
    )


def _together(found: Explained) -> Iterator[Block]:
    """The effects of several heads, and whether single effects add up to them."""
    if not found.joint:
        return
    yield Heading("Several heads together")
    chosen = (
        "The best heads of each half of the prompts were chosen on the other half."
        if found.is_split
        else "The best heads were chosen on the prompts that they are measured on."
    )
    yield Text(
        f"{chosen} Beside them stand the sum of their single effects, and as many random heads of "
        "the same layers."
    )
    yield Text(" ".join(_misleading(found.joint)))
    yield Table.of(
        ("effect", "best by", "heads", "together", "sum of single effects", "random", "left"),
        (
            (
                *(EFFECTS[row.effect].label, EFFECTS[row.ranking].label, str(row.heads)),
                _within(row.value, row.low, row.high),
                _nats(row.singles),
                _within(row.random, row.random_low, row.random_high),
                _nats(_left(found, row)),
            )
            for row in found.joint
        ),
        "Effects of several heads together",
    )


def _left(found: Explained, row: JointRow) -> float:
    """What is predicted with the heads replaced."""
    if row.effect == "restored":
        return found.record.second + row.value
    return found.record.value - row.value


def _layers(found: Explained) -> Iterator[Block]:
    """What is lost without the looks of layers."""
    if not found.layers:
        return
    single = [row for row in found.layers if row.first == row.last]
    ranges = [row for row in found.layers if row.first < row.last] or single
    best = max(single, key=lambda row: abs(row.value))
    yield Heading("Looks, by layers")
    yield Text(
        f"What is lost if no head of these layers can look {found.record.looks}. Of single "
        f"layers, {best.first} has the largest effect, {_nats(best.value, '+')}."
    )
    yield Table.of(
        ("layers", "lost"),
        ((f"{row.first} to {row.last}", _within(row.value, row.low, row.high)) for row in ranges),
        "Effects of looks, by layers",
    )


def _misleading(rows: Sequence[JointRow]) -> Iterator[str]:
    """Where single effects add up to something else, by the largest number of heads."""
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
            f"{EFFECTS[row.effect].label} {_nats(row.value)}, not {_nats(row.singles)} "
            f"({amount(row.heads, 'head')})"
            for row in wrong.values()
            if (abs(row.value) < abs(row.singles)) == is_less
        ]
        if said:
            yield (
                f"The best heads together have a {than} effect than the sum of their single "
                f"effects: {'; '.join(said)}. {why}. Which heads do was not measured."
            )
