r"""Two explanations side by side: which heads do more or less in one than in the other.

$$\Delta_h = \overline{e^B_h} - \overline{e^A_h}$$

e is a head's effect on one prompt. If both explain the same prompts (a model and a tuned one, or
two ways to read it), the mean is over the differences of each prompt, by blocks of prompts that
share names. Otherwise (two templates, or prompts of one's own and ours) the prompts are independent
samples, and Welch's interval adds both variances. P-values are corrected for all heads of an effect
(Holm).

Reference: The generalization of Student's problem (Welch, 1947),
    https://doi.org/10.1093/biomet/34.1-2.28
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.core import (
    Block,
    Document,
    InputError,
    Table,
    Text,
    Warned,
    amount,
    capital,
    falling,
    write_readable,
)
from headcount.explanation import Blocks, Explained, Prompt, PromptRow, apart
from headcount.numbers import nats, within
from headcount.pages import document_page
from headcount.statistics import ALPHA, FEWEST_CLUSTERS

_SHOWN = 10
"""Number of heads with the largest changes that a table shows, besides those that are certain."""


@final
@dataclass(frozen=True)
class EffectChange:
    """The effect of a head in two explanations."""

    part: str
    """Name of the head."""
    effect: str
    """Name of the effect."""
    one: float
    """Its effect in the first explanation; the mean over prompts."""
    other: float
    """Its effect in the second one."""
    change: float
    """The second less the first."""
    low: float
    """Lower end of the 95 % interval of the change; NaN below 8 blocks of prompts."""
    high: float
    """Upper end."""
    p: float
    """P-value of no change, corrected for all heads (Holm)."""

    @property
    def is_certain(self) -> bool:
        """Whether the head has changed beyond chance."""
        return self.p < ALPHA


@final
@dataclass(frozen=True)
class ComparedExplanations:
    """How the heads of two explanations differ."""

    names: tuple[str, str]
    """Names of the explanations."""
    values: tuple[str, str]
    """What each predicts, with its interval."""
    is_paired: bool
    """Whether both explain the same prompts."""
    changes: tuple[EffectChange, ...]
    """A row for each effect that both have and each head, the largest changes first."""
    warnings: tuple[str, ...]

    @property
    def effects(self) -> tuple[str, ...]:
        """The effects that both have."""
        return tuple(dict.fromkeys(row.effect for row in self.changes))

    def of(self, effect: str) -> tuple[EffectChange, ...]:
        """The heads by one effect, the largest changes first."""
        return tuple(row for row in self.changes if row.effect == effect)

    @property
    def headline(self) -> str:
        """How many heads have changed for certain, by the first effect."""
        rows = self.of(self.effects[0])
        certain = [row for row in rows if row.is_certain]
        how = "prompt by prompt" if self.is_paired else "over different prompts"
        named = ", ".join(f"{row.part} {nats(row.change, '+')}" for row in certain[:5])
        more = f": {named}{' and others' * (len(certain) > 5)}" if certain else ""
        return (
            f"{len(certain)} of {amount(len(rows), 'head')} changed for certain by "
            f"“{self.effects[0]}”, compared {how} (p < {ALPHA:g} after Holm's correction){more}."
        )


def compare_explanations(
    one: Explained, other: Explained, names: tuple[str, str] = ("A", "B")
) -> ComparedExplanations:
    """Compare the effects of every head on the prompts of two explanations.

    Args:
        one: the first explanation.
        other: the second one, of the same model, a tuned one, or on other prompts.
        names: names of the explanations.

    Raises:
        InputError: for explanations without effects by prompt, or with other heads or effects.
    """
    tables = [_by_prompt(each, name) for each, name in zip((one, other), names, strict=True)]
    effects = [name for name in one.measured if name in other.measured]
    heads = [[row.part for row in each.of(each.measured[0]).values()] for each in (one, other)]
    heads = [[part for part in each if _is_unit(part)] for each in heads]
    if not effects or heads[0] != heads[1]:
        what = "heads" if effects else "effects"
        raise InputError(
            f"Expected explanations with the same {what}, got {amount(len(heads[0]), 'head')} by "
            f"{', '.join(one.measured)} and {amount(len(heads[1]), 'head')} by "
            f"{', '.join(other.measured)}. Explain the same model, or one that was trained from "
            "it, by the same --effects."
        )
    prompts = [[_asked(row) for row in each.prompts] for each in (one, other)]
    is_paired = prompts[0] == prompts[1]
    blocks = [Blocks.of(each) for each in prompts]
    rows = list[EffectChange]()
    for effect in effects:
        first_NH, second_NH = (
            np.stack([each[part, effect] for part in heads[0]], 1) for each in tables
        )
        if is_paired:
            away_NH = second_NH - first_NH
            interval, p_H = blocks[0].interval(away_NH), blocks[0].p(away_NH)
        else:
            interval, p_H = apart((blocks[0], first_NH), (blocks[1], second_NH))
        found = [
            EffectChange(part, effect, *map(float, numbers))
            for part, *numbers in zip(
                heads[0], first_NH.mean(0), second_NH.mean(0), *interval, p_H, strict=True
            )
        ]
        rows += [found[n] for n in falling(abs(interval[0]))]
    values = [within(each.record.value, each.record.low, each.record.high) for each in (one, other)]
    return ComparedExplanations(
        names,
        (values[0], values[1]),
        is_paired,
        tuple(rows),
        tuple(_warnings(one, other, names, blocks)),
    )


def _is_unit(part: str) -> bool:
    """Whether a part is a head."""
    return part.count(".") == 2


def _asked(row: PromptRow) -> Prompt:
    return Prompt(row.prompt, row.target, row.against or None, row.corrupt or None)


def _by_prompt(found: Explained, name: str) -> dict[tuple[str, str], Float[np.ndarray, " prompt"]]:
    """The effects of each part on every prompt, by part and effect.

    Raises:
        InputError: without them.
    """
    if not found.alone:
        raise InputError(
            f"Expected effects of heads on each of several prompts in {name}, got none "
            "(alone.parquet). Run headcount explain MODEL --prompts FILE again."
        )
    values = dict[tuple[str, str], list[float]]()
    for row in found.alone:
        values.setdefault((row.part, row.effect), []).append(row.value)
    return {key: np.array(each) for key, each in values.items()}


def _warnings(
    one: Explained, other: Explained, names: tuple[str, str], blocks: Sequence[Blocks]
) -> Iterator[str]:
    for found, name in zip((one, other), names, strict=True):
        yield from (f"{name}: {each}" for each in found.record.warnings)
    if one.record.model != other.record.model:
        yield (
            f"{names[0]} explains {one.record.model} and {names[1]} {other.record.model}: heads "
            "have the same numbers only if one was trained from the other"
        )
    if min(each.count for each in blocks) < FEWEST_CLUSTERS:
        yield f"with fewer than {FEWEST_CLUSTERS} blocks of prompts, no change is certain"


def explanations_document(found: ComparedExplanations) -> Document:
    """What a comparison of two explanations shows."""
    how = (
        "Both explain the same prompts, so effects are subtracted prompt by prompt."
        if found.is_paired
        else "They explain different prompts, so intervals add the variances of both."
    )
    one, other = found.names
    predicted = f"{one} predicts {found.values[0]} nats, {other} {found.values[1]}."
    blocks: list[Block] = [
        Text(found.headline, "lede"),
        Text(f"{how} {predicted} A change is the effect in {other} less that in {one}."),
        *(_table(found, effect) for effect in found.effects),
        *(Warned(each) for each in found.warnings),
    ]
    return Document(f"{capital(one)} and {other}", tuple(blocks))


def _table(found: ComparedExplanations, effect: str) -> Table:
    """The heads that changed for certain, or most."""
    rows = found.of(effect)
    shown = [row for number, row in enumerate(rows) if row.is_certain or number < _SHOWN]
    return Table.of(
        ("head", *found.names, "change"),
        (
            (
                row.part,
                *(nats(value) for value in (row.one, row.other)),
                f"{within(row.change, row.low, row.high)}{'*' * row.is_certain}",
            )
            for row in shown
        ),
        f"Changes of “{effect}”; * is certain after Holm's correction",
    )


def write_explanations(
    one: Path, other: Path, out: Path, names: tuple[str, str]
) -> ComparedExplanations:
    """Compare the explanations in two folders, and write the page and the document.

    The files are `comparison.html` and `comparison.md`.

    Raises:
        InputError: for explanations that can't be compared.
    """
    found = compare_explanations(Explained.read(one), Explained.read(other), names)
    out.mkdir(parents=True, exist_ok=True)
    document = explanations_document(found)
    document.write(out / "comparison.md", figures=".")
    write_readable(out / "comparison.html", document_page(document))
    return found
