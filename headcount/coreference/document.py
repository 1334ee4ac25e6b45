"""What antecedent selection shows: the heads that point at antecedents, beside baselines."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from headcount import numbers
from headcount.core import (
    ACCENT,
    MUTED,
    Block,
    Chart,
    Document,
    Heading,
    Table,
    Text,
    amount,
    named_rows,
)
from headcount.coreference.result import ChosenHead, Coreference, CoreferenceRow, NameRow
from headcount.pages import Note, share_map
from headcount.vocabulary import CLARK

SHOWN = 10
"""Number of heads in the table of all documents."""
_HEADERS = ("head", "mentions", "accuracy", "95 %", "cases", "nearest", "head match", "rules")


def coreference_notes(found: Coreference) -> tuple[Note, ...]:
    """How antecedents are selected."""
    del found
    return (
        Note(
            "Antecedent selection",
            "Among the heads of the mentions before a mention, the one with the largest weight is "
            "right if it is the head of an antecedent. The best head is chosen on one half of the "
            "documents and measured on the other.",
            f"{CLARK}, section 4.3",
        ),
    )


def coreference_document(found: Coreference) -> Document:
    """The document of antecedent selection."""
    record = found.record
    best = Table.of(_HEADERS, map(_cells, record.best))
    few = Text("Too few documents for two halves with such mentions.")
    return Document(
        "Which heads point at antecedents",
        (
            Text(_sentence(found), "lede"),
            Text(
                f"{record.model}: {amount(record.cases, 'mention')} of "
                f"{amount(record.documents, 'document')} with an antecedent in a window of at most "
                f"{amount(record.window, 'token')}, in {amount(record.windows, 'window')}."
            ),
            Text(
                "Among the heads of the mentions before it, is the one with the largest weight the "
                "head of an antecedent? The baselines choose among the same mentions."
            ),
            Heading("Best head of one half of the documents, measured on the other half"),
            best if record.best else few,
            *_names(record.best_names),
            Heading("Highest accuracy on all documents"),
            Table.of(_HEADERS, map(_cells, found.ranked()[:SHOWN])),
            Chart(
                "coreference",
                "Accuracy of every head",
                lambda: coreference_map(found),
                is_detail=True,
            ),
            Chart(
                "coreference_kinds",
                "Accuracy of the best heads by kind of mention, beside baselines",
                lambda: coreference_kinds(found),
                is_detail=True,
            ),
        ),
    )


def _cells(each: ChosenHead | CoreferenceRow) -> list[str]:
    """The cells of a head: accuracy, interval, cases and baselines."""
    baselines = (each.nearest, each.head_match, each.rules)
    interval = numbers.ends(each.low, each.high, "{:.3f}".format)
    return [
        *(each.head, each.kind, f"{each.accuracy:.3f}", interval),
        *(f"{each.cases:,}", *(f"{number:.3f}" for number in baselines)),
    ]


def _names(best: Sequence[NameRow]) -> tuple[Block, ...]:
    """The part on GAP's questions; empty for other corpora."""
    if not best:
        return ()
    headers = ("head", "pronouns", "F1", "95 %", "accuracy", "passages", "F1 of the nearest name")
    rows = (
        (
            *(row.head, row.gender, f"{row.f1:.3f}"),
            numbers.ends(row.low, row.high, "{:.3f}".format),
            *(f"{row.accuracy:.3f}", f"{row.passages:,}", f"{row.nearest:.3f}"),
        )
        for row in best
    )
    chosen = (
        "The head is the one with the highest F1 on one half of the passages; the numbers are "
        "those of the other half."
    )
    title = Heading("Which of two names a pronoun means (GAP)")
    return (title, Text(chosen), Table.of(headers, rows))


def _sentence(found: Coreference) -> str:
    """How the best head compares with its baselines; empty without two halves."""
    best = next((each for each in found.record.best if each.kind == "all"), None)
    if best is None:
        return ""
    if found.record.single == found.record.cases:
        return "Every mention has one candidate only, so every choice is right."
    baselines = {
        "the nearest mention": best.nearest,
        "head match": best.head_match,
        "rules": best.rules,
    }
    below = [name for name, value in baselines.items() if best.low > value]
    above = [name for name, value in baselines.items() if best.high < value]
    ends = (("above", below), ("below", above))
    said = [f"{where} {numbers.listed(names)}" for where, names in ends if names]
    return (
        f"{best.head} points at an antecedent of {100 * best.accuracy:.1f} % of the mentions "
        f"({numbers.ends(100 * best.low, 100 * best.high, '{:.1f}'.format)}), "
        f"{' and '.join(said) or 'as often as baselines do'}."
    )


def coreference_map(coreference: Coreference) -> Figure:
    """Layers x heads, shaded by the share of antecedents that are right; the best is marked."""
    shares = {row.head: row.accuracy for row in coreference.ranked()}
    return share_map(shares, "share of mentions with a right antecedent", lambda s: f"{s:.3f}")


def coreference_kinds(coreference: Coreference) -> Figure | None:
    """The best head of half the documents on the other half, by kind of mention, and baselines."""
    best = coreference.record.best
    if not best:
        return None
    names = [f"{each.kind}: {each.head}\n{amount(each.cases, 'mention')}" for each in best]
    says = "share of mentions with a right antecedent, with its 95 % interval"
    figure, axes = named_rows(names, (5.4, 0.42), says)
    baselines = {
        "nearest": ("nearest", "v"),
        "head_match": ("head match", "s"),
        "rules": ("rules", "D"),
    }
    places = range(len(best))
    for field, (title, marker) in baselines.items():
        values = [getattr(each, field) for each in best]
        axes.plot(values, places, marker, ms=5, mfc="none", mec=MUTED, label=title)
    for place, each in enumerate(best):
        axes.plot([each.low, each.high], [place, place], color=ACCENT, linewidth=1.6)
    axes.plot([each.accuracy for each in best], places, "o", ms=5, color=ACCENT, label="best head")
    axes.set_xlim(0, 1.02)
    figure.legend(loc="outside upper right", ncols=4)
    return figure
