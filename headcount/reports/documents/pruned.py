"""What pruning left: which heads a pruned model keeps, and every number before and after."""

import math
from collections.abc import Collection, Mapping

from headcount import numbers
from headcount.core import Document, Heading, Table, Text, Warned
from headcount.reports.documents.head_card import measured_blocks
from headcount.reports.kinds import NEITHER, counted, leading
from headcount.reports.names import SITE_TITLES
from headcount.results import (
    METRICS,
    Analysis,
    PruneRecord,
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
            *measured_blocks(record),
            Heading("Which functions survive"),
            Text("Number of heads by what leads them in the dense model."),
            kept_table(run, {"pruned": record.kept}),
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
            before, after, by, interval, _ = change.cells
            may_be_chance = change.low <= 0 <= change.high
            verb = "goes" if may_be_chance else "rises" if change.change > 0 else "drops"
            ends = f" (95\u202f% {interval})" if math.isfinite(change.low) else ""
            ends += ", which may be chance" if may_be_chance else ""
            return [f"On {data}, {name} {verb} from {before} to {after}, a change of {by}{ends}."]
    return []


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
