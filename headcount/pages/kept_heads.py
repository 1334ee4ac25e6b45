"""How many heads of each kind a choice of heads keeps."""

from collections.abc import Collection, Mapping

from headcount import numbers
from headcount.core import Table
from headcount.pages.kinds import NEITHER, counted, leading
from headcount.pages.names import SITE_TITLES
from headcount.results import Analysis


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
