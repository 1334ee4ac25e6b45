"""What an explanation shows: the heads that made a prediction, alone and together."""

from collections.abc import Iterator
from math import isnan
from pathlib import Path

import numpy as np

from headcount.core import (
    Block,
    Document,
    Head,
    Heading,
    Table,
    Text,
    Warned,
    amount,
    capital,
    sorted_by,
)
from headcount.explanation.circuits_document import circuit_blocks
from headcount.explanation.opening import (
    RAISING,
    best_heads,
    extremes,
    headline,
    lede,
    ranked,
    title,
    what_is_predicted,
)
from headcount.explanation.positions_document import position_blocks
from headcount.explanation.reasons_document import reason_blocks
from headcount.explanation.result import EffectRow, Explained
from headcount.explanation.together_document import effect_maps, together_blocks, words_of
from headcount.numbers import listed, nats, within
from headcount.pages import Note
from headcount.statistics import ALPHA, rank_correlations

SHOWN = 10
"""Number of heads in a table, or of those by its first effect."""
WRITES = (
    "Promoted and demoted tokens: what a head writes where the prediction is made raises and "
    "lowers their logits most, through the final norm (its scale kept) and the unembedding."
)
"""What promoted and demoted tokens are."""


def explanation_notes(found: Explained) -> Iterator[Note]:
    """What each effect is, and what is kept by heads alone."""
    for effect in found.measured:
        if words := found.record.words.get(effect):
            yield Note(
                capital(words.label),
                f"{capital(words.about)}.",
                words.source,
            )
    if found.circuits:
        yield Note(
            "Circuits",
            "Share of the prediction that is left if all other heads write what they write in a "
            "second prompt, or their means. CPR is the area under that share over the number of "
            "heads, CMD the area between it and 1.",
            "Mueller et al., 2025, arXiv:2504.13151",
        )


def explanation_document(found: Explained) -> Document:
    """The document of an explanation."""
    return Document(
        title(found),
        (
            *map(Warned, found.record.warnings),
            *_opening(found),
            Text(how(found)),
            *_heads(found),
            *_parts(found),
            *_written(found),
            *reason_blocks(found),
            *position_blocks(found),
            *together_blocks(found),
            *_layers(found),
            *circuit_blocks(found),
            Heading("Prompts"),
            _prompts(found),
        ),
    )


def _opening(found: Explained) -> Iterator[Block]:
    """What a reader wants first; of several prompts the heads in one sentence, then their map."""
    if len(found.prompts) == 1:
        yield Text(lede(found), "lede")
        return
    yield Text(headline(found), "lede")
    yield from effect_maps(found)
    said = what_is_predicted(found), best_heads(found)
    yield Text(" ".join(filter(None, said)), "lede")


def _prompts(found: Explained) -> Table:
    """The prompts, which a page folds if there are several; columns that are empty are left out."""
    headers = ("prompt", "target", "rival", "second prompt", "predicted", "second", "P(target)")
    headers += ("pictures",)
    rows = [
        (
            *(row.prompt, row.tokens, row.against, row.corrupt, nats(row.value)),
            "" if isnan(row.second) else nats(row.second),
            f"{row.probability:.2g}",
            " | ".join(Path(each).name for each in row.pictures.split(" | ")),
        )
        for row in found.prompts
    ]
    kept = [n for n in range(len(headers)) if any(row[n] for row in rows)]
    return Table.of(
        [headers[n] for n in kept],
        ([row[n] for n in kept] for row in rows),
        "Prompts and what is predicted",
        is_detail=len(rows) > 1,
    )


def how(found: Explained) -> str:
    """What the numbers are."""
    record, several = found.record, any("|" in row.tokens for row in found.prompts)
    said = [
        "An effect is how much a head raises the prediction: the log-probability of the target, "
        "less that of its rival, in nats."
    ]
    if record.first:
        said.append("If a target has several tokens, only the first counts (--first).")
    elif several:
        said.append(
            "Targets of several tokens (between |) have their joint log-probability; --first reads "
            "the first token alone."
        )
    if "gradient" in found.measured:
        said.append(
            "Heads of this model don't add up to a logit (it has norms behind attention, or a "
            "transformation in front of the unembedding), so gradient x output takes the place of "
            "attribution."
        )
    replacing = (("zero", "zeroing"), ("mean", "means"))
    early = [(words, _early(found, effect)) for effect, words in replacing]
    if named := [f"{words} ({', '.join(heads)})" for words, heads in early if heads]:
        said.append(
            f"Heads of the first two layers lead for {listed(named)}: replacing these changes "
            "every later layer, whatever the prompt."
        )
    said += [*_of_one_prompt(found), *_of_two_prompts(found)]
    if len(found.prompts) > 1:
        said.append(
            "Intervals are Student's over prompts (95 %); each half has every second prompt."
        )
    return " ".join(said)


def _of_one_prompt(found: Explained) -> Iterator[str]:
    """What a mean over the tokens of a single prompt is not."""
    if _means_over_one(found):
        yield (
            "Means are over the tokens of this prompt alone, not over a data set: --texts FILE "
            "averages over texts."
        )


def _means_over_one(found: Explained) -> bool:
    """Whether means are over one prompt."""
    is_one = len(found.prompts) == 1 and found.record.means_over == "prompts"
    return is_one and "mean" in found.measured


def _of_two_prompts(found: Explained) -> Iterator[str]:
    """How large effects between prompts can be, if the second one prefers the other answer."""
    record = found.record
    between = [name for name in ("corrupt", "restored") if name in found.measured]
    if between and record.second < 0 < record.value and found.prompts[0].against:
        second = "The second prompt prefers" if len(found.prompts) == 1 else "Second prompts prefer"
        labels = " or ".join(f"“{words_of(found, name).label}”" for name in between)
        yield (
            f"{second} the other answer ({nats(record.second)}), so an effect {labels} can be as "
            f"large as the distance between both prompts, {nats(record.value - record.second)}."
        )


def _early(found: Explained, effect: str) -> list[str]:
    """The heads named for an effect that lie in the first two layers."""
    named = [row for side in extremes(found, effect) for row in side]
    return [row.part for row in named if Head.parse(row.part).layer < 2]


def _heads(found: Explained) -> Iterator[Block]:
    """The heads with the largest effects."""
    halves = len(found.prompts) > 1
    yield Heading("Single heads")
    yield Text(f"{meanings(found)} {_order(found)}")
    columns = {name: found.of(name) for name in found.measured}
    yield Table.of(
        (
            "head",
            *(words_of(found, name).label for name in columns),
            *(("halves",) if halves else ()),
        ),
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
    if certain := _certain(found):
        yield Text(certain)
    if {"corrupt", "estimate"} <= {*columns}:
        yield Text(_error(found))


def meanings(found: Explained) -> str:
    """What each effect means, and what means and knockouts were."""
    about = {name: words_of(found, name).about for name in found.measured}
    if found.record.looks:
        about["knockout"] = f"what is lost if the head can't look {found.record.looks}"
    said = "; ".join(f"{words_of(found, name).label}: {each}" for name, each in about.items())
    is_said = "mean" in about and not _means_over_one(found)
    means = f" Means are over {found.record.means_over}." if is_said else ""
    return f"{capital(said)}.{means}"


def _shown(found: Explained) -> list[EffectRow]:
    """The heads of the table: the largest by the first effect, and those named by each other."""
    first, *others = found.measured
    rows = ranked(found, first)
    named = {row.part for each in others for side in extremes(found, each) for row in side}
    return rows[:SHOWN] + [row for row in rows[SHOWN:] if row.part in named]


def _order(found: Explained) -> str:
    """Which heads stand in the table, and in which order."""
    first, *others = found.measured
    label = words_of(found, first).label
    if len(found.of(first)) <= SHOWN or not others:
        return f"Heads are sorted by the size of their effect “{label}”."
    return (
        f"The table has the {SHOWN} heads with the largest effects “{label}” and, below them, for "
        f"every other effect the {RAISING} heads that raise the prediction most and the one that "
        "lowers it most."
    )


def _cell(row: EffectRow) -> str:
    return within(row.value, row.low, row.high) + ("*" if row.p < ALPHA else "")


def _certain(found: Explained) -> str:
    """How many heads have each effect beyond chance; empty where that is not known."""
    rows = {name: found.of(name).values() for name in found.measured}
    numbers = [
        f"{words_of(found, name).label} {sum(row.p < ALPHA for row in its)}"
        for name, its in rows.items()
        if any(row.p == row.p for row in its)
    ]
    if not numbers:
        return ""
    heads = amount(len(found.of(found.measured[0])), "head")
    return (
        f"Each interval covers one head alone. After Holm's correction for {heads}, those with * "
        f"have an effect (p < {ALPHA:g}). Number of heads that have one: {', '.join(numbers)}."
    )


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
    heads = sum(row.value for row in rows.values() if row.is_head)
    yield Heading("What adds up to the logit")
    yield Text(
        "With the final norm's scale kept, the logit of the target, less that of its rival, is a "
        f"sum. {_of_mlps(mlps)} A logit that is capped is the one before the cap."
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


def _of_mlps(rows: list[EffectRow]) -> str:
    """Which MLP adds most to the logit, and which one takes most away."""
    low, high = (each(rows, key=lambda row: row.value) for each in (min, max))
    if high.value <= 0:
        return f"No MLP raises it; {low.part} lowers it most, {nats(low.value)}."
    takes = f", and {low.part} lowers it most, {nats(low.value)}" if low.value < 0 else ""
    return f"Of the MLPs, {high.part} raises it most, {nats(high.value, '+')}{takes}."


def _written(found: Explained) -> Iterator[Block]:
    """What the largest heads write, or why that is unknown."""
    if len(found.prompts) > 1:
        return
    if not found.written:
        is_label = found.record.kind == "classification"
        if is_label or "gradient" in found.measured:
            why = "labels are predicted" if is_label else "attribution is not exact here"
            yield Text(f"The tokens that heads promote are not listed, since {why}.")
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


def _layers(found: Explained) -> Iterator[Block]:
    """What is lost without the looks of layers."""
    if not found.layers:
        return
    single = [row for row in found.layers if row.first == row.last]
    ranges = [row for row in found.layers if row.first < row.last] or single
    best = sorted_by(single, lambda row: abs(row.value), descending=True)[0]
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
