"""What an explanation shows: the heads that made a prediction, one by one and together."""

from collections.abc import Iterator, Sequence
from math import isnan

import numpy as np

from headcount.core import Block, Document, Heading, Table, Text, Warned, amount
from headcount.reports.documents.circuits import circuits_blocks
from headcount.results import UNLIKELY, EffectRow, Explained, JointRow
from headcount.statistics import rank_correlations
from headcount.vocabulary import EFFECTS

SHOWN = 10
"""Number of heads in a table."""
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


def _within(value: float, low: float, high: float, sign: str = "") -> str:
    """A number with its interval, if it has one."""
    within = "" if isnan(low) else f" ({_nats(low)} to {_nats(high)})"
    return _nats(value, sign) + within


def _nats(value: float, sign: str = "") -> str:
    """A number with a true minus."""
    return f"{value:{sign}z.2f}".replace("-", "−")


def _ranked(found: Explained, effect: str) -> list[EffectRow]:
    """The heads by the size of an effect, the largest first."""
    rows = [row for row in found.of(effect).values() if row.is_head]
    return sorted(rows, key=lambda row: -abs(row.value))


def _best(found: Explained) -> str:
    """The heads that raise and lower what is predicted most."""
    parts = list[str]()
    for effect in found.measured[:2]:
        rows = sorted(_ranked(found, effect), key=lambda row: -row.value)
        raising = [f"{row.part} ({_nats(row.value, '+')})" for row in rows[:3] if row.value > 0]
        lowering = [f"{row.part} ({_nats(row.value, '+')})" for row in rows[-1:] if row.value < 0]
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
    if len(found.prompts) > 1:
        said.append("Intervals are Student's over prompts (95 %); halves hold every second prompt.")
    return " ".join(said)


def _heads(found: Explained) -> Iterator[Block]:
    """The heads with the largest effects."""
    first, halves = found.measured[0], len(found.prompts) > 1
    yield Heading("Single heads")
    about = "; ".join(f"{EFFECTS[name].label}: {EFFECTS[name].about}" for name in found.measured)
    means = f" Means are over {found.record.means_over}." if "mean" in found.measured else ""
    yield Text(f"{about[0].upper()}{about[1:]}.{means}")
    columns = {name: found.of(name) for name in found.measured}
    yield Table.of(
        ("head", *(EFFECTS[name].label for name in columns), *(("halves",) if halves else ())),
        (
            (
                row.part,
                *(_cell(rows[row.part]) for rows in columns.values()),
                *((f"{_nats(row.first)} / {_nats(row.second)}",) if halves else ()),
            )
            for row in _ranked(found, first)[:SHOWN]
        ),
        f"The {SHOWN} heads with the largest effects by {EFFECTS[first].label}",
    )
    if {"corrupt", "estimate"} <= {*columns}:
        yield Text(_error(found))


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
        f"For these heads the estimate is wrong by {error:.2f} on average, and patching has an "
        f"effect of {size:.2f}"
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
    for is_less, why in (
        (True, "they do the same thing in turn, and each single effect counts it"),
        (False, "where one is missing, others do what it did, and no single effect counts it"),
    ):
        said = [
            f"{EFFECTS[row.effect].label} {_nats(row.value)}, not {_nats(row.singles)} "
            f"({amount(row.heads, 'head')})"
            for row in wrong.values()
            if (abs(row.value) < abs(row.singles)) == is_less
        ]
        if said:
            yield (
                "The best heads together have another effect than their single effects add up to: "
                f"{'; '.join(said)}. So sums mislead here: {why}."
            )
