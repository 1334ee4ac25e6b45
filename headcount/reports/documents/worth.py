"""What an assessment shows: the most and least important heads, layers, and agreement."""

import math
from collections.abc import Iterator, Sequence

from headcount import numbers
from headcount.core import SITES, Block, Chart, Document, Heading, HeadTable, Table, Text, amount
from headcount.reports import worth
from headcount.reports.documents.causal_gates import causal_gates_blocks
from headcount.reports.effects import SURE
from headcount.reports.figures.worth import agreement, importance, label
from headcount.reports.names import MEASURES
from headcount.results import Effect, HeadRow, ImportanceRecord, Matrix, head_rows

SHOWN = 8
"""Number of heads listed at either end."""


def worth_document(record: ImportanceRecord, heads: HeadTable) -> Document | None:
    """The document of an assessment; None if no head has a score.

    Args:
        record: the assessment.
        heads: the table of heads with its scores.
    """
    scores = worth.scores_of(rows := head_rows(heads))
    if not scores:
        return None
    score, ordered = scores[0], worth.ranked(rows, scores[0])
    effects = [worth.effect_of(row, score) for row in ordered]
    is_ablation = score == "ablation_delta"
    says = record.effect if is_ablation else MEASURES[score].label
    few = min(SHOWN, len(ordered) // 2)
    least = ordered[len(ordered) - few :]
    lede = worth.lede(record, ordered, effects) if is_ablation else worth.by_score(score, ordered)
    return Document(
        "What each head is worth",
        (
            Text(lede, "lede"),
            Text(worth.measured(record)),
            Chart(
                "importance",
                f"All {amount(len(ordered), 'head')}, the most important on the left: {says}",
                lambda: importance(record, rows),
            ),
            Text(_key(effects)),
            *_listed("Most important", ordered[: few or 1], scores, effects),
            *(_listed("Least important", least, scores, effects) if few else ()),
            *causal_gates_blocks(record.causal_gates),
            *_sites(record),
            *_layers(record),
            *_agreement(record.agreement),
            *_across(record),
        ),
    )


def _key(effects: Sequence[Effect]) -> str:
    """How the chart is read."""
    line = "A line is the 95 % interval of a head alone. "
    hollow = f"A hollow dot may be chance (p ≥ {SURE} after correction)."
    return (
        (line if any(math.isfinite(each.low) for each in effects) else "")
        + (hollow if any(math.isfinite(each.p) for each in effects) else "")
    ).strip()


def _listed(
    title: str, rows: Sequence[HeadRow], scores: Sequence[str], effects: Sequence[Effect]
) -> Iterator[Block]:
    """The heads at one end, with every score; columns that no head has a number in are left out."""
    headers = ["head", MEASURES[scores[0]].label, "95 % interval", "p, corrected"]
    shown = [
        True,
        True,
        any(math.isfinite(each.low) for each in effects),
        any(math.isfinite(each.p) for each in effects),
    ]
    cells = []
    for row in rows:
        effect = worth.effect_of(row, scores[0])
        known = (row.head, numbers.effect(effect.delta), worth.interval(effect) or numbers.UNKNOWN)
        own = (*known, numbers.probability(effect.p))
        others = (MEASURES[score].show(row.values[score]) for score in scores[1:])
        cells.append((*(cell for cell, keep in zip(own, shown, strict=True) if keep), *others))
    kept = [header for header, keep in zip(headers, shown, strict=True) if keep]
    yield Heading(title)
    yield Table.of([*kept, *(MEASURES[score].label for score in scores[1:])], cells, title)


def _sites(record: ImportanceRecord) -> Iterator[Block]:
    if found := worth.site_sentence(record):
        yield Heading("Whole sites")
        yield Text(found, "lede")


def _layers(record: ImportanceRecord) -> Iterator[Block]:
    """All heads of a layer removed, and all but the best one."""
    only = {each.layer_id: each for each in record.single_heads}
    gone = {each.layer_id: each for each in record.layers}
    order = list(SITES)
    places = sorted(gone.keys() | only.keys(), key=lambda p: (order.index(p.site), p.layer))
    if not places:
        return
    title = "Whole layers"
    yield Heading(title)
    best = f", or all but its best one. {worth.best_alone(record)}" if only else "."
    yield Text(f"All heads of a layer are removed{best}")
    headers = ["layer", "no head kept", "95 % interval"]
    headers += ["best head", "only it kept", "95 % interval"] if only else []
    rows = [
        (
            f"{SITES[place.site]}.{place.layer}",
            *_effect(gone.get(place)),
            *((_head(only.get(place)), *_effect(only.get(place))) if only else ()),
        )
        for place in places
    ]
    yield Table.of(headers, rows, title)


def _head(effect: Effect | None) -> str:
    return numbers.UNKNOWN if effect is None else effect.head


def _effect(effect: Effect | None) -> tuple[str, str]:
    """An effect and its interval."""
    if effect is None:
        return numbers.UNKNOWN, numbers.UNKNOWN
    return numbers.effect(effect.delta), worth.interval(effect) or numbers.UNKNOWN


def _agreement(matrix: Matrix | None) -> Iterator[Block]:
    """How alike every two scores rank the heads; nothing with fewer than two."""
    if matrix is None or len(matrix.names) < 2:
        return
    title = "Do the scores agree?"
    yield Heading(title)
    yield Text(matrix.sentence, "lede")
    labels = [label(name) for name in matrix.names]
    rows = (
        (
            labels[row],
            *(
                _correlation(matrix, row, column) if column < row else ""
                for column in range(len(labels) - 1)
            ),
        )
        for row in range(1, len(labels))
    )
    says = "Rank correlations between scores"
    yield Table.of(("score", *labels[:-1]), rows, says)
    yield Text("Spearman’s rank correlation over heads with its 95 % interval.")
    yield Chart("agreement", says, lambda: agreement(matrix), is_detail=True)


def _correlation(matrix: Matrix, row: int, column: int) -> str:
    rho, low, high = (each[row][column] for each in (matrix.rho, matrix.low, matrix.high))
    shown = numbers.correlation(rho)
    if not math.isfinite(rho):
        return shown
    return f"{shown} ({numbers.correlation(low)} to {numbers.correlation(high)})"


def _across(record: ImportanceRecord) -> Iterator[Block]:
    if record.across is not None:
        yield Heading("Do the effects hold on other data?")
        yield Text(record.across.sentence, "lede")
