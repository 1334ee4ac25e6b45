"""The opening of the page: what heads do and are worth, where to look, what would show more.

Its first sentences name the clearest heads, then say how many have a role.
"""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from headcount import numbers
from headcount.core import Block, amount, sorted_by
from headcount.pages.kinds import Found, Leading, counted, leading, most_telling
from headcount.pages.part import Given, page_parts
from headcount.pages.sentences import (
    by_chance,
    first_lower,
    headline_of,
    measured,
    needs_more,
    nothing_tested,
    shape_text,
    short_name,
    texts_of,
    with_role,
)
from headcount.pages.worth import answer, bracketed, effect_of, matter_most, mattering, ranked
from headcount.results import Analysis, TraitStrength, finding
from headcount.vocabulary import ROLES, SOUND, VOITA, TraitEntry

KINDS = 2
"""Largest number of kinds whose heads are named."""
NAMED = 2
"""Largest number of heads of a kind that are named."""


def leaders(run: Analysis, found: Found) -> str:
    """The clearest heads of the most telling kinds by name, then how many heads have a role.

    Heads with a tendency are named only if none has a role.

    Args:
        run: the run.
        found: what leads each head, by name.
    """
    leads = {head: each for head, each in found.items() if each}
    if nothing_tested(run) or not leads:
        return headline_of(run, [*found.values()])
    roles = {head: each for head, each in leads.items() if each.verdict == "role"}
    chosen = roles or leads
    kinds = [kind for kind, _ in most_telling(chosen.values())]
    named = "; ".join(_named(kind, chosen, bool(roles)) for kind in kinds[:KINDS])
    where, many = texts_of(run.record), with_role([*found.values()])
    many = f"In {where}, {first_lower(many)}" if where else many
    return f"{named}. {many}{_most_frequent(roles, kinds[:KINDS])}."


def _named(kind: TraitEntry, chosen: dict[str, Leading], is_role: bool) -> str:
    """The clearest heads of a kind and what they do: `dec.18.6 and dec.17.4 look at ...`."""
    own = [(head, each) for head, each in chosen.items() if each.kind.key == kind.key]
    clearest = sorted_by(own, lambda pair: pair[1].first_gain, descending=True)[:NAMED]
    names = numbers.listed([head for head, _ in clearest])
    if not is_role:
        return f"{names} {'tends' if len(clearest) == 1 else 'tend'} to {kind.many}"
    return f"{names} {kind.one if len(clearest) == 1 else kind.many}"


def _most_frequent(roles: Found, named: Sequence[TraitEntry]) -> str:
    """How many heads with a role are of the most frequent kind, unless it was named."""
    kind, number = max(counted(roles.values()), key=lambda pair: pair[1], default=(None, 0))
    if kind is None or kind.key in {each.key for each in named}:
        return ""
    return f"; {numbers.count(number)} of them {kind.one if number == 1 else kind.many}"


STARTS = 3
"""Number of heads to start with."""

FEW_SENTENCES = 60
"""Number of sentences of which one half can be enough for a test of the most frequent traits."""


@final
@dataclass(frozen=True)
class Start:
    """A head worth a look."""

    head: str
    kind: TraitEntry | None
    why: str
    """The reason, without the head's name."""


def starts(run: Analysis, found: Found) -> tuple[Start, ...]:
    """Three heads: the one worth most, one with a skill, then the clearest of different kinds."""
    chosen: dict[str, Start] = {}
    if best := _worth_most(run, found):
        chosen[best.head] = best
    for part in page_parts():
        named = next((each for each in part.starts(run) if each[0] not in chosen), None)
        if named is not None:
            head, why = named
            leads = found[head]
            chosen[head] = Start(head, leads.kind if leads else None, why)
    clearest: dict[str, tuple[str, Leading]] = {}
    for head, leads in found.items():
        if leads is None or head in chosen:
            continue
        known = clearest.get(leads.kind.key)
        if known is None or _clarity(leads) > _clarity(known[1]):
            clearest[leads.kind.key] = (head, leads)
    for head, leads in sorted(clearest.values(), key=lambda pair: _order(pair[1])):
        chosen[head] = Start(head, leads.kind, leads.says)
    if not chosen:
        for each in _extremes(run):
            chosen.setdefault(each.head, each)
    pruned = () if run.pruned is None else run.pruned.pruned
    return tuple(
        replace(each, why=f"{each.why} (pruned)") if each.head in pruned else each
        for each in [*chosen.values()][:STARTS]
    )


def _worth_most(run: Analysis, found: Found) -> Start | None:
    """The head whose removal hurts most, if its effect was tested and is no chance."""
    if run.importance is None or not mattering(run):
        return None
    row = ranked(run.rows, "ablation_delta")[0]
    effect, leads = effect_of(row, "ablation_delta"), found[row.head]
    verb = "rises" if run.importance.rises else "drops"
    does = f"; it {leads.short}" if leads else ""
    why = (
        f"is worth most: without it, {run.importance.quantity_words} {verb} by "
        f"{numbers.effect(effect.delta)}{bracketed(effect)}{does}"
    )
    return Start(row.head, leads.kind if leads else None, why)


def _clarity(leads: Leading) -> tuple[bool, float]:
    return leads.verdict == "role", leads.first_gain


def _order(leads: Leading) -> tuple[bool, int, float]:
    """Roles before tendencies, syntax first, sinks last, the clearest before the others."""
    return leads.verdict != "role", leads.kind.role.starts, -leads.first_gain


def _extremes(run: Analysis) -> list[Start]:
    """The heads of a model without findings that differ most from the others."""
    reasons = (
        ("confidence", max, "is the sharpest: its largest weight is {} on average", numbers.weight),
        ("entropy", max, "spreads its weights most evenly: {} nats of entropy", numbers.weight),
        ("attn_first", max, "gives most to the first token: {} of its weight", numbers.percent),
        ("attn_class", max, "gives most to the class token: {} of its weight", numbers.percent),
        ("attn_distance", min, "reaches least far: {} patches on average", numbers.weight),
    )
    result = []
    for column, choose, why, show in reasons:
        known = [row for row in run.rows if math.isfinite(row.values.get(column, math.nan))]
        if known:
            best = choose(known, key=lambda row: row.values[column])
            result.append(Start(best.head, None, why.format(show(best.values[column]))))
    return result


def next_steps(run: Analysis, found: Found, given: Given) -> tuple[str, ...]:
    """What would show more: first what keeps traits from being tested, then a task.

    Commands stand in backticks.
    """
    steps = []
    inputs = run.record.inputs
    few = run.record.counts.sentences
    if needs_more(run):
        steps.append(f"More {inputs.more}: what was not tested has too few cases.")
    elif not any(found.values()) and few < 10 * FEW_SENTENCES:
        steps.append(
            f"More {inputs.more}: {amount(few, inputs.item)} {'was' if few == 1 else 'were'} "
            "measured. Small "
            "effects need thousands."
        )
    if inputs.is_text and (run.relations is None or run.relations.empty):
        steps.append("A treebank (.conllu): it shows which heads find syntactic relations.")
    model, out = shlex.quote(given.model), shlex.quote(given.out)
    if inputs is SOUND:
        said = f"`headcount align {model} SOUND --out WORDS`"
        steps.append(f"{said} shows which heads follow the sound.")
    if run.importance is None:
        what = f"{model} --task {_task(run)} --data FILE --out {out}"
        steps.append(f"`headcount importance {what}` shows which heads matter.")
    steps += (each.step(run, given) for each in page_parts())
    return tuple(filter(None, steps))


def _task(run: Analysis) -> str:
    """The task that fits the model, as far as its sites say it: an encoder fits several."""
    sites, own = run.record.sites, run.record.inputs.task
    if "decoder.cross" in sites:
        return own or "translation"
    return own or ("causal-lm" if "decoder.self" in sites else "TASK")


@final
@dataclass(frozen=True)
class Opening:
    """What the page says first."""

    model: str
    shape: str
    """The model's kind and number of layers."""
    headline: str
    """What the model can do, if that was measured; else which heads matter most and what is lost
    without them; else what the clearest heads look at."""
    first: tuple[Block, ...]
    """What stands below the headline if it is about more than heads: what pruning brought."""
    answers: tuple[tuple[str, str], ...]
    """Titled sentences on what pruning cost, what heads look at and are worth, in this order."""
    num_above: int
    """Number of them before the map: that of the pruned model, if there is one."""
    steps: tuple[str, ...]
    """What would show more."""
    by_chance: str
    """Number of heads with a role at random weights, in words; empty without a null run."""
    measured: str
    warnings: tuple[str, ...]
    examples: str
    """What the cards show heads on: `sentences` or `images`."""
    find: str
    """What can be searched for, as a hint."""


def title_of(run: Analysis) -> str:
    """The title of a run's page."""
    return short_name(run.record.model)


def opening(run: Analysis, found: Found, given: Given | None = None) -> Opening:
    """The opening of a run's page.

    Args:
        run: the run.
        found: what leads each head.
        given: what the proposed commands name; what the record says if None.
    """
    does = {head: leads.short for head, leads in found.items() if leads}
    lines = [
        ("What matters most", matter_most(run, does)),
        ("What heads look at", leaders(run, found)),
        ("How many", headline_of(run, [*found.values()])),
    ]
    beside, first = list[tuple[str, str]](), tuple[Block, ...]()
    for part in page_parts():
        if own := part.headline(run):
            lines = [("What it does", own), *lines]
        beside += part.answers(run)
        title, blocks = part.first(run)
        if title:
            lines, first = [("What was pruned", title), *lines], blocks
    once = {text: title for title, text in reversed(lines) if text}  # the first title of a text
    (headline, _), *others = reversed(once.items())
    others = [(title, text) for text, title in others]
    answers = [line for line in (*beside, *others, ("Which matter", answer(run))) if line[1]]
    return Opening(
        model=run.record.model,
        shape=shape_text(run.record),
        headline=headline,
        first=first,
        answers=tuple(answers),
        num_above=int(any(text for _, text in beside)),
        steps=next_steps(run, found, given or Given.of(run)),
        by_chance=by_chance([row.roles for row in run.null_rows or ()]),
        measured=measured(run.record),
        warnings=run.record.warnings,
        examples=f"{run.record.inputs.item}s",
        find=run.record.inputs.find,
    )


def nearest(run: Analysis, role: str) -> str | None:
    """A sentence on the head that is nearest to a role; None if that was not tested.

    The first half of the corpus chose the head; its numbers are those of the other half.

    Args:
        run: results of a run in which no head has the role.
        role: name of the role.
    """
    tested = [
        trait
        for traits in (run.traits or {}).values()
        for trait in traits
        if trait.role == role and trait.verdict != "untested" and trait.first_gain > 0
    ]
    best: TraitStrength | None = max(tested, key=lambda each: each.first_gain, default=None)
    if best is None:
        return None
    if not any(trait.is_beyond_chance for trait in tested):
        return f"No head has the role {role}; none is clearly beyond chance."
    return f"No head has the role {role}. The nearest is {best.head}: it {finding(best)}."


def story(run: Analysis, given: Given | None = None) -> list[str]:
    """What the heads do and are worth, heads worth a look, and what would show more.

    Of a role of the paper that no head has, it names the head that comes nearest.

    Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), https://arxiv.org/abs/1905.09418

    Args:
        run: the run.
        given: what the proposed commands name; what the record says if None.
    """
    found = leading(run)
    first = opening(run, found, given)
    having = {name for row in run.rows for name in row.roles}
    lines: list[str | None] = [first.headline, *(text for _, text in first.answers)]
    lines += [f"Start with {start.head}. It {start.why}." for start in starts(run, found)]
    papers = [role for role in run.record.inputs.roles if ROLES[role].source.startswith(VOITA)]
    lines += [nearest(run, role) for role in papers if role not in having]
    if first.steps:
        lines.append(f"To see more: {first.steps[0].replace('`', '')}")
    return [line for line in lines if line]
