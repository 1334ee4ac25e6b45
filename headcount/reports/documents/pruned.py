"""What pruning left: which heads a pruned model keeps, and every number before and after."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from headcount import numbers
from headcount.core import Block, Document, Heading, Table, Text, Warned
from headcount.reports.kinds import NEITHER, counted, leading
from headcount.reports.names import SITE_TITLES
from headcount.results import (
    METRICS,
    Analysis,
    MetricChange,
    PruneRecord,
    Survival,
    pruned_warnings,
)

DATA = (("test", "test data"), ("dev", "development data"))
"""Data sets of a record in the order of the page, with their names."""


def pruned_document(run: Analysis) -> Document | None:
    """The document of the pruned model; None unless one was named."""
    record = run.pruned
    if record is None:
        return None
    return Document(
        "Before and after pruning",
        (
            Text(pruned_answer(run), "lede"),
            *map(Text, _facts(record)),
            *_changes(record),
            Heading("Which functions survive"),
            Text("Number of heads by what leads them in the dense model."),
            kept_table(run, {"pruned": record.kept}),
            *_survivals(record.functions or ()),
            *map(Warned, (*record.warnings, *pruned_warnings(run.record, record))),
        ),
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
            before, after, by, interval, _ = change.cells
            ends = f" (95\u202f% {interval})" if math.isfinite(change.low) else ""
            return [f"On {data}, {name} {verb} from {before} to {after}, a change of {by}{ends}."]
    return []


def _changes(record: PruneRecord) -> Iterator[Block]:
    """Every number of the dense and of the pruned model; none without data."""
    control = record.pipeline.control if record.pipeline is not None else None
    rows = list[tuple[str, ...]]()
    for key, data in DATA:
        if key not in record.data_sets:
            continue
        found = record.data_sets[key]
        metrics = [found.loss] if found.score.name == "loss" else [found.score, found.loss]
        rows += [_change(each, data) for each in metrics]
        if control is not None and key in control.data_sets:
            against = control.data_sets[key].pruned
            rows.append(_change(against.score, f"{data}, against the control"))
    if rows:
        yield Heading("Numbers before and after")
        yield Table.of(("number", "dense", "pruned", "change", "95 % interval", "p"), rows)


def _change(change: MetricChange, data: str) -> tuple[str, ...]:
    return (f"{METRICS.get(change.name, change.name)}, {data}", *change.cells)


def _survivals(functions: Sequence[Survival]) -> Iterator[Block]:
    """What became of the heads of each role; nothing unless the pruned model was analysed."""
    rows = [
        (
            found.role,
            numbers.count(found.before),
            numbers.count(len(found.kept)),
            " ".join(found.taken_over or ()) or numbers.UNKNOWN,
        )
        for found in functions
        if found.kept is not None
    ]
    if rows:
        yield Heading("Roles in the pruned model")
        yield Table.of(("role", "heads before", "still have it", "taken over by"), rows)


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


def kept_table(run: Analysis, choices: Mapping[str, Collection[str]]) -> Table:
    """How many heads of each kind, and of each site, are kept by each choice.

    Args:
        run: the run over all heads.
        choices: names of the kept heads, by what chose them.
    """
    found = leading(run)
    kinds = {head: leads.kind.key if leads else None for head, leads in found.items()}
    groups: list[tuple[str, list[str]]] = [
        (kind.label, [head for head in kinds if kinds[head] == kind.key])
        for kind, _ in counted(found.values())
    ]
    groups.append((NEITHER, [head for head in kinds if not kinds[head]]))
    if len(run.sites) > 1:
        groups += [
            (SITE_TITLES.get(site, site), [row.head for row in rows])
            for site, rows in run.by_site()
        ]
    rows = (
        (
            label,
            numbers.count(len(heads)),
            *(numbers.count(len({*heads} & {*choice})) for choice in choices.values()),
        )
        for label, heads in groups
        if heads
    )
    return Table.of(("heads", "all", *choices), rows)
