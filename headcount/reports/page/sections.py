"""The sections of the page, in their order: numbers first, methods last.

To add one, write a function of the run that returns a document or None; then name it in `SECTIONS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from headcount import numbers
from headcount.core import Document
from headcount.importance import Assessment
from headcount.reports.documents.alignment import alignment_document
from headcount.reports.documents.cache import cache_document
from headcount.reports.documents.clusters import clusters_document
from headcount.reports.documents.confirmation import confirmation_document
from headcount.reports.documents.coreference import coreference_document
from headcount.reports.documents.counts import chance_document
from headcount.reports.documents.curve import curve_document
from headcount.reports.documents.explanation import explanation_document
from headcount.reports.documents.layers import layers_document
from headcount.reports.documents.probes import probes_document
from headcount.reports.documents.pruned import pruned_document
from headcount.reports.documents.sensitivity import sensitivity_document
from headcount.reports.documents.skills import skills_document
from headcount.reports.documents.syntax import syntax_document
from headcount.reports.documents.worth import worth_document
from headcount.reports.names import measures
from headcount.reports.page.kept_view import curve_shown
from headcount.reports.page.method_notes import NOTES, WORTH_NOTES, Note
from headcount.results import (
    Alignment,
    Analysis,
    Clusters,
    Coreference,
    Curve,
    Explained,
    HeadRow,
    ImportanceRecord,
    PlannedCache,
    Probed,
    Result,
    RunRecord,
    Sensitivity,
    Skills,
    confirm,
)
from headcount.vocabulary import ColumnEntry


@final
@dataclass(frozen=True)
class Section:
    """One section below the map, with its entry in the contents list."""

    key: str
    """Id of the section, which links end in."""
    title: str
    """Heading, also in the contents list."""
    short: str
    """Name in the contents list."""
    view: object
    """What the template prints."""
    template: str = "_document.html.j2"
    """File in `templates/` that shows it; the view is there as `view`."""


MANY = 400
"""Number of heads above which the page holds no table; its script makes it when it is opened."""


@final
@dataclass(frozen=True)
class HeadsTable:
    """The table."""

    columns: tuple[ColumnEntry, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Head, roles and the texts of its numbers; of many heads, the page's script adds them."""
    num_heads: int


def heads(run: Analysis) -> Section:
    """The section with the table of all heads."""
    return heads_section(run.rows, len(run.rows) <= MANY)


def heads_section(heads: Sequence[HeadRow], is_filled: bool = True) -> Section:
    """The section with the table of some heads, filled now or when it is opened."""
    columns = tuple(measures(heads[0].values))
    rows = tuple(
        (row.head, ", ".join(row.roles), tuple(c.show(row.values[c.key]) for c in columns))
        for row in heads
        if is_filled
    )
    view = HeadsTable(columns, rows, len(heads))
    return Section("numbers", "All numbers", "all numbers", view, "_heads.html.j2")


NO_TREES = (
    "The corpus has no trees, so syntax was not measured. Pass a treebank (.conllu) to measure how "
    "well heads find dependency relations."
)
NO_NULL = "Run with --null to see how many heads would get a role with random weights."

Facts = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Titled lists of names and values."""


@final
@dataclass(frozen=True)
class Methods:
    """The section."""

    unmeasured: tuple[str, ...]
    """A sentence for everything that this run did not measure."""
    notes: tuple[Note, ...]
    facts: Facts
    """Counts, thresholds, arguments, timings, versions."""
    signature: str


def methods(run: Analysis) -> Section:
    """The section on methods."""
    unmeasured = (
        NO_TREES if run.record.inputs.is_text and not run.relation_rows else "",
        "" if run.null_rows else NO_NULL,
    )
    notes = [note for note in NOTES if run.record.inputs in note.inputs]
    view = Methods(
        tuple(filter(None, unmeasured)),
        (*notes, *(WORTH_NOTES if run.importance else ())),
        _facts(run.record) + _task_facts(run.importance),
        run.record.signature,
    )
    return Section("methods", "How it was measured", "methods", view, "_methods.html.j2")


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


DOCUMENTS: Mapping[type[Result[Any]], Callable[..., Document]] = {
    Alignment: alignment_document,
    Assessment: worth_document,
    Clusters: clusters_document,
    Coreference: coreference_document,
    Curve: curve_document,
    Explained: explanation_document,
    PlannedCache: cache_document,
    Probed: probes_document,
    Sensitivity: sensitivity_document,
    Skills: skills_document,
}
"""What each result shows."""


def document_of(found: Result[Any], *more: object) -> Document:
    """What a result shows, with its warnings and signature.

    Args:
        found: the result.
        more: what else its document takes: of clusters and curves, the roles of the heads.
    """
    shown = DOCUMENTS[type(found)](found, *more)
    return shown.ending(found.record.warnings, found.record.signature)


def _documented(key: str, short: str, shown: Document | None) -> Section | None:
    """The section that shows a document; None without one."""
    return shown and Section(key, shown.title, short, shown)


def _result(key: str, short: str, found: Result[Any] | None, *more: object) -> Section | None:
    """The section that shows the document of a result beside the analysis; None without it."""
    return None if found is None else _documented(key, short, document_of(found, *more))


def _confirmed(run: Analysis) -> Section | None:
    """The section on other texts; None unless an analysis of such was named."""
    if run.confirming is None:
        return None
    return _documented(
        "confirmed", "other texts", confirmation_document(confirm(run, run.confirming))
    )


SECTIONS: tuple[Callable[[Analysis], Section | None], ...] = (
    lambda run: _result("skills", "skills", run.skills),
    lambda run: _result("explained", "prediction", run.explained),
    lambda run: _result("worth", "worth", run.importance and Assessment(run.importance, run.heads)),
    lambda run: _documented("curve", "pruning", curve_shown(run)),
    lambda run: _documented("pruned", "before and after", pruned_document(run)),
    _confirmed,
    lambda run: _documented("syntax", "syntax", syntax_document(run)),
    lambda run: _result("probes", "probes", run.probes),
    lambda run: _result(
        "clusters", "same places", run.clusters, {row.head: row.roles for row in run.rows}
    ),
    lambda run: _result("coreference", "antecedents", run.coreference),
    lambda run: _result("alignment", "translations", run.alignment),
    lambda run: _documented("layers", "layers", layers_document(run)),
    lambda run: _documented("null", "chance", chance_document(run)),
    heads,
    methods,
)
"""Builders of all sections; a section of which the run holds nothing is None."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    return tuple(found for build in SECTIONS if (found := build(run)) is not None)
