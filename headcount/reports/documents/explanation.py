"""What an explanation shows: the heads that made a prediction, alone and together."""

from collections.abc import Iterator, Sequence
from math import isnan

import numpy as np

from headcount.core import Block, Document, Head, Heading, Table, Text, Warned, amount
from headcount.numbers import listed
from headcount.reports.documents.circuit import circuit_blocks
from headcount.results import UNLIKELY, EffectRow, Explained, JointRow
from headcount.statistics import rank_correlations
from headcount.vocabulary import EFFECTS

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
            *unlikely(found),
            Text(f"{what_is_predicted(found)} {best_heads(found)}", "lede"),
            Text(how(found)),
            *_heads(found),
            *_parts(found),
            *_written(found),
            *_together(found),
            *_layers(found),
            *circuit_blocks(found),
            Heading("Prompts"),
            Table.of(
                ("prompt", "target", "rival", "second prompt", "predicted", "second", "P(target)"),
                (
                    (
                        *(row.prompt, row.tokens, row.against, row.corrupt, nats(row.value)),
                        "" if isnan(row.second) else nats(row.second),
                        f"{row.probability:.2g}",
                    )
                    for row in found.prompts
                ),
                "Prompts and what is predicted",
            ),
        ),
    )


def unlikely(found: Explained) -> Iterator[Block]:
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
    value = within(record.value, record.low, record.high)
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


def within(value: float, low: float, high: float) -> str:
    """A number with its interval, if it has one."""
    ends = "" if isnan(low) else f" ({nats(low)} to {nats(high)})"
    return nats(value) + ends


def nats(value: float, sign: str = "") -> str:
    """A number with a true minus."""
    return f"{value:{sign}z.2f}".replace("-", "−")


def ranked(found: Explained, effect: str) -> list[EffectRow]:
    """The heads by the size of an effect, the largest first."""
    rows = [row for row in found.of(effect).values() if row.is_head]
    return sorted(rows, key=lambda row: -abs(row.value))


def extremes(found: Explained, effect: str) -> tuple[list[EffectRow], list[EffectRow]]:
    """The heads that raise what is predicted most by an effect, and the one that lowers it most."""
    rows = sorted(ranked(found, effect), key=lambda row: -row.value)
    lowering = [row for row in rows[-1:] if row.value < 0]
    return [row for row in rows[:RAISING] if row.value > 0], lowering


def best_heads(found: Explained) -> str:
    """The heads that raise and lower what is predicted most."""
    parts = list[str]()
    for effect in found.measured[:2]:
        raising, lowering = (
            [f"{row.part} ({nats(row.value, '+')})" for row in side]
            for side in extremes(found, effect)
        )
        said = [f"{', '.join(raising)} raise it most"] if raising else []
        said += [f"{lowering[0]} lowers it most"] if lowering else []
        if said:
            parts.append(f"{EFFECTS[effect].label}: {', and '.join(said)}.")
    return " ".join(f"{each[0].upper()}{each[1:]}" for each in parts)


def how(found: Explained) -> str:
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
    named = [row for side in extremes(found, "zero") for row in side]
    return [row.part for row in named if Head.parse(row.part).layer < 2]


def _heads(found: Explained) -> Iterator[Block]:
    """The heads with the largest effects."""
    halves = len(found.prompts) > 1
    yield Heading("Single heads")
    yield Text(f"{meanings(found)} {_order(found)}")
    columns = {name: found.of(name) for name in found.measured}
    yield Table.of(
        ("head", *(EFFECTS[name].label for name in columns), *(("halves",) if halves else ())),
        (
            (
                row.part,
                *(_cell(rows[row.part]) for rows in columns.values()),
                *((f"{nats(row.first)} / {nats(row.second)}",) if halves else ()),
            )
            for row in _shown(found)
        ),
        "The heads with the largest effects",
    )
    if {"corrupt", "estimate"} <= {*columns}:
        yield Text(_error(found))


def meanings(found: Explained) -> str:
    """What each effect means, and what means and knockouts were."""
    about = {name: EFFECTS[name].about for name in found.measured}
    if found.record.looks:
        about["knockout"] = f"what is lost if the head can't look {found.record.looks}"
    said = "; ".join(f"{EFFECTS[name].label}: {each}" for name, each in about.items())
    means = f" Means are over {found.record.means_over}." if "mean" in about else ""
    return f"{said[0].upper()}{said[1:]}.{means}"


def _shown(found: Explained) -> list[EffectRow]:
    """The heads of the table: the largest by the first effect, and those named by each other."""
    first, *others = found.measured
    rows = ranked(found, first)
    named = {row.part for each in others for side in extremes(found, each) for row in side}
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
    return within(row.value, row.low, row.high)


def _error(found: Explained) -> str:
    """How good the estimate of patching is."""
    patched, estimated = found.of("corrupt"), found.of("estimate")
    pairs = np.array([(row.value, estimated[name].value) for name, row in patched.items()]).T
    shown = [row.part for row in ranked(found, found.measured[0])[:SHOWN]]
    near = np.array([(patched[name].value, estimated[name].value) for name in shown])
    error, size = np.abs(near[:, 0] - near[:, 1]).mean(), np.abs(near[:, 0]).mean()
    said = (
        f"For the first {amount(len(shown), 'head')} the estimate is wrong by {error:.2f} on "
        f"average, and patching has an effect of {size:.2f}"
    )
    if len(patched) < 3:
        return f"{said}."
    correlation = float(rank_correlations(pairs[:1], pairs[1:])[0])
    return f"{said}. Over all heads their rank correlation is {nats(correlation)}."


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
        f"sum. Of the MLPs, {largest.part} adds most, {nats(largest.value, '+')}. A logit that is "
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
            *((name, nats(value)) for name, value in lines),
            ("logit", nats(found.record.logit)),
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
    yield Heading("What heads write")
    yield Text(f"{WRITES} Tokens stand between |.")
    yield written_table(found, SHOWN)


def written_table(found: Explained, most: int) -> Table:
    """The tokens of the heads with the largest attribution."""
    rows = [row for row in ranked(found, "attribution") if any(found.writes(row.part))]
    return Table.of(
        ("head", "promotes", "demotes"),
        (
            (row.part, *("|".join(each.token for each in side) for side in found.writes(row.part)))
            for row in rows[:most]
        ),
        "Tokens that heads promote and demote",
    )


def _together(found: Explained) -> Iterator[Block]:
    """The effects of several heads, and whether single effects add up to them."""
    if not found.joint:
        return
    yield Heading("Several heads together")
    yield Text(chosen_words(found))
    yield Text(" ".join(_misleading(found.joint)))
    yield together_table(found, found.joint)


def chosen_words(found: Explained) -> str:
    """On which prompts the best heads were chosen, and what stands beside them."""
    chosen = (
        "The best heads of each half of the prompts were chosen on the other half."
        if found.is_split
        else "The best heads were chosen on the prompts that they are measured on."
    )
    return (
        f"{chosen} Beside them stand the sum of their single effects, and as many random heads of "
        "the same layers."
    )


def together_table(found: Explained, rows: Sequence[JointRow]) -> Table:
    """The effects of several heads together."""
    return Table.of(
        ("effect", "best by", "heads", "together", "sum of single effects", "random", "left"),
        (
            (
                *(EFFECTS[row.effect].label, EFFECTS[row.ranking].label, str(row.heads)),
                within(row.value, row.low, row.high),
                nats(row.singles),
                within(row.random, row.random_low, row.random_high),
                nats(_left(found, row)),
            )
            for row in rows
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
        f"layers, {best.first} has the largest effect, {nats(best.value, '+')}."
    )
    yield Table.of(
        ("layers", "lost"),
        ((f"{row.first} to {row.last}", within(row.value, row.low, row.high)) for row in ranges),
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
            f"{EFFECTS[row.effect].label} {nats(row.value)}, not {nats(row.singles)} "
            f"({amount(row.heads, 'head')})"
            for row in wrong.values()
            if (abs(row.value) < abs(row.singles)) == is_less
        ]
        if said:
            yield (
                f"The best heads together have a {than} effect than the sum of their single "
                f"effects: {'; '.join(said)}. {why}. Which heads do was not measured."
            )
