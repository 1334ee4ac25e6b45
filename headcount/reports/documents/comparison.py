"""What a comparison of two runs shows: kinds of heads, relations, scores, and heads that differ."""

from collections import Counter
from collections.abc import Iterator, Mapping

from headcount import numbers
from headcount.core import Block, Chart, Code, Document, Heading, Table, Text, Warned
from headcount.reports.comparison import SKIPPED, Comparison
from headcount.reports.documents.kept import NEITHER
from headcount.reports.documents.matching import matching_document
from headcount.reports.figures.comparison import relation_shares, scatters, side_by_side
from headcount.reports.kinds import Leading, counted, leading
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.reports.pruning_order import order_document
from headcount.reports.relation_pairs import RelationPair, relation_pairs, share_interval
from headcount.results import Analysis, TraitStrength, signed
from headcount.vocabulary import relation_words

Names = tuple[str, str]
"""Names of the two runs."""
_CHARTS = ("relation_shares", "scatters")
"""Charts that not every comparison has."""
Found = Mapping[str, Leading | None]
"""What leads each head, by name."""


def comparison_document(
    one: Analysis, other: Analysis, found: Comparison, names: Names
) -> Document:
    """What a comparison of two runs shows."""
    draw = (lambda: side_by_side(one, other, names)) if found.is_paired else lambda: None
    parts = comparison_parts(one, other, found, names)
    drawn = {b.name for part in parts.values() for b in part.blocks if isinstance(b, Chart)}
    others = Text("The runs are over different heads, so nothing is compared head by head.")
    return Document(
        f"{names[0]} and {names[1]}",
        (
            *map(Warned, found.warnings),
            *(() if found.is_paired else (others,)),
            *(block for part in parts.values() for block in part.as_part()),
            Chart("comparison", "What leads every head, side by side", draw),
            # Files of an earlier comparison are removed.
            *(Chart(name, "", lambda: None) for name in _CHARTS if name not in drawn),
        ),
    )


def comparison_parts(
    one: Analysis, other: Analysis, found: Comparison, names: Names
) -> dict[str, Document]:
    """The parts of the document, in their order, by the ids of their sections on the page."""
    parts = {"kinds": Document("What heads do", (*_kinds(one, other, found, names),))}
    if pairs := relation_pairs(one, other):
        parts["relations"] = Document("Relations", (*_relations(pairs, names),))
    if found.is_paired:
        parts["scores"] = Document("Scores", (*_scores(one, other, found, names),))
        parts["differ"] = Document("Heads that differ", (*_differ(one, other, found, names),))
    if found.orders:
        parts["order"] = order_document(found.orders, names)
    if found.matching is not None:
        parts["matched"] = matching_document(found.matching)
    return parts | {"methods": Document("How it was measured", (*_methods(one, other, names),))}


def key_of(leads: Leading | None) -> str | None:
    """The kind that leads a head."""
    return leads.kind.key if leads else None


def _kinds(one: Analysis, other: Analysis, found: Comparison, names: Names) -> Iterator[Block]:
    """Number of heads that each kind leads, and with each role."""
    leads = leading(one), leading(other)
    counts = [Counter(map(key_of, its.values())) for its in leads]
    same = [head for head in leads[0] if key_of(leads[0][head]) == key_of(leads[1].get(head))]
    both = Counter(key_of(leads[0][head]) for head in same)
    kinds = [kind for kind, _ in counted([*leads[0].values(), *leads[1].values()])]
    rows = (
        (label, *(str(its[key]) for its in counts), *([str(both[key])] if found.is_paired else []))
        for label, key in [*((kind.label, kind.key) for kind in kinds), (NEITHER, None)]
    )
    headers = ("what leads them", *names, *(["the same heads"] if found.is_paired else []))
    yield Table.of(headers, rows, "Number of heads of each kind")
    title = "Heads by role"
    yield Heading(title)
    roles = (
        (SITE_TITLES.get(site, site), role, str(before), str(after))
        for site, its in found.counts.items()
        for role, (before, after) in its.items()
        if before or after
    )
    yield Table.of(("site", "role", *names), roles, "Number of heads with each role")


def _relations(pairs: tuple[RelationPair, ...], names: Names) -> Iterator[Block]:
    yield Text(
        "For each relation the head that one half of the corpus chose, measured on the other "
        "half, and the share that the best fixed position or the head’s own positions explain."
    )
    yield Chart("relation_shares", "Relations in both runs", lambda: relation_shares(pairs, names))
    each = ("head", "share (90 % interval)", "position")
    headers = ["relation", "meaning", *(f"{name}: {what}" for name in names for what in each)]
    rows = (
        (
            pair.relation,
            relation_words(pair.relation),
            *(cell for best in pair.best for cell in _best(best)),
            numbers.points(pair.change),
            "apart" if pair.apart else numbers.UNKNOWN,
        )
        for pair in pairs
    )
    yield Table.of([*headers, "points", "intervals"], rows, "Relations in both runs")


def _best(best: TraitStrength) -> tuple[str, ...]:
    low, high = map(numbers.percent, share_interval(best))
    share = f"{numbers.percent(best.share)} ({low} to {high})"
    return best.head, share, numbers.percent(best.null)


def _scores(one: Analysis, other: Analysis, found: Comparison, names: Names) -> Iterator[Block]:
    rows = list[tuple[str, ...]]()
    for name, over in found.by_head.items():
        if name not in SKIPPED and over.rho == over.rho:
            layers = found.by_layer[name].rho
            label = MEASURES[name].label if name in MEASURES else name.replace("_", " ")
            rows.append((label, str(over), signed(layers) if layers == layers else "–"))
    title = "Rank correlations (Spearman)"
    yield Heading(title)
    header = ("number", "head by head, 95 % interval", "means of layers")
    yield Table.of(header, rows, title)
    yield Text(
        "Models trained independently number their heads by chance: compare their layers, not "
        "their heads."
    )
    yield Chart("scatters", "Every head in both runs", lambda: scatters(one, other, names))


def _differ(one: Analysis, other: Analysis, found: Comparison, names: Names) -> Iterator[Block]:
    """Heads that other kinds lead, then heads with other roles."""
    leads = leading(one), leading(other)
    rows = [
        (head, *(f"{its.verdict}: {its.says}" if its else numbers.UNKNOWN for its in both))
        for head, both in ((head, (leads[0][head], leads[1][head])) for head in leads[0])
        if key_of(both[0]) != key_of(both[1])
    ]
    if rows:
        yield Table.of(("head", *names), rows, "What the heads that differ do")
    else:
        yield Text("None: every head does the same in both.", "lede")
    title = "Heads whose roles differ"
    yield Heading(title)
    changes = ((one.head, _named(one.before), _named(one.after)) for one in found.changes)
    if found.changes:
        yield Table.of(("head", *names), changes, title)
    have = "head has" if found.same_roles == 1 else "heads have"
    none = "" if found.changes else "None. "
    yield Text(f"{none}{found.same_roles:,} {have} the same roles in both.")


def _named(roles: tuple[str, ...]) -> str:
    return ", ".join(roles) or "none"


def _methods(one: Analysis, other: Analysis, names: Names) -> Iterator[Block]:
    yield Text(
        "A head does the same in both runs if the same kind of trait leads it. By chance means: if "
        "the kinds of each run were dealt to its heads at random (the expected agreement of "
        "Cohen’s kappa)."
    )
    title = "What sets the runs apart"
    facts = [_facts(run) for run in (one, other)]
    rows = [
        (name, *(its.get(name, "–") for its in facts))
        for name in dict.fromkeys((*facts[0], *facts[1]))
        if facts[0].get(name) != facts[1].get(name)
    ]
    if rows:
        yield Heading(title)
        yield Table.of(("fact", *names), rows, title)
    for name, run in zip(names, (one, other), strict=True):
        yield Heading(f"Signature of {name}")
        yield Code(run.record.signature)


def _facts(run: Analysis) -> dict[str, str]:
    """What can set a run apart: model, corpus, counts and versions."""
    return {
        "model": run.record.model,
        "corpus": ", ".join(run.record.corpora),
        f"{run.record.inputs.item}s": numbers.count(run.record.counts.sentences),
        "tokens": numbers.count(run.record.counts.tokens),
        **{f"version of {name}": value for name, value in run.record.versions.items()},
    }
