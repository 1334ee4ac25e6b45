"""The opening of the page: what heads do and are worth, where to look, what would show more."""

import math
import shlex
from dataclasses import dataclass, replace
from typing import final

from headcount import numbers
from headcount.core import amount
from headcount.reports.commands import curve_command
from headcount.reports.documents.pruned import pruned_answer
from headcount.reports.documents.skills import best_heads, skills_headline
from headcount.reports.kinds import Found, Leading, leading
from headcount.reports.sentences import (
    by_chance,
    headline_of,
    measured,
    needs_more,
    shape_text,
    short_name,
)
from headcount.reports.worth import answer, effect_of, interval, mattering, ranked
from headcount.results import METRICS, RANDOM, Analysis, CurvePoints, Skills, TraitStrength, finding
from headcount.vocabulary import ROLES, SKILLS, VOITA, TraitEntry

BUDGETS = 4
"""Number of budgets of a curve that are named."""

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
    if skilled := _skilled(run, found, {*chosen}):
        chosen[skilled.head] = skilled
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
    within = f" (95\u202f% {interval(effect)})" if math.isfinite(effect.low) else ""
    does = f"; it {leads.short}" if leads else ""
    why = (
        f"is worth most: without it, {run.importance.quantity_words} {verb} by "
        f"{numbers.effect(effect.delta)}{within}{does}"
    )
    return Start(row.head, leads.kind if leads else None, why)


def _skilled(run: Analysis, found: Found, chosen: set[str]) -> Start | None:
    """The best head by the first skill that some head surely has."""
    skills = run.of(Skills)
    for skill in SKILLS.values():
        for row in [] if skills is None else skills.ranked(skill.key)[:1]:
            if row.head not in chosen and row.score(skill.key)[1] >= skill.least:
                leads = found[row.head]
                return Start(
                    row.head, leads.kind if leads else None, skill.does.format(row.said(skill.key))
                )
    return None


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


def pruning_answer(run: Analysis) -> str:
    """How many heads can be pruned at which loss, by the best method; empty without a curve.

    The loss on the development data chooses the method; scores are of the test data if there are
    any.
    """
    if run.curve is None:
        return ""
    points, record = run.curve.points, run.curve.record
    best = best_method(points)
    columns = [name for name in ("test_score", "score", "test_loss", "loss") if name in points]
    if best is None or not columns:
        return ""
    column = columns[0]
    keeps = [keep for keep in points.keeps if points.values(best, keep, column)][:BUDGETS]
    what = METRICS.get(record.metric, record.metric) if "score" in column else "the loss"
    data = "test data" if column.startswith("test") else "the data that chose the method"
    parts = [f"{_mean(points, best, keep, column)} with {keep:,}" for keep in keeps]
    text = (
        f"On {data}, {what} is {numbers.effect(points.dense.numbers[column])} with all "
        f"{numbers.of(points.dense.keep, 'head', 'heads')}, {numbers.listed(parts)}, chosen by "
        f"{best}."
    )
    random = [keep for keep in keeps if points.values(RANDOM, keep, column)]
    if random and best != RANDOM:
        chance = _mean(points, RANDOM, random[0], column)
        text += f" Random choices of {random[0]:,} reach {chance} on average."
    return text


def best_method(points: CurvePoints) -> str | None:
    """The method with the lowest mean loss on the development data; None without any loss."""
    known = [name for name in points.methods if math.isfinite(points.mean(name, "loss"))]
    own = [name for name in known if name != RANDOM] or known
    return min(own, key=lambda name: points.mean(name, "loss"), default=None)


def _mean(points: CurvePoints, method: str, keep: int, column: str) -> str:
    values = points.values(method, keep, column)
    return numbers.effect(sum(values) / len(values))


@final
@dataclass(frozen=True)
class Given:
    """What a command to paste names."""

    model: str
    """The model, as it is loaded."""
    out: str
    """Folder of the results."""

    @classmethod
    def of(cls, run: Analysis) -> "Given":
        """What the record says, which has the names of files and folders without their place."""
        return cls(run.record.model, str(run.record.arguments.get("out", "THIS_FOLDER")))


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
    if inputs.is_text and not run.relation_rows:
        steps.append("A treebank (.conllu): it shows which heads find syntactic relations.")
    model, out = shlex.quote(given.model), shlex.quote(given.out)
    if run.importance is None:
        what = f"{model} --task {_task(run)} --data FILE --out {out}"
        steps.append(f"A task: `headcount importance {what}` shows which heads matter.")
    elif run.curve is None:
        on = {"task": run.importance.task, "data": ["FILE"], **run.importance.arguments}
        keep = [len(run.rows) * quarter // 4 for quarter in (3, 2, 1)]
        curve = curve_command(given.model, on, keep, f"{given.out}/curve")
        steps.append(
            f"A curve: `{curve}` shows how many heads can be "
            f"pruned. `headcount report {out}` adds it here."
        )
    return tuple(steps)


def _task(run: Analysis) -> str:
    """The task that fits the model, as far as its sites say it: an encoder fits several."""
    sites = run.record.sites
    if "decoder.cross" in sites:
        return "translation"
    return run.record.inputs.task or ("causal-lm" if "decoder.self" in sites else "TASK")


@final
@dataclass(frozen=True)
class Opening:
    """What the page says first."""

    model: str
    shape: str
    """The model's kind and number of layers."""
    headline: str
    """What the model can do, if that was measured; else what its heads look at."""
    answers: tuple[tuple[str, str], ...]
    """Titled sentences on what the heads are worth and how many can be pruned."""
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
    answers = (
        ("Which matter", answer(run)),
        ("How many can be pruned", pruning_answer(run)),
        ("Pruned", pruned_answer(run)),
    )
    headline = headline_of(run, [*found.values()])
    if (skills := run.of(Skills)) is not None:
        looks = ("What heads look at", headline)
        answers = (("Best heads", best_heads(skills)), looks, *answers)
        headline = skills_headline(skills)
    return Opening(
        model=run.record.model,
        shape=shape_text(run.record),
        headline=headline,
        answers=tuple((title, text) for title, text in answers if text),
        steps=next_steps(run, found, given or Given.of(run)),
        by_chance=by_chance([row.roles for row in run.null_rows or ()]),
        measured=measured(run.record),
        warnings=run.record.warnings,
        examples=f"{run.record.inputs.item}s",
        find=run.record.inputs.find,
    )


def nearest(run: Analysis, role: str) -> str | None:
    """A sentence on the head that comes nearest to a role; None if that was not tested.

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
    return best and f"No head is {role}: {best.head} comes nearest. It {finding(best)}."


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
    lines += [f"Start with {start.head}: it {start.why}." for start in starts(run, found)]
    papers = [role for role in run.record.inputs.roles if ROLES[role].source.startswith(VOITA)]
    lines += [nearest(run, role) for role in papers if role not in having]
    if first.steps:
        lines.append(f"To see more: {first.steps[0].replace('`', '')}")
    return [line for line in lines if line]
