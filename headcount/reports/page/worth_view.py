"""Head importance, ready to print: the most and least important heads, layers, and agreement."""

import math
from dataclasses import dataclass, replace
from typing import final

from headcount import numbers
from headcount.core import SITES
from headcount.reports.effects import SURE, verdict
from headcount.reports.names import MEASURES, SITE_TITLES, site_titles
from headcount.reports.page.matrix_view import MatrixView, matrix_view
from headcount.reports.page.section import Section
from headcount.reports.page.worth_plot import Axis, Mark, Ranking, ranking
from headcount.results import Analysis, Effect, HeadRow, ImportanceRecord, p_beside
from headcount.vocabulary import WORTH

SHOWN = 8
"""Number of heads listed at either end."""


@final
@dataclass(frozen=True)
class WorthRow:
    """One row of a table of effects: a name, its mark on the common axis, and its numbers."""

    name: str
    site: str
    text: str
    interval: str
    p: str
    mark: Mark
    only: str = ""
    """The only kept head, if a second effect is shown: that of removing all other heads."""
    only_text: str = ""
    only_mark: Mark | None = None


@final
@dataclass(frozen=True)
class Worth:
    """The section on head importance."""

    lede: str
    measured: str
    title: str
    """Title of the chart."""
    has_intervals: bool
    has_p: bool
    """Whether any effect was tested."""
    ranking: Ranking
    most: tuple[WorthRow, ...]
    least: tuple[WorthRow, ...]
    axis: Axis
    sites: str
    """A sentence on the importance of each site; empty if that was not measured."""
    layers: tuple[WorthRow, ...]
    layer_axis: Axis
    best_alone: str
    """How the best head of each layer was chosen, in a sentence."""
    matrix: MatrixView | None
    across: str
    """A sentence on agreement with the effects on other data; empty if not compared."""
    site_titles: tuple[tuple[str, str], ...]
    """Sites and their titles, for the key of the chart; empty if there is only one."""


def section(run: Analysis) -> Section | None:
    """The section on what heads are worth; None if nothing was measured."""
    view = worth_view(run)
    title = "What each head is worth"
    return view and Section("worth", title, "worth", "_worth.html.j2", view)


def scores_of(run: Analysis) -> list[str]:
    """The score columns of the table of heads, the measured effect first."""
    own = ("ablation_low", "ablation_high", "ablation_p")
    found = [key for key, name in MEASURES.items() if name.group == WORTH and key not in own]
    return [key for key in found if key in run.measures]


def ranked(run: Analysis, score: str) -> list[HeadRow]:
    """The heads that have a score, the most important first."""
    known = [row for row in run.rows if math.isfinite(row.values[score])]
    return sorted(known, key=lambda row: -row.values[score])


def worth_view(run: Analysis) -> Worth | None:
    """The section; None if nothing was measured."""
    importance, scores = run.importance, scores_of(run)
    scores = [score for score in scores if ranked(run, score)]
    if importance is None or not scores:
        return None
    score = scores[0]
    rows = ranked(run, score)
    effects = [effect_of(row, score) for row in rows]
    axis = Axis.of([end for effect in effects for end in (effect.delta, effect.low, effect.high)])
    lines = [_row(row.head, effect, axis) for row, effect in zip(rows, effects, strict=True)]
    few = min(SHOWN, len(lines) // 2)
    ends = [
        each
        for e in importance.layers + importance.single_heads
        for each in (e.delta, e.low, e.high)
    ]
    layer_axis = Axis.of(ends)
    is_ablation = score == "ablation_delta"
    return Worth(
        lede=lede(importance, rows, effects) if is_ablation else _by_score(score, rows),
        measured=measured(importance),
        title=importance.effect if is_ablation else MEASURES[score].label,
        has_intervals=any(math.isfinite(effect.low) for effect in effects),
        has_p=any(math.isfinite(effect.p) for effect in effects),
        ranking=ranking([row.head for row in rows], effects, _show(effects)),
        most=tuple(lines[: few or 1]),
        least=tuple(lines[len(lines) - few :]) if few else (),
        axis=axis,
        sites=site_sentence(importance),
        layers=_layers(importance, layer_axis),
        layer_axis=layer_axis,
        best_alone=best_alone(importance),
        matrix=matrix_view(importance.agreement),
        across="" if importance.across is None else importance.across.sentence,
        site_titles=site_titles(run.sites) if len(run.sites) > 1 else (),
    )


def effect_of(row: HeadRow, score: str) -> Effect:
    """A head's score with the interval and p-value that only measured effects have."""
    interval = ("ablation_low", "ablation_high", "ablation_p") if score == "ablation_delta" else ()
    rest = [row.values.get(key, math.nan) for key in interval] or [math.nan] * 3
    low, high, p = rest
    p = p_beside(p, low, high)
    return Effect(
        site=row.site,
        layer=row.layer,
        head=row.head,
        delta=row.values[score],
        low=low,
        high=high,
        p=p,
    )


def lede(importance: ImportanceRecord, rows: list[HeadRow], effects: list[Effect]) -> str:
    """The findings of ablation over all heads, in words."""
    verb = "rises" if importance.rises else "drops"
    what = importance.quantity_words
    best = effects[0]
    if best.delta <= 0:
        return f"Taken alone, no head helps: removing any one of them does not make {what} worse."
    within = f" (95\u202f% interval {interval(best)})" if math.isfinite(best.low) else ""
    first = (
        f"Without {rows[0].head}, {what} {verb} by {numbers.effect(best.delta)}{within}, more than "
        "without any other head. The largest of many effects is likely to be smaller on other data."
    )
    return " ".join([first, *verdict(effects, importance)])


def mattering(run: Analysis) -> frozenset[str] | None:
    """Heads without which the model gets worse beyond chance; None if that was not tested."""
    tested = [row for row in run.rows if math.isfinite(_effect_p(row))]
    if run.importance is None or not tested:
        return None
    return frozenset(
        row.head for row in tested if _effect_p(row) < SURE and row.values["ablation_delta"] > 0
    )


def without(run: Analysis, row: HeadRow) -> str:
    """What happens to the model without a head, in a sentence; empty if that was not measured."""
    if run.importance is None or "ablation_delta" not in row.values:
        return ""
    effect = effect_of(row, "ablation_delta")
    if not math.isfinite(effect.delta):
        return ""
    up, down = ("rises", "drops") if run.importance.rises else ("drops", "rises")
    within = f" (95\u202f% {interval(effect)})" if math.isfinite(effect.low) else ""
    noise = ""
    if math.isfinite(effect.p):
        p = numbers.probability(effect.p)
        noise = f"; {'beyond' if effect.p < SURE else 'within'} chance, corrected p {p}"
    by = numbers.effect(abs(effect.delta))
    verb = up if effect.delta >= 0 else down
    return f"Without it, {run.importance.quantity_words} {verb} by {by}{within}{noise}."


def _effect_p(row: HeadRow) -> float:
    return effect_of(row, "ablation_delta").p if "ablation_delta" in row.values else math.nan


def answer(run: Analysis) -> str:
    """Which heads matter and how much, for the opening; empty if nothing was scored."""
    importance, scores = run.importance, [each for each in scores_of(run) if ranked(run, each)]
    if importance is None or not scores:
        return ""
    rows = ranked(run, scores[0])
    if scores[0] != "ablation_delta":
        return _by_score(scores[0], rows)
    effects = [effect_of(row, scores[0]) for row in rows]
    sentences = [*verdict(effects, importance)]
    best, what = effects[0], importance.quantity_words
    if best.delta > 0:
        within = f" (95\u202f% {interval(best)})" if math.isfinite(best.low) else ""
        verb = "rises" if importance.rises else "drops"
        sentences.append(
            f"Most: without {rows[0].head}, {what} {verb} by {numbers.effect(best.delta)}{within}."
        )
    return " ".join([*sentences, *filter(None, [site_sentence(importance)])])


def measured(importance: ImportanceRecord) -> str:
    """The data, the dense model's numbers, and how heads were removed, in words."""
    examples = numbers.of(importance.num_examples, "example", "examples")
    parts = [f"Measured on {examples} of the task {importance.task}"]
    known = [("loss", importance.loss)]
    if importance.metric != "loss":
        known.append((importance.metric, importance.score))
    dense = [f"{name} {numbers.effect(value)}" for name, value in known if math.isfinite(value)]
    if dense:
        parts.append(f"; the dense model has {numbers.listed(dense)}")
    if importance.replacement_words:
        parts.append(f". Removing a head means: {importance.replacement_words}")
    return " ".join(["".join(parts) + ".", *filter(None, [importance.average_words])])


def site_sentence(importance: ImportanceRecord) -> str:
    """The effect of removing all heads of a site, for every site, the worst first."""
    known = [each for each in importance.sites if math.isfinite(each.delta)]
    if not known:
        return ""
    verb = "rises" if importance.rises else "drops"
    what = importance.quantity_words
    parts = [
        f"by {numbers.effect(each.delta)} without any {SITE_TITLES[each.site].lower()}"
        for each in sorted(known, key=lambda each: -each.delta)
    ]
    return f"{what[0].upper()}{what[1:]} {verb} {numbers.listed(parts)}."


def interval(effect: Effect) -> str:
    """The two ends of the interval, e.g. "0.031 to 0.052"."""
    if not math.isfinite(effect.low):
        return ""
    return f"{numbers.effect(effect.low)} to {numbers.effect(effect.high)}"


def _by_score(score: str, rows: list[HeadRow]) -> str:
    best = rows[0]
    return (
        f"Ablation was not measured. By {MEASURES[score].label}, {best.head} is worth the most "
        f"({numbers.effect(best.values[score])})."
    )


def _show(effects: list[Effect]) -> list[str]:
    """Tooltips of the dots."""
    texts = []
    for effect in effects:
        within = f", 95\u202f% {interval(effect)}" if math.isfinite(effect.low) else ""
        p = numbers.probability(effect.p)
        luck = f", corrected p {p}" if math.isfinite(effect.p) else ""
        texts.append(f"{effect.head}: {numbers.effect(effect.delta)}{within}{luck}")
    return texts


def _row(name: str, effect: Effect, axis: Axis) -> WorthRow:
    return WorthRow(
        name,
        effect.site,
        numbers.effect(effect.delta),
        interval(effect),
        numbers.probability(effect.p),
        axis.mark(effect, SURE),
    )


def _layers(importance: ImportanceRecord, axis: Axis) -> tuple[WorthRow, ...]:
    """One row per layer: all its heads removed, and all but the best one."""
    left = {each.layer_id: each for each in importance.single_heads}
    dense = {each.layer_id: each for each in importance.layers}
    order = list(SITES)
    rows = []
    for place in sorted(dense.keys() | left.keys(), key=lambda p: (order.index(p.site), p.layer)):
        site, layer = place
        gone, only = dense.get(place), left.get(place)
        nothing = Effect(site=site, layer=layer, delta=math.nan)
        row = _row(f"{SITES[site]}.{layer}", gone or nothing, axis)
        if only is not None:
            row = replace(
                row,
                only=only.head,
                only_text=numbers.effect(only.delta),
                only_mark=axis.mark(only, SURE),
            )
        rows.append(row)
    return tuple(rows)


def best_alone(importance: ImportanceRecord) -> str:
    """How the best head of each layer was chosen, and what its numbers are worth."""
    if all(each.halves for each in importance.single_heads):
        return (
            "Each half of the examples chose a head that was measured on the other half, so its "
            "numbers are not optimistic. The name is the choice of all examples."
        )
    return "The best head was chosen on the same examples, so its numbers are optimistic."
