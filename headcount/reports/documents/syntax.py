"""What relations show: a head for each, against the best fixed position."""

from collections.abc import Iterable, Iterator

from headcount import numbers
from headcount.core import Block, Chart, Document, Heading, Table, Text
from headcount.reports.figures.figures import relations
from headcount.reports.relation_view import (
    RelationRow,
    RelationTable,
    TestedSyntax,
    in_short,
    relation_table,
    syntax_of,
)
from headcount.results import Analysis
from headcount.vocabulary import relation_target

_TITLE = "A head for each relation"


def syntax_document(run: Analysis) -> Document | None:
    """Relations as they were tested; of a run without profiles, on the whole corpus."""
    tested, blocks = syntax_of(run), ()
    if tested is not None:
        blocks = (*_tested(tested),)
    elif run.relation_rows and run.traits is None:
        limits = run.record.thresholds
        table = relation_table(run.relation_rows, run.null_relation_rows, limits)
        blocks = (*_untested(table, run.null_relation_rows is not None, limits.syntactic_cases),)
    chart = Chart("relations", "Share of each relation's cases", lambda: relations(run))
    return Document("Syntax: a head for each relation", (*blocks, chart)) if blocks else None


def _tested(syntax: TestedSyntax) -> Iterator[Block]:
    yield Text(f"{syntax.summary} {syntax.untested}".strip(), "lede")
    if not syntax.rows:
        return
    yield Text(
        "One half of the corpus chose each head; its share and that of the best fixed position "
        "are of the other half."
    )
    headers = ("relation", "head", "finds", "share", "fixed position", "points", "cases", "verdict")
    rows = (
        (
            f"{row.relation}, {in_short(row.direction or '')}",
            row.head,
            relation_target(row.relation or "", row.direction or ""),
            *map(numbers.percent, (row.share, row.chance)),
            numbers.points(row.share - row.chance),
            numbers.count(row.cases),
            numbers.UNKNOWN if row.verdict == "none" else row.verdict,
        )
        for row in syntax.rows
    )
    yield Table.of(headers, rows, _TITLE)


def _untested(table: RelationTable, has_null: bool, least: int) -> Iterator[Block]:
    yield Text(table.summary, "lede")
    meanings = numbers.listed([f"{short} {meaning}" for short, meaning in table.directions])
    random = " “Random” is the best head of a copy with random weights." if has_null else ""
    if table.rows:
        yield Text(
            "Accuracy of the best head against the relation’s best fixed offset, and the "
            "difference in points. Punctuation and all relations together come last and do not "
            f"count. Directions: {meanings}.{random}"
        )
        yield _scores(table.rows, has_null, _TITLE)
    if table.few_rows:
        few = "relation" if table.num_few == 1 else "relations"
        title = (
            f"{table.num_few} {few} with fewer than {least} cases, where chance can look like skill"
        )
        yield Heading(title)
        yield _scores(table.few_rows, has_null, title)


def _scores(rows: Iterable[RelationRow], has_null: bool, label: str) -> Table:
    """A row for each direction of each relation."""
    headers = ["relation", "meaning", "head", "accuracy", "offset", "fixed offset", "points"]
    headers += [*(["random"] if has_null else []), "cases"]
    cells = (
        (
            *(f"{best.relation}, {best.direction}", best.gloss, best.head, best.accuracy_text),
            *(*best.baseline_text.split(": "), best.gain_text),
            *([best.null_text] if has_null else []),
            best.cases_text,
        )
        for row in rows
        for best in row.best
        if best
    )
    return Table.of(headers, cells, label)
