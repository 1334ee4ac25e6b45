"""The view model: everything that the page shows of a run, ready to print."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from headcount.reports import numbers
from headcount.reports.kinds import Kind, kinds_of, leading
from headcount.reports.names import RoleName, role_names
from headcount.reports.page.answer_view import Start, next_steps, pruning_answer, starts
from headcount.reports.page.card_view import Card, cards
from headcount.reports.page.grid_view import Grid, Legend, grids, legend
from headcount.reports.page.layer_view import Panel, panels, sites
from headcount.reports.page.map_view import Map, maps
from headcount.reports.page.probe_view import ProbesView, probes_view
from headcount.reports.page.worth_view import Worth, answer, worth_view
from headcount.reports.relation_view import RelationTable, relation_table
from headcount.reports.sentences import by_chance, headline, measured, short_name
from headcount.reports.syntax_view import TestedSyntax, syntax_of
from headcount.results import ImportanceRecord, Run, RunRecord

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
class Report:
    """Everything the page shows."""

    model: str
    title: str
    headline: str
    answers: tuple[tuple[str, str], ...]
    """Titled sentences on what the heads are worth and how many can be pruned."""
    steps: tuple[str, ...]
    """What would show more."""
    by_chance: str
    """Number of heads with a role at random weights, in words; empty without a null run."""
    measured: str
    chips: tuple[Chip, ...]
    roles: Mapping[str, RoleName]
    kinds: Mapping[str, Kind]
    """What leads heads, by key."""
    legend: Legend
    grids: tuple[Grid, ...]
    starts: tuple[Start, ...]
    """Heads worth a look."""
    worth: Worth | None
    """Importance of each head for a task; None if not measured."""
    maps: tuple[Map, ...]
    heads: tuple[str, ...]
    cards: tuple[Card, ...]
    sites: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]
    tested_syntax: TestedSyntax | None
    """Relations on the half of the corpus that chose nothing; None without profiles or trees."""
    syntax: RelationTable | None
    """Relations on the whole corpus, of a run without profiles."""
    probes: ProbesView | None
    """What probes found; None without probes."""
    has_null: bool
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
    found = leading(run)
    return Report(
        model=run.record.model,
        title=title,
        headline=headline([*found.values()]),
        answers=_answers(run),
        steps=next_steps(run, found),
        by_chance=by_chance(null),
        measured=measured(run.record),
        chips=_chips(roles, null, names),
        roles=names,
        kinds={kind.key: kind for kind in kinds_of(run)},
        legend=legend(run, found),
        grids=grids(run, found),
        starts=starts(run, found),
        worth=worth_view(run),
        maps=maps(run),
        heads=tuple(row.head for row in run.heads),
        cards=cards(run),
        sites=sites(run),
        panels=panels(run),
        tested_syntax=syntax_of(run),
        syntax=_syntax(run),
        probes=probes_view(run.probes),
        has_null=run.null_heads is not None,
        warnings=run.record.warnings,
        facts=_facts(run.record) + _task_facts(run.importance),
        signature=run.record.signature,
    )


def _syntax(run: Run) -> RelationTable | None:
    if not run.relations or run.profiles is not None:
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


def _answers(run: Run) -> tuple[tuple[str, str], ...]:
    answers = (("Which matter", answer(run)), ("How many can be pruned", pruning_answer(run)))
    return tuple((title, text) for title, text in answers if text)


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
