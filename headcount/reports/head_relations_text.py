"""Documents on distances between heads, links between words, and antecedents; their figures."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headcount.core import (
    FORMATS,
    Head,
    amount,
    code,
    literal,
    styled,
    table,
    write_document,
)
from headcount.reports.figures.head_relations import (
    alignment_figures,
    cluster_figures,
    coreference_figures,
)
from headcount.results import (
    Alignment,
    ChosenHead,
    Clusters,
    Coreference,
    CoreferenceRow,
    LayerTest,
    NameRow,
)

SHOWN = 10
"""Number of heads, pairs and groups in a table."""


def write_clusters_document(
    found: Clusters,
    folder: Path,
    formats: Sequence[str] = FORMATS,
    roles: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write `clusters.md` and the figures into a folder; returns the document's path.

    Args:
        found: the clusters.
        folder: the folder.
        formats: formats of the figures.
        roles: roles by head, the main one first, which colour the map; None colours by layer.
    """
    with styled():
        path, text = folder / "clusters.md", clusters_document(found)
        return write_document(path, text, cluster_figures(found, roles), formats)


def write_alignment_document(
    found: Alignment, folder: Path, formats: Sequence[str] = FORMATS
) -> Path:
    """Write `alignment.md` and the figure into a folder; returns the document's path."""
    with styled():
        path, text = folder / "alignment.md", alignment_document(found)
        return write_document(path, text, alignment_figures(found), formats)


def write_coreference_document(
    found: Coreference, folder: Path, formats: Sequence[str] = FORMATS
) -> Path:
    """Write `coreference.md` and the figures into a folder; returns the document's path."""
    with styled():
        path, text = folder / "coreference.md", coreference_document(found)
        return write_document(path, text, coreference_figures(found), formats)


def clusters_document(found: Clusters) -> str:
    """The nearest heads, the groups, and the test of the layers."""
    record, groups = found.record, [group for group in found.groups if len(group) > 1]
    nearest = found.distances.nsmallest(SHOWN, "distance").to_dict("records")
    pairs = [[row["head_a"], row["head_b"], f"{row['distance']:.3f}"] for row in nearest]
    groups.sort(key=len, reverse=True)
    parts = [
        "# Heads that look at the same places",
        f"{literal(record.model)}: {amount(len(found.places), 'head')} on "
        f"{amount(record.sentences, 'sentence')}. A distance is the mean Jensen-Shannon divergence "
        "of two heads' weights per query, from 0 to 0.69 nats.",
        *map(layers_sentence, record.tests),
        "## Nearest heads",
        table(["head", "head", "nats"], pairs),
        f"## Groups: heads at most {record.within} nats apart",
        groups_sentence(found),
        table(
            ["heads", "layers", "names"],
            [[str(len(each)), _layers(each), ", ".join(each)] for each in groups[:SHOWN]],
        )
        if groups
        else "",
    ]
    return _joined(parts, record.warnings, record.signature)


def layers_sentence(test: LayerTest) -> str:
    """What a test of the layers found."""
    if test.p != test.p:
        return f"{test.site}: there is one layer only, or one head in each layer."
    is_near = test.p <= 0.05 and test.same_layer < test.other_layers
    return (
        f"{test.site}: heads of one layer are {test.same_layer:.3f} nats apart, heads of different "
        f"layers {test.other_layers:.3f}. Heads of one layer are "
        f"{'nearer to each other' if is_near else 'not clearly nearer'} (p = {test.p:.2g}, "
        f"{amount(test.permutations, 'permutation')})."
    )


def groups_sentence(found: Clusters) -> str:
    """The number of groups, of heads in them, and of heads on their own."""
    groups = [group for group in found.groups if len(group) > 1]
    heads = sum(map(len, groups))
    alone = len(found.places) - heads
    return (
        f"{amount(heads, 'head')} in {amount(len(groups), 'group')} of two or more; "
        f"{amount(alone, 'head')} without a near one."
    )


def _layers(heads: Sequence[str]) -> str:
    return ", ".join(map(str, sorted({Head.parse(head).layer for head in heads})))


def alignment_document(found: Alignment) -> str:
    """The heads and layers with the lowest error rates."""
    record = found.record
    headers = ["", "read from", "direction", "AER", "95 %", "precision", "recall", "accuracy"]
    rows = []
    for level, number in (("aligner", SHOWN), ("head", SHOWN), ("layer", 3)):
        norms = found.ranked(level, "norms") if level != "aligner" else ()
        of_level = [*found.ranked(level), *norms]
        for row in sorted(of_level, key=lambda row: row.aer)[:number]:
            scores = (row.precision, row.recall, row.accuracy)
            rows.append(
                [
                    row.head,
                    row.quantity,
                    row.direction,
                    f"{row.aer:.3f}",
                    f"{row.aer_low:.3f} to {row.aer_high:.3f}",
                    *(f"{score:.3f}" for score in scores),
                ]
            )
    parts = [
        "# Word alignment by heads",
        f"{literal(record.model)}: {amount(record.pairs, 'pair')} with {record.sure:,} sure and "
        f"{amount(record.possible, 'possible link')} ({record.gold}). AER is the alignment error "
        "rate; "
        "lower is better.",
        best_aligner(found),
        table(headers, rows),
        *record.sentences,
    ]
    return _joined(parts, record.warnings, record.signature)


def best_aligner(found: Alignment) -> str:
    """The head with the lowest error rate, and the next one."""
    ranked = found.ranked()
    if not ranked:
        return ""
    first = ranked[0]
    text = (
        f"By its weights {first.head} links words best ({first.direction}): its error rate is "
        f"{first.aer:.3f} ({first.aer_low:.3f} to {first.aer_high:.3f})"
    )
    return (
        f"{text}; the next is {ranked[1].head} with {ranked[1].aer:.3f}."
        if ranked[1:]
        else f"{text}."
    )


def coreference_document(found: Coreference) -> str:
    """The best heads for each kind of mention beside baselines."""
    record = found.record
    numbers = ["accuracy", "95 %", "cases", "nearest", "head match", "rules"]
    parts = [
        "# Heads that point at antecedents",
        f"{literal(record.model)}: {amount(record.cases, 'mention')} of "
        f"{amount(record.documents, 'document')} with an antecedent in a window of at most "
        f"{amount(record.window, 'token')}.",
        coreference_sentence(found),
        "## Best head of one half of the documents, measured on the other half",
        table(
            ["mentions", "head", *numbers],
            [[each.kind, each.head, *cells(each)] for each in record.best],
        )
        if record.best
        else "Too few documents for two halves with such mentions.",
        *_names(record.best_names),
        "## Heads with the highest accuracy on all documents",
        table(["head", *numbers], [[row.head, *cells(row)] for row in found.ranked()[:SHOWN]]),
    ]
    return _joined(parts, record.warnings, record.signature)


def _names(best: Sequence[NameRow]) -> list[str]:
    """The part on GAP's questions; empty for other corpora."""
    if not best:
        return []
    headers = ["pronouns", "head", "F1", "95 %", "accuracy", "passages", "F1 of the nearest name"]
    rows = [[row.gender, row.head, *name_cells(row)] for row in best]
    return [
        "## Which of two names a pronoun means (GAP)",
        "The head is the one with the highest F1 on one half of the passages; the numbers are "
        "those of the other half.",
        table(headers, rows),
    ]


def name_cells(row: NameRow) -> list[str]:
    """F1, interval, accuracy, passages and the baseline as text."""
    interval = f"{row.low:.3f} to {row.high:.3f}"
    passages = f"{row.passages:,}"
    return [f"{row.f1:.3f}", interval, f"{row.accuracy:.3f}", passages, f"{row.nearest:.3f}"]


def coreference_sentence(found: Coreference) -> str:
    """How the best head compares with its baselines; empty without two halves."""
    best = next((each for each in found.record.best if each.kind == "all"), None)
    if best is None:
        return ""
    if found.record.single == found.record.cases:
        return "Every mention has one candidate only, so every choice is right."
    below = [name for name, value in baselines(best) if best.low > value]
    above = [name for name, value in baselines(best) if best.high < value]
    said = [f"above {_listed(below)}"] * bool(below) + [f"below {_listed(above)}"] * bool(above)
    return (
        f"{best.head} points at an antecedent of {100 * best.accuracy:.1f} % of the mentions "
        f"({100 * best.low:.1f} to {100 * best.high:.1f}), "
        f"{' and '.join(said) or 'as often as baselines do'}."
    )


def baselines(each: ChosenHead | CoreferenceRow) -> list[tuple[str, float]]:
    """The baselines by name."""
    return [
        ("the nearest mention", each.nearest),
        ("head match", each.head_match),
        ("rules", each.rules),
    ]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def cells(each: ChosenHead | CoreferenceRow) -> list[str]:
    """Accuracy, interval, cases and baselines as text."""
    return [
        f"{each.accuracy:.3f}",
        f"{each.low:.3f} to {each.high:.3f}",
        f"{each.cases:,}",
        *(f"{value:.3f}" for _, value in baselines(each)),
    ]


def _joined(parts: Iterable[str], warnings: Iterable[str], signature: str) -> str:
    more = [*(f"Warning: {each}." for each in warnings), code(str(signature))]
    return "\n\n".join([part for part in parts if part] + more) + "\n"
