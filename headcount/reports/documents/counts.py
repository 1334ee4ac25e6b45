"""How many heads there are of each kind: kept by a choice, and at random weights."""

from collections import Counter
from collections.abc import Collection, Mapping

from headcount import numbers
from headcount.core import Document, Table, Text
from headcount.reports.kinds import counted, leading
from headcount.reports.names import SITE_TITLES
from headcount.reports.sentences import by_chance
from headcount.results import Analysis
from headcount.vocabulary import roles_named

NEITHER = "neither role nor tendency"


def kept_table(run: Analysis, choices: Mapping[str, Collection[str]], label: str) -> Table:
    """How many heads of each kind, and of each site, are kept by each choice.

    Args:
        run: the run over all heads.
        choices: names of the kept heads, by what chose them.
        label: what the rows are.
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
    return Table.of(("heads", "all", *choices), rows, label)


NO_ROLE = "no role"


def chance_document(run: Analysis) -> Document | None:
    """Every role that occurs with its number of heads; None without a null run."""
    if run.null_rows is None:
        return None
    found, random = ([row.roles for row in heads] for heads in (run.rows, run.null_rows))
    counts = [Counter(name for head in heads for name in {*head}) for heads in (found, random)]
    rows = [
        (role.name, *(numbers.count(each[name]) for each in counts))
        for name, role in roles_named(name for head in [*found, *random] for name in head).items()
    ]
    without = (numbers.count(sum(not head for head in heads)) for heads in (found, random))
    return Document(
        "Is it more than chance?",
        (
            Text(by_chance(random), "lede"),
            Table.of(
                ("role", "this model", "random weights"),
                [*rows, (NO_ROLE, *without)],
                "Number of heads with each role",
            ),
        ),
    )
