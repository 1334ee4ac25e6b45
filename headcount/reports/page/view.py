"""The view model: everything that the page shows of a run, ready to print."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from headcount.reports import numbers
from headcount.reports.names import SITE_TITLES, RoleName, role_names
from headcount.reports.page.card_view import Card, cards
from headcount.reports.page.layer_view import Panel, panels, sites
from headcount.reports.page.map_view import Map, maps
from headcount.reports.page.probe_view import ProbesView, probes_view
from headcount.reports.page.worth_view import Worth, worth_view
from headcount.reports.relation_view import RelationTable, relation_table
from headcount.reports.sentences import (
    arrows,
    by_chance,
    headline,
    measured,
    several,
    short_name,
    tending,
)
from headcount.results import ImportanceRecord, Run, RunRecord, tendencies_of

NO_TREES = (
    "The corpus has no trees, so syntax was not measured. Pass a treebank (.conllu) to measure how "
    "well heads find dependency relations."
)


@final
@dataclass(frozen=True)
class Chip:
    """A role with the number of its heads; `role` is None for heads without a role."""

    role: RoleName | None
    count: str
    null_count: str
    """Number of its heads at random weights; empty without a null run."""


@final
@dataclass(frozen=True)
class Cell:
    """One head in a grid; layers with fewer heads have None in place of cells."""

    head: str
    index: int
    roles: tuple[str, ...]
    says: str
    """Text for screen readers."""


@final
@dataclass(frozen=True)
class Grid:
    """Layers x heads of one site."""

    site: str
    title: str
    num_columns: int
    layers: tuple[tuple[int, tuple[Cell | None, ...]], ...]


@final
@dataclass(frozen=True)
class Lead:
    """The clearest heads of one role, where a reader should look first."""

    role: RoleName
    heads: tuple[tuple[str, str], ...]
    """Each head with its evidence."""


@final
@dataclass(frozen=True)
class Report:
    """Everything the page shows."""

    model: str
    title: str
    headline: str
    several: str
    tending: str
    """Number of heads without a role that tend to one, and what could not be tested."""
    by_chance: str
    """Number of heads with a role at random weights, in words; empty without a null run."""
    measured: str
    chips: tuple[Chip, ...]
    roles: Mapping[str, RoleName]
    grids: tuple[Grid, ...]
    leads: tuple[Lead, ...]
    worth: Worth | None
    """Importance of each head for a task; None if not measured."""
    maps: tuple[Map, ...]
    heads: tuple[str, ...]
    cards: tuple[Card, ...]
    sites: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]
    syntax: RelationTable | None
    probes: ProbesView | None
    """What probes found; None without probes."""
    has_null: bool
    null_headline: str
    warnings: tuple[str, ...]
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Titled lists of names and values: counts, thresholds, arguments, timings, versions."""
    signature: str


def report_view(run: Run) -> Report:
    """The view model of a run."""
    roles = [row.roles for row in run.heads]
    null = [row.roles for row in run.null_heads or ()]
    names = role_names(name for head in [*roles, *null] for name in head)
    title = short_name(run.record.model)
    return Report(
        model=run.record.model,
        title=title,
        headline=headline(roles, names),
        several=several(roles),
        tending=tending(run.profiles),
        by_chance=by_chance(null),
        measured=measured(run.record),
        chips=_chips(roles, null, names),
        roles=names,
        grids=_grids(run),
        leads=_leads(run, names),
        worth=worth_view(run),
        maps=maps(run),
        heads=tuple(row.head for row in run.heads),
        cards=cards(run),
        sites=sites(run),
        panels=panels(run),
        syntax=_syntax(run),
        probes=probes_view(run.probes),
        has_null=run.null_heads is not None,
        null_headline=headline(null, names) if null else "",
        warnings=run.record.warnings,
        facts=_facts(run.record) + _task_facts(run.importance),
        signature=run.record.signature,
    )


def _syntax(run: Run) -> RelationTable | None:
    if not run.relations:
        return None
    return relation_table(run.relations, run.null_relations, run.record.thresholds)


def _chips(
    roles: list[tuple[str, ...]], null: list[tuple[str, ...]], names: Mapping[str, RoleName]
) -> tuple[Chip, ...]:
    found, random = (
        Counter(name for head in heads for name in set(head)) for heads in (roles, null)
    )
    chips = [
        Chip(role, numbers.count(found[name]), numbers.count(random[name]) if null else "")
        for name, role in names.items()
    ]
    without, random_without = (sum(not head for head in heads) for heads in (roles, null))
    none = Chip(None, numbers.count(without), numbers.count(random_without) if null else "")
    return (*chips, none)


def _grids(run: Run) -> tuple[Grid, ...]:
    grids = []
    for site in run.sites:
        cells = {
            (row.layer, row.index): Cell(
                row.head,
                row.index,
                row.roles,
                f"{row.head}: {', '.join(row.roles) or _tends(run, row.head)}",
            )
            for row in run.heads
            if row.site == site
        }
        num_columns = 1 + max(index for _, index in cells)
        layers = tuple(
            (layer, tuple(cells.get((layer, index)) for index in range(num_columns)))
            for layer in sorted({layer for layer, _ in cells})
        )
        grids.append(Grid(site, SITE_TITLES.get(site, site), num_columns, layers))
    return tuple(grids)


def _tends(run: Run, head: str) -> str:
    """What a head without a role tends to."""
    strongest = tendencies_of((run.profiles or {}).get(head, ()))
    roles = dict.fromkeys(trait.role for trait in strongest)
    return f"no role; tendency: {', '.join(roles)}" if roles else "no role"


def _leads(run: Run, names: Mapping[str, RoleName], limit: int = 3) -> tuple[Lead, ...]:
    leads = []
    for name, role in names.items():
        having = [
            (e.score, head, e) for head in run.roles for e in run.roles[head] if e.role == name
        ]
        having.sort(key=lambda entry: -entry[0])
        heads = tuple((head, arrows(evidence.evidence)) for _, head, evidence in having[:limit])
        if heads:
            leads.append(Lead(role, heads))
    return tuple(leads)


Facts = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Titled lists of names and values."""


def _facts(record: RunRecord) -> Facts:
    model = [("model", record.model), ("type", record.model_type)]
    model += [("corpus", corpus) for corpus in record.corpora]
    sections: dict[str, Mapping[str, Any]] = {
        "Counts": asdict(record.counts),
        "Thresholds": asdict(record.thresholds),
        "Arguments": record.arguments,
        "Timings": record.timings,
        "Versions": record.versions,
    }
    return (
        ("Model and corpus", tuple(model)),
        *((title, _lines(values)) for title, values in sections.items() if values),
    )


def _lines(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((_readable(name), _fact(value)) for name, value in values.items())


def _task_facts(importance: ImportanceRecord | None) -> Facts:
    if importance is None:
        return ()
    facts = {
        "task": importance.task,
        "metric": importance.metric,
        "examples": importance.num_examples,
        "methods": list(importance.methods),
        "seconds": dict(importance.seconds),
        "signature": importance.signature,
    }
    return (("Importance", _lines(facts)),)


def _readable(key: str) -> str:
    """`measure_s` is "measure (s)", `sentences_per_s` is "sentences per s"."""
    if key.endswith("_s") and not key.endswith("per_s"):
        key = f"{key[:-2]} (s)"
    return key.replace("_", " ")


def _fact(value: Any) -> str:
    """A value of run.json as text: integers with separators, lists with commas."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return numbers.count(value) if abs(value) >= 10_000 else str(value)
        case float():
            return f"{value:.4g}"
        case list():
            return ", ".join(_fact(item) for item in value) or "none"
        case dict():
            return ", ".join(f"{key} {_fact(item)}" for key, item in value.items()) or "none"
        case None:
            return "not given"
        case _:
            return str(value)
