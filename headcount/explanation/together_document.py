"""What an explanation shows of several heads that are replaced together, and of all: a map."""

from collections.abc import Iterator, Sequence
from math import isnan

import numpy as np
from matplotlib.figure import Figure

from headcount.core import (
    MUTED,
    SITES,
    Block,
    Chart,
    Head,
    Heading,
    Table,
    Text,
    amount,
    new_figure,
    say,
)
from headcount.explanation.effects import EFFECTS
from headcount.explanation.result import EffectRow, EffectWords, Explained, JointRow
from headcount.numbers import nats, within
from headcount.pages import DIVERGING, MEASURES
from headcount.results import Signature
from headcount.statistics import ALPHA

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
    yield from _backups(found)


def chosen_words(found: Explained) -> str:
    """On which prompts the best heads were chosen, and what they are compared with."""
    chosen = (
        "The best heads of each half of the prompts were chosen on the other half."
        if found.is_split
        else "The best heads were chosen on the prompts that they are measured on."
    )
    several = len(found.prompts) > 1
    over = ", with an interval over prompts (not over sets)" if several else ""
    said = [
        f"{chosen} Beside them are the sum of their single effects, and as many random heads "
        f"of {_drawn(found)}: the mean of {amount(_draws(found), 'set')}{over}."
    ]
    if _has_spread(found):
        said.append("“Sets” has the smallest and the largest of these sets.")
    if any(row.effect == "restored" for row in found.joint):
        said.append(
            "“Left” is the prediction that is left: of the second prompt, where heads write "
            "into it."
        )
    return " ".join(said)


def _drawn(found: Explained) -> str:
    """Which layers random heads are from."""
    few = sorted({row.heads for row in found.joint if row.drawn == "all"})
    if not few:
        return "the same layers"
    which = "any layer, since fewer than 20 different sets of the same layers exist"
    if any(row.drawn == "layers" for row in found.joint):
        named = ", ".join(map(str, few))
        return f"the same layers (for some sets of {named} of {which})"
    return which


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
            " Where heads write into the second prompt, it counts second prompts; "
            f"{second} of them prefer the target unchanged."
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
    yield Text("The best heads, best first; a smaller number of heads takes the first of these.")
    heads = ("in prompts 1, 3, …", "in prompts 2, 4, …") if found.is_split else ("heads",)
    yield Table.of(
        ("best by", *heads),
        (
            (words_of(found, ranking).label, *(row.names.split(" | ") * 2)[: len(heads)])
            for ranking, row in largest.items()
        ),
        "The best heads by each effect",
    )


def _backups(found: Explained) -> Iterator[Block]:
    """Which heads make up for the best ones, if that was asked for."""
    if not found.backups:
        return
    sure = [f"{row.backup} for {row.head}" for row in found.backups if row.p < ALPHA]
    certain = f"Beyond chance (*): {', '.join(sure)}." if sure else "None is beyond chance."
    yield Text(
        "Backups do more when another head is out: their effect then, less their effect when it is "
        "there, has the sign of that head's own effect. Every other head was tried, and p-values "
        f"are corrected for all pairs (Holm). {certain}"
    )
    yield Table.of(
        ("without", "backup", "its effect alone", "more without"),
        (
            (
                *(row.head, row.backup, nats(row.alone)),
                within(row.value, row.low, row.high) + ("*" if row.p < ALPHA else ""),
            )
            for row in found.backups
        ),
        "Heads that make up for others",
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
            which = "" if found.backups else " Which heads do was not measured (--backups 3)."
            yield (
                f"The best heads together have a {than} effect than the sum of their single "
                f"effects: {'; '.join(said)}. {why}.{which}"
            )


def words_of(found: Explained, effect: str) -> EffectWords:
    """What an effect is called, also in a result of a version that did not store it."""
    return found.record.words.get(effect) or EFFECTS[effect].words()


def ranking_label(found: Explained, ranking: str) -> str:
    """What a ranking is called."""
    if ranking in found.record.words or ranking in EFFECTS:
        return words_of(found, ranking).label
    return MEASURES[ranking].label if ranking in MEASURES else ranking.replace("_", " ")


def effect_maps(found: Explained) -> Iterator[Block]:
    """The map of each site by the first effect, and by that of the stable circuit."""
    if len(found.prompts) == 1:
        return  # its page draws the maps of the text
    for effect in dict.fromkeys((found.measured[0], found.record.stable or found.measured[0])):
        rows = [row for row in found.of(effect).values() if row.is_head]
        for site, prefix in SITES.items():
            here = [row for row in rows if row.part.startswith(f"{prefix}.")]
            if here:
                label = words_of(found, effect).label
                yield Chart(
                    f"effects-{effect}-{prefix}",
                    f"Effect “{label}” of every head ({site}); a dot is an effect beyond chance",
                    lambda here=here, label=label: _effect_map(here, label),
                    shrinks=True,
                )


_CELL = 0.115
"""Size of a head on the map in inches: 30 layers fit a phone with words that can be read."""


def _effect_map(rows: Sequence[EffectRow], label: str) -> Figure:
    """Layers x heads: the mean effect over prompts; a dot where it is certain after correction."""
    heads = [Head.parse(row.part) for row in rows]
    grid = np.full((1 + max(h.index for h in heads), 1 + max(h.layer for h in heads)), np.nan)
    for head, row in zip(heads, rows, strict=True):
        grid[head.index, head.layer] = row.value
    most = float(np.nanmax(np.abs(grid))) or 1.0
    indices, layers = grid.shape
    figure = new_figure(min(5.8, max(2.6, _CELL * layers + 1.3)), max(1.7, _CELL * indices + 0.75))
    axes = figure.subplots()
    image = axes.imshow(np.ma.masked_invalid(grid), cmap=DIVERGING, vmin=-most, vmax=most)
    places = [(head.layer, head.index) for head in heads]
    is_sure = [row.p < ALPHA for row in rows]
    sure = [place for place, each in zip(places, is_sure, strict=True) if each]
    axes.scatter(*np.array(sure).reshape(-1, 2).T, s=4, color=MUTED, zorder=3)
    say(
        axes.scatter(*np.array(places).T, s=40, alpha=0, marker="s", zorder=4),
        [f"{row.part}: {within(row.value, row.low, row.high)}" for row in rows],
    )
    axes.set(xlabel="layer", ylabel="head")
    axes.set_xticks(range(0, layers, 1 + layers // 16))
    axes.set_yticks(range(0, indices, 1 + indices // 9))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
    bar.set_label(f"{label}, nats")
    return figure
