"""The last section: how everything was measured, with the facts and the signature of the run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from headcount import numbers
from headcount.reports.page.method_notes import NOTES, WORTH_NOTES, Note
from headcount.reports.page.section import Section
from headcount.results import Analysis, ImportanceRecord, RunRecord

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


def section(run: Analysis) -> Section:
    """The section on methods."""
    unmeasured = (
        NO_TREES if run.record.inputs.has_trees and not run.relation_rows else "",
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
