"""What an assessment shows: the most and least important heads, layers, agreement, causal gates."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headcount import numbers
from headcount.core import (
    INK,
    MUTED,
    ON_MARK,
    PAPER,
    SITE_COLOURS,
    SITES,
    Block,
    Chart,
    Document,
    Heading,
    Table,
    Text,
    amount,
    new_figure,
    say,
)
from headcount.importance.folder import Assessment
from headcount.pages import (
    DIVERGING,
    SITE_TITLES,
    SURE,
    all_alone,
    bars,
    best_alone,
    by_score,
    document_of,
    effect_of,
    interval,
    known,
    lede,
    ranked,
    said,
    scored_on,
    scores_of,
    site_sentence,
)
from headcount.results import (
    Analysis,
    CausalGates,
    Correlation,
    Effect,
    GateCheck,
    HeadRow,
    ImportanceRecord,
    head_rows,
)
from headcount.vocabulary import ColumnEntry

_AGREED = 12
"""Largest number of heads named in a sentence."""
_LEFT = {
    "only facilitating": "only facilitating heads",
    "only random": "as many random heads",
    "without interfering": "all but interfering heads",
    "without random": "all but as many random heads",
}
"""What is left of the model, in words."""


def causal_gates_blocks(found: CausalGates | None) -> Iterator[Block]:
    """The blocks of an assessment about causal gates; nothing without them."""
    if found is None:
        return
    sets = 2 * found.starts
    yield Heading("Which heads are enough, and which are in the way?")
    yield Text(
        f"{_agreed('facilitating', found.facilitating, found.facilitating_each, sets)} "
        f"{_chance(found.facilitating_chance)} "
        f"{_agreed('interfering', found.interfering, found.interfering_each, sets)} "
        f"{_chance(found.interfering_chance)}",
        "lede",
    )
    one, other = (numbers.of(each, "example", "examples") for each in found.num_trained)
    yield Text(
        f"{amount(found.starts, 'set')} of gates learned from {one}, and as many from {other}. "
        "Facilitation correlates by rank with "
        f"{numbers.correlation(found.starts_rho)} between starts and "
        f"{numbers.correlation(found.halves_rho)} between the halves. The losses below are on "
        f"{numbers.of(found.num_held_out, 'example', 'examples')} that trained nothing, where the "
        f"dense model has {numbers.effect(found.loss)}."
    )
    together = [each for each in found.checks if each.left in _LEFT]
    rows = [(_LEFT[each.left], str(each.num_kept), *_numbers(each)) for each in together]
    title = "What is left on other examples"
    headers = ("kept", "heads", "rise of the loss", "95 % interval, or range of draws")
    yield Table.of(headers, rows, title)
    if alone := [each for each in found.checks if each.head]:
        rows = [(each.head, *_numbers(each)) for each in sorted(alone, key=_delta)]
        headers = ("removed head", "rise of the loss", "95 % interval")
        yield Table.of(headers, rows, "Interfering heads, removed one at a time")


def _delta(check: GateCheck) -> float:
    return check.delta


def _agreed(what: str, agreed: Sequence[str], each: Sequence[int], sets: int) -> str:
    """On how many heads of a kind all sets agree."""
    verb = "is" if len(agreed) == 1 else "are"
    least, most = min(each), max(each)
    single = str(least) if least == most else f"{least} to {most}"
    more = [f"{len(agreed) - _AGREED} more"] if len(agreed) > _AGREED else []
    names = f" ({', '.join([*agreed[:_AGREED], *more])})" if agreed else ""
    return (
        f"{amount(len(agreed), 'head')}{names} {verb} {what} in all {sets} sets of gates, where "
        f"single sets have {single}."
    )


def _chance(expected: float) -> str:
    return f"By chance they would share {numbers.weight(expected)}."


def _numbers(check: GateCheck) -> tuple[str, str]:
    """The rise of the loss and its interval."""
    interval = f"{numbers.effect(check.low)} to {numbers.effect(check.high)}"
    return numbers.effect(check.delta), numbers.UNKNOWN if check.low != check.low else interval


TITLE = "What each head is worth"
SHOWN = 8
"""Number of heads listed at either end."""


def worth_document(found: Assessment) -> Document:
    """The document of an assessment: what its heads are worth."""
    record, rows = found.record, head_rows(found.heads)
    stored = record.column_entries.values()
    words = known(stored)
    if not (scores := scores_of(rows, stored)):
        return Document(TITLE, (Text("No head got a number, so nothing can be compared.", "lede"),))
    score, ordered = scores[0], ranked(rows, scores[0])
    effects = [effect_of(row, score) for row in ordered]
    is_ablation = score == "ablation_delta"
    says = record.effect if is_ablation else words[score].label
    few = min(SHOWN, len(ordered) // 2)
    least = ordered[len(ordered) - few :]
    first = lede(record, ordered, effects) if is_ablation else by_score(words[score], ordered)
    return Document(
        TITLE,
        (
            Text(first, "lede"),
            *(bars(effects, record) if is_ablation else ()),
            Chart(
                "importance",
                f"All {amount(len(ordered), 'head')}, the most important on the left: {says}",
                lambda: importance_figure(record, rows),
            ),
            Text(_key(effects)),
            *([Text(all_alone(record, effects), "lede")] if is_ablation else []),
            Text(scored_on(record)),
            *_listed(
                "Most important", ordered[: few or 1], [words[key] for key in scores], effects
            ),
            *(
                _listed("Least important", least, [words[key] for key in scores], effects)
                if few
                else ()
            ),
            *causal_gates_blocks(record.causal_gates),
            *_sites(record),
            *_layers(record),
            *_agreement(record),
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
    title: str, rows: Sequence[HeadRow], scores: Sequence[ColumnEntry], effects: Sequence[Effect]
) -> Iterator[Block]:
    """The heads at one end, with every score; columns that no head has a number in are left out."""
    headers = ["head", scores[0].label, "95 % interval", "p, corrected"]
    shown = [
        True,
        True,
        any(math.isfinite(each.low) for each in effects),
        any(math.isfinite(each.p) for each in effects),
    ]
    cells = []
    for row in rows:
        effect = effect_of(row, scores[0].key)
        first = (row.head, numbers.effect(effect.delta), interval(effect) or numbers.UNKNOWN)
        own = (*first, numbers.probability(effect.p))
        others = (score.show(row.values[score.key]) for score in scores[1:])
        cells.append((*(cell for cell, keep in zip(own, shown, strict=True) if keep), *others))
    kept = [header for header, keep in zip(headers, shown, strict=True) if keep]
    yield Heading(title)
    yield Table.of([*kept, *(score.label for score in scores[1:])], cells, title)


def _sites(record: ImportanceRecord) -> Iterator[Block]:
    if found := site_sentence(record):
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
    best = f", or all but its best one. {best_alone(record)}" if only else "."
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
    return numbers.effect(effect.delta), interval(effect) or numbers.UNKNOWN


def _agreement(record: ImportanceRecord) -> Iterator[Block]:
    """How alike every two scores rank the heads; nothing with fewer than two."""
    matrix = record.agreement
    if matrix is None or len(matrix.names) < 2:
        return
    title = "Do the scores agree?"
    yield Heading(title)
    yield Text(matrix.sentence, "lede")
    labels = [label(name, record.column_entries.values()) for name in matrix.names]
    rows = (
        (
            labels[row],
            *(
                _correlation(matrix.of(matrix.names[row], name)) if column < row else ""
                for column, name in enumerate(matrix.names[:-1])
            ),
        )
        for row in range(1, len(labels))
    )
    says = "Rank correlations between scores"
    yield Table.of(("score", *labels[:-1]), rows, says)
    yield Text("Spearman’s rank correlation over heads with its 95 % interval.")
    yield Chart("agreement", says, lambda: agreement_figure(record), is_detail=True)


def _correlation(found: Correlation) -> str:
    shown = numbers.correlation(found.rho)
    if not math.isfinite(found.rho):
        return shown
    return f"{shown} ({numbers.correlation(found.low)} to {numbers.correlation(found.high)})"


def _across(record: ImportanceRecord) -> Iterator[Block]:
    if record.across is not None:
        yield Heading("Do the effects hold on other data?")
        yield Text(record.across.sentence, "lede")


_SHORT = {"entropy": "entropy", "positional_share": "positional share"}
"""Short headings of scores."""

_NAMED = 5
"""Largest number of heads named in the figure."""


def importance_figure(record: ImportanceRecord | None, heads: Sequence[HeadRow]) -> Figure | None:
    """All heads, the most important on the left, with intervals; None if not measured."""
    scores = [] if record is None else scores_of(heads, record.column_entries.values())
    if record is None or not scores:
        return None
    rows = ranked(heads, scores[0])
    effects = [effect_of(row, scores[0]) for row in rows]
    sites = [site for site in dict.fromkeys(row.site for row in heads)]
    figure = new_figure(6.6, 2.6)
    axes = figure.subplots()
    axes.axhline(0, color=MUTED, linewidth=0.6, zorder=0)
    for site in sites:
        _dots(axes, [(x, each) for x, each in enumerate(effects) if each.site == site], site)
    for x, effect in _apart(effects):
        axes.annotate(
            effect.head,
            (x, effect.delta),
            (5, 0),
            textcoords="offset points",
            size=7.5,
            color=MUTED,
            va="center",
        )
    axes.set_xlim(-1, len(rows))
    axes.set_xlabel(f"{amount(len(rows), 'head')}, the most important first")
    axes.set_ylabel(_title(record, scores[0]))
    if len(sites) > 1:
        axes.legend(loc="upper right")
    return figure


def agreement_figure(record: ImportanceRecord | None) -> Figure | None:
    """Rank correlations between scores; None with fewer than two."""
    matrix = None if record is None else record.agreement
    if record is None or matrix is None or len(matrix.names) < 2:
        return None
    size = len(matrix.names)
    below = np.tril(np.ones((size, size), dtype=bool), -1)[1:, :-1]
    rho_SS = np.array(matrix.rho)[1:, :-1]
    rho = np.ma.masked_where(~below | ~np.isfinite(rho_SS), rho_SS)
    figure = new_figure(0.62 * size + 1.6, 0.4 * size + 1.1)
    axes = figure.subplots()
    axes.imshow(rho, cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto")
    for row, column in zip(*np.nonzero(below), strict=True):
        value = matrix.rho[row + 1][column]
        axes.text(
            column,
            row,
            numbers.correlation(value),
            ha="center",
            va="center",
            size=7.5,
            color="white" if abs(value) > 0.75 else ON_MARK,
        )
    labels = [label(name, record.column_entries.values()) for name in matrix.names]
    axes.set_xticks(range(size - 1), labels[:-1], rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size - 1), labels[1:])
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_title("Spearman's rank correlation over heads")
    return figure


def _apart(effects: list[Effect]) -> list[tuple[int, Effect]]:
    """The first heads, up to where their names would overlap."""
    drawn = [end for each in effects for end in (each.low, each.delta, each.high)]
    room = 0.06 * (np.nanmax(drawn) - np.nanmin(drawn))
    gaps = [above.delta - below.delta for above, below in pairwise(effects[: _NAMED + 1])]
    named = next((place for place, gap in enumerate(gaps) if gap < room), len(gaps))
    return list(enumerate(effects[:named]))


def _dots(axes: Axes, places: list[tuple[int, Effect]], site: str) -> None:
    """Draw the heads of one site; a hollow dot is an effect that may be chance."""
    colour = SITE_COLOURS.get(site, INK)
    x, y = [place for place, _ in places], [effect.delta for _, effect in places]
    tested = [(place, each) for place, each in places if math.isfinite(each.low)]
    lows, highs = [each.low for _, each in tested], [each.high for _, each in tested]
    axes.vlines([n for n, _ in tested], lows, highs, color=colour, linewidth=0.8, alpha=0.45)
    faces = [PAPER if effect.p >= SURE else colour for _, effect in places]
    marks = axes.scatter(x, y, s=11, c=faces, edgecolors=colour, linewidths=0.7, zorder=3)
    each = [effect for _, effect in places]
    say(marks, map(said, each), [effect.head for effect in each])
    axes.scatter([], [], s=11, color=colour, label=SITE_TITLES.get(site, site))


def label(name: str, stored: Iterable[ColumnEntry] = ()) -> str:
    """The short heading for a column of the table of heads."""
    if name in _SHORT:
        return _SHORT[name]
    words = known(stored)
    return words[name].label if name in words else name.replace("_", " ")


def _title(found: ImportanceRecord, score: str) -> str:
    if score == "ablation_delta":
        return found.effect
    return known(found.column_entries.values())[score].label


def worth_shown(run: Analysis) -> Document | None:
    """What heads are worth; None without an assessment."""
    if run.importance is None:
        return None
    return document_of(Assessment(run.importance, run.heads))
