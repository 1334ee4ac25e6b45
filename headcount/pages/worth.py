"""What heads are worth: a head's effect, its rank and sentence, and how large an effect is."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist, median

from headcount import numbers
from headcount.core import Bar, Bars, capital, sorted_by
from headcount.pages.names import SITE_TITLES, known
from headcount.results import (
    METRICS,
    Analysis,
    Effect,
    HeadRow,
    ImportanceRecord,
    loss_unit,
    p_beside,
)
from headcount.statistics import smallest_seen
from headcount.vocabulary import WORTH, ColumnEntry

SURE = 0.05
"""Level of significance: heads with a smaller p matter."""
NAMED = 3
"""Largest number of harmful heads that are named."""


def verdict(effects: Iterable[Effect], record: ImportanceRecord) -> list[str]:
    """Sentences on how many heads matter, and on what the test can see; none without a test.

    Args:
        effects: the effect of every head taken alone; p is NaN if it was not tested.
        record: what was measured.
    """
    tested = [each for each in effects if math.isfinite(each.p)]
    if not tested:
        return []
    sure = [each for each in tested if each.p < SURE]
    harmful = [each.head for each in sure if each.delta <= 0]
    helping = [each for each in sure if each.delta > 0]
    open_ = len(tested) - len(sure)
    parts = [
        f"Taken alone, {numbers.count(len(helping)) if helping else 'none'} of "
        f"{numbers.count(len(tested))} heads {'matters' if len(helping) < 2 else 'matter'} "
        f"(p < {SURE} after correction for {numbers.of(len(tested), 'test', 'tests')})"
    ]
    if harmful:
        verb = "harms" if len(harmful) == 1 else "harm"
        names = f" ({', '.join(harmful)})" if len(harmful) <= NAMED else ""
        parts.append(f"{numbers.count(len(harmful))} {verb} the model{names}")
    if open_:
        parts.append(f"for {numbers.of(open_, 'head', 'heads')} the effect is within noise")
    return [f"{numbers.listed(parts)}.", *_seen(tested, record)]


def beside_all(effect: Effect, record: ImportanceRecord) -> str:
    """How large an effect is beside that of removing all heads of its site; empty if unknown.

    It begins as a clause: `, 5.4 % of the rise without any decoder self-attention (1.40 nats)`.
    """
    whole = next((each.delta for each in record.sites if each.site == effect.site), math.nan)
    if not 0 < effect.delta <= whole:
        return ""
    change = "rise" if record.rises else "drop"
    total = f"{numbers.effect(whole)} {_unit(record)}"
    share = numbers.percent(effect.delta / whole)
    return f", {share} of the {change} {_without(effect.site)} ({total})"


def bars(effects: Sequence[Effect], record: ImportanceRecord) -> Iterator[Bars]:
    """The largest effects beside that of removing all heads of their site; nothing if unknown.

    Args:
        effects: the effects of heads, the most important first.
        record: what was measured.
    """
    best = [each for each in effects[:NAMED] if each.site == effects[0].site]
    wholes = [each.delta for each in record.sites if best and each.site == best[0].site]
    if not wholes or not 0 < best[0].delta <= wholes[0]:
        return
    change, total = "rise" if record.rises else "drop", numbers.effect(wholes[0])
    rows = (
        Bar(
            each.head,
            share := each.delta / wholes[0],
            numbers.percent(share),
            each.low / wholes[0],
            each.high / wholes[0],
        )
        for each in best
        if each.delta > 0
    )
    whole = f"{_without(best[0].site)} ({total} {_unit(record)})"
    yield Bars(f"Share of the {change} {whole}", tuple(rows))


def _without(site: str) -> str:
    """The model without all heads of a site, in words."""
    return f"without any {SITE_TITLES[site][0].lower()}{SITE_TITLES[site][1:]}"


def _seen(tested: Sequence[Effect], record: ImportanceRecord) -> list[str]:
    """What a test of this size can see, by the median standard error of the heads."""
    z = NormalDist().inv_cdf(0.975)
    errors = [each.high - each.low for each in tested if math.isfinite(each.high - each.low)]
    error = median(errors) / (2 * z) if errors else 0.0
    if not error:
        return []
    least, unit = numbers.effect(smallest_seen(error, len(tested))), _unit(record)
    return [f"Effects below {least} {unit} are easily missed."]


def _unit(record: ImportanceRecord) -> str:
    return loss_unit(record.metric) if record.quantity == "loss" else record.quantity_words


def scores_of(rows: Sequence[HeadRow], stored: Iterable[ColumnEntry] = ()) -> list[str]:
    """The score columns that a head has a number in, the measured effect first."""
    own = ("ablation_low", "ablation_high", "ablation_p")
    found = [key for key, name in known(stored).items() if name.group == WORTH and key not in own]
    return [key for key in found if ranked(rows, key)]


def ranked(rows: Sequence[HeadRow], score: str) -> list[HeadRow]:
    """The heads that have a score, the most important first."""
    known = [row for row in rows if math.isfinite(row.values.get(score, math.nan))]
    return sorted_by(known, lambda row: row.values[score], descending=True)


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
    """What is lost without the head that ablation finds worth most, in a sentence."""
    if effects[0].delta <= 0:
        what = importance.quantity_words
        return f"Taken alone, no head helps: removing any one of them does not make {what} worse."
    return f"{_lost(rows[0].head, effects[0], importance)}."


def _lost(head: str, best: Effect, importance: ImportanceRecord) -> str:
    """What is lost without a head, as a sentence without its full stop."""
    verb = "rises" if importance.rises else "drops"
    by = f"{numbers.effect(best.delta)}{_in_unit(importance)}{bracketed(best, ' interval')}"
    return f"Without {head}, {importance.quantity_words} {verb} by {by}"


def all_alone(importance: ImportanceRecord, effects: Sequence[Effect]) -> str:
    """How many heads matter taken alone, and how sure the largest effect is."""
    sentences = verdict(effects, importance)
    if effects[0].delta > 0:
        largest = "The largest of many effects is likely to be smaller on other data."
        sentences = ["No other head is worth more here.", largest, *sentences]
    return " ".join(sentences)


def mattering(run: Analysis) -> frozenset[str] | None:
    """Heads without which the model gets worse beyond chance; None if that was not tested."""
    tested = [row for row in run.rows if math.isfinite(_effect_p(row))]
    if run.importance is None or not tested:
        return None
    return frozenset(
        row.head for row in tested if _effect_p(row) < SURE and row.values["ablation_delta"] > 0
    )


def matter_most(run: Analysis, does: Mapping[str, str]) -> str:
    """The heads whose removal hurts most, and what is lost without them; empty if none does.

    Only heads count whose effect was tested and is beyond chance, at most `NAMED` of them.

    Args:
        run: the run.
        does: what heads do in a few words, by name.
    """
    sure = mattering(run)
    if run.importance is None or not sure:
        return ""
    rows = [row for row in ranked(run.rows, "ablation_delta") if row.head in sure][:NAMED]
    looks = _looks([row.head for row in rows], does)
    alone = len(rows) == 1
    most = "It matters most: without it" if alone else "They matter most: without each"
    verb = "rises" if run.importance.rises else "drops"
    by = numbers.listed([numbers.effect(row.values["ablation_delta"]) for row in rows])
    by += _in_unit(run.importance)
    return f"{looks}. {most}, {run.importance.quantity_words} {verb} by {by}."


def _in_unit(importance: ImportanceRecord) -> str:
    """The unit of effects behind a number; scores are their own unit."""
    return f" {_unit(importance)}" if importance.quantity == "loss" else ""


def _looks(heads: Sequence[str], does: Mapping[str, str]) -> str:
    """What heads do; those that do the same are named together.

    >>> does = dict.fromkeys(("enc.0.1", "enc.4.5"), "looks at the next token")
    >>> _looks(["enc.0.1", "enc.4.5", "enc.2.3"], does)
    'enc.0.1 looks at the next token, as does enc.4.5; enc.2.3 has no role'
    """
    same: dict[str, list[str]] = {}
    for head in heads:
        same.setdefault(does.get(head, "has no role"), []).append(head)
    if len(same) == len(heads):
        return numbers.listed([f"{head} {what}" for what, (head,) in same.items()])
    return "; ".join(f"{first} {what}{_as_do(others)}" for what, (first, *others) in same.items())


def _as_do(others: list[str]) -> str:
    """Heads that do the same as the one before: `, as does enc.4.5`."""
    verb = "does" if len(others) == 1 else "do"
    return f", as {verb} {numbers.listed(others)}" if others else ""


def without(run: Analysis, row: HeadRow) -> str:
    """What happens to the model without a head, in a sentence; empty if that was not measured."""
    if run.importance is None or "ablation_delta" not in row.values:
        return ""
    effect = effect_of(row, "ablation_delta")
    if not math.isfinite(effect.delta):
        return ""
    up, down = ("rises", "drops") if run.importance.rises else ("drops", "rises")
    noise = ""
    if math.isfinite(effect.p):
        p = numbers.probability(effect.p)
        noise = f"; {'beyond' if effect.p < SURE else 'within'} chance, corrected p {p}"
    by = numbers.effect(abs(effect.delta))
    verb = up if effect.delta >= 0 else down
    return f"Without it, {run.importance.quantity_words} {verb} by {by}{bracketed(effect)}{noise}."


def _effect_p(row: HeadRow) -> float:
    return effect_of(row, "ablation_delta").p if "ablation_delta" in row.values else math.nan


def answer(run: Analysis) -> str:
    """Which heads matter and how much, for the opening; empty if nothing was scored."""
    importance, scores = run.importance, scores_of(run.rows, run.stored_columns)
    if importance is None or not scores:
        return ""
    rows = ranked(run.rows, scores[0])
    if scores[0] != "ablation_delta":
        return by_score(known(run.stored_columns)[scores[0]], rows)
    effects = [effect_of(row, scores[0]) for row in rows]
    sentences = [*verdict(effects, importance)]
    best, what = effects[0], importance.quantity_words
    if best.delta > 0:
        verb = "rises" if importance.rises else "drops"
        by = f"{numbers.effect(best.delta)}{bracketed(best)}{beside_all(best, importance)}"
        sentences.insert(0, f"Without {rows[0].head}, {what} {verb} by {by}.")
    return " ".join([*sentences, *filter(None, [site_sentence(importance)])])


def scored_on(importance: ImportanceRecord) -> str:
    """The data, the dense model's numbers, and how heads were removed, in words."""
    examples = numbers.of(importance.num_examples, "example", "examples")
    parts = [f"Measured on {examples} of the task {importance.task}"]
    known = [("loss", importance.loss)]
    if importance.metric != "loss":
        known.append((METRICS.get(importance.metric, importance.metric), importance.score))
    dense = [f"{name} {numbers.effect(value)}" for name, value in known if math.isfinite(value)]
    if dense:
        parts.append(f"; the dense model has {numbers.listed(dense)}")
    ablation = importance.ablation
    if ablation is not None and 0 < ablation.num_examples < importance.num_examples:
        some = numbers.of(ablation.num_examples, "example", "examples")
        parts.append(f". Heads were removed on {some} of these, drawn at random")
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
        for each in sorted_by(known, lambda each: each.delta, descending=True)
    ]
    return f"{capital(what)} {verb} {numbers.listed(parts)}."


def interval(effect: Effect) -> str:
    """The two ends of the interval, e.g. "0.031 to 0.052"."""
    if not math.isfinite(effect.low):
        return ""
    return f"{numbers.effect(effect.low)} to {numbers.effect(effect.high)}"


def bracketed(effect: Effect, of: str = "") -> str:
    """The interval in brackets, behind a blank and words; empty without one."""
    return f" (95\u202f%{of} {interval(effect)})" if math.isfinite(effect.low) else ""


def luck(effect: Effect) -> str:
    """The corrected p behind a comma; empty without one."""
    return f", corrected p {numbers.probability(effect.p)}" if math.isfinite(effect.p) else ""


def said(effect: Effect) -> str:
    """An effect of a head with its interval and p, where it has them."""
    within = f", 95\u202f% {interval(effect)}" if math.isfinite(effect.low) else ""
    return f"{effect.head}: {numbers.effect(effect.delta)}{within}{luck(effect)}"


def by_score(score: ColumnEntry, rows: list[HeadRow]) -> str:
    """Which head is worth the most by a score that is no measured effect."""
    best = rows[0]
    return (
        f"{best.head} is worth the most by {score.label} "
        f"({numbers.effect(best.values[score.key])}). Ablation was not measured."
    )


def best_alone(importance: ImportanceRecord) -> str:
    """How the best head of each layer was chosen, and what its numbers are worth."""
    if all(each.halves for each in importance.single_heads):
        return (
            "Each half of the examples chose a head that was measured on the other half, so its "
            "numbers are not optimistic. The name is the choice of all examples."
        )
    return "The best head was chosen on the same examples, so its numbers are optimistic."
