"""The section on a pruned model: which heads it keeps, and every number before and after."""

import math
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.reports.kinds import leading
from headcount.reports.page.kept_view import KeptRow, kept_rows
from headcount.reports.page.section import Section
from headcount.results import (
    METRICS,
    Analysis,
    MetricChange,
    PruneRecord,
    Survival,
    p_beside,
    pruned_warnings,
)

DATA = (("test", "test data"), ("dev", "development data"))
"""Data sets of a record in the order of the page, with their names."""


@final
@dataclass(frozen=True)
class ChangeRow:
    """One number of the dense and of the pruned model."""

    name: str
    before: str
    after: str
    change: str
    interval: str
    p: str


@final
@dataclass(frozen=True)
class SurvivalRow:
    """What became of the heads of one role when the pruned model was analysed again."""

    role: str
    before: int
    still: str
    """Number of kept heads that still have it."""
    taken_over: tuple[str, ...]
    """Heads that have it only in the pruned model."""


@final
@dataclass(frozen=True)
class PrunedView:
    """The section."""

    lede: str
    changes: tuple[ChangeRow, ...]
    kept: tuple[KeptRow, ...]
    survivals: tuple[SurvivalRow, ...]
    """Roles after pruning; empty unless the pruned model was analysed."""
    facts: tuple[str, ...]
    """Sentences on stages, the ceiling and the measured speed."""
    warnings: tuple[str, ...]


def section(run: Analysis) -> Section | None:
    """The section on the pruned model; None unless one was named."""
    if run.pruned is None:
        return None
    title = "Before and after pruning"
    return Section(
        "pruned", title, "before and after", "_pruned.html.j2", pruned_view(run, run.pruned)
    )


def pruned_view(run: Analysis, record: PruneRecord) -> PrunedView:
    """The view of a pruned model."""
    return PrunedView(
        lede=" ".join([_opening(record), *_drop(record)]),
        changes=tuple(_changes(record)),
        kept=kept_rows(run, leading(run), [record.kept]),
        survivals=tuple(
            _survival(each) for each in record.functions or () if each.kept is not None
        ),
        facts=tuple(_facts(record)),
        warnings=(*record.warnings, *pruned_warnings(run.record, record)),
    )


def pruned_answer(run: Analysis) -> str:
    """How many heads were pruned at which loss, for the opening; empty without a pruned model."""
    if run.pruned is None:
        return ""
    return " ".join([_opening(run.pruned), *_drop(run.pruned)])


def _opening(record: PruneRecord) -> str:
    gone, total = len(record.pruned), len(record.pruned) + len(record.kept)
    verb = "was" if gone == 1 else "were"
    by = "" if record.choice is None else f", chosen by {record.choice.method_used}"
    opening = f"{numbers.count(gone)} of {numbers.of(total, 'head', 'heads')} {verb} pruned{by}."
    if not record.trained_on:
        return opening
    updates = numbers.of(record.trained_on, "update", "updates")
    return f"{opening} Then the model was trained for {updates} with the dense one as teacher."


def _drop(record: PruneRecord) -> list[str]:
    """The change of the score, on test data if there is any."""
    for key, data in DATA:
        if key in record.data_sets:
            change = record.data_sets[key].score
            name = METRICS.get(change.name, change.name)
            name = "the loss" if name == "loss" else name
            verb = "rises" if change.change > 0 else "drops"
            by = numbers.effect(abs(change.change))
            ends = f" (95\u202f% {_interval(change)})" if math.isfinite(change.low) else ""
            return [
                f"On {data}, {name} {verb} from {numbers.effect(change.before)} to "
                f"{numbers.effect(change.after)}, a change of {_sign(change)}{by}{ends}."
            ]
    return []


def _sign(change: MetricChange) -> str:
    return "+" if change.change > 0 else "−"


def _interval(change: MetricChange) -> str:
    low, high = change.interval
    return f"{numbers.effect(low)} to {numbers.effect(high)}"


def _changes(record: PruneRecord) -> list[ChangeRow]:
    control = record.pipeline.control if record.pipeline is not None else None
    rows = []
    for key, data in DATA:
        if key not in record.data_sets:
            continue
        found = record.data_sets[key]
        metrics = [found.loss] if found.score.name == "loss" else [found.score, found.loss]
        rows += [_change_row(each, data) for each in metrics]
        if control is not None and key in control.data_sets:
            against = control.data_sets[key].pruned
            rows.append(_change_row(against.score, f"{data}, against the control"))
    return rows


def _change_row(change: MetricChange, data: str) -> ChangeRow:
    p = p_beside(change.p, change.low, change.high)
    return ChangeRow(
        f"{METRICS.get(change.name, change.name)}, {data}",
        numbers.effect(change.before),
        numbers.effect(change.after),
        f"{_sign(change)}{numbers.effect(abs(change.change))}",
        _interval(change) if math.isfinite(change.low) else "",
        numbers.probability(p),
    )


def _survival(found: Survival) -> SurvivalRow:
    return SurvivalRow(
        found.role,
        found.before,
        numbers.count(len(found.kept or ())),
        found.taken_over or (),
    )


def _facts(record: PruneRecord) -> list[str]:
    facts = []
    if record.kept_stages:
        facts.append(f"Compensated by {numbers.listed([*record.kept_stages])}.")
    if record.ceiling is not None:
        tokens = numbers.of(record.ceiling.tokens, "token", "tokens")
        facts.append(
            f"By its FLOPs, one forward pass of {tokens} can be at most "
            f"{record.ceiling.value:.2f} times as fast."
        )
    return facts
