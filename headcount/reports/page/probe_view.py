"""What the page shows of probes: what the heads know together, and what each adds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.reports import numbers
from headcount.reports.page.section import Section
from headcount.results import Analysis, Probed, ProbeRow

PROBE_TITLES = {
    "attention": "heads of words, from attention",
    "words": "heads of words, from attention and word vectors",
    "edges": "pairs of words, from attention",
    "structure": "trees, from hidden states",
    "layers": "tags and relations, from hidden states",
}
VARIANT_TITLES = {
    "trained": "trained model",
    "random-init": "random weights",
    "distances": "distances for attention",
    "random-labels": "random labels",
    "majority": "most frequent class",
    "next-word": "next word",
    "offset": "best fixed offset",
    "scalar-mix": "mix of all hidden states",
}
METRIC_TITLES = {
    "uas": "right head (UAS)",
    "las": "right head and relation (LAS)",
    "uas-tree": "UAS, best tree",
    "las-tree": "LAS, best tree",
    "edge-accuracy": "arc or none",
    "edge-accuracy-selectivity": "arc or none, less random labels",
    "relation-accuracy": "which relation",
    "relation-accuracy-selectivity": "which relation, less random labels",
    "uuas": "edges of trees (UUAS)",
    "spearman-distance": "rank correlation of distances",
    "spearman-depth": "rank correlation of depths",
    "root": "root",
    "tag-accuracy": "part of speech",
}
_SHOWN_HEADS = 8


@final
@dataclass(frozen=True)
class ProbeNumber:
    """One line of the table of a probe."""

    variant: str
    metric: str
    value: str
    interval: str


@final
@dataclass(frozen=True)
class ProbeSection:
    """The numbers of one probe."""

    title: str
    rows: tuple[ProbeNumber, ...]


@final
@dataclass(frozen=True)
class ProbeHead:
    """What one head adds to the attention probe."""

    head: str
    from_dependent: str
    from_head: str
    contribution: str
    rank: str


@final
@dataclass(frozen=True)
class ProbesView:
    """The section of the page."""

    lede: str
    sections: tuple[ProbeSection, ...]
    heads: tuple[ProbeHead, ...]
    """The heads that add most, the most first."""


def section(run: Analysis) -> Section | None:
    """The section on probes; None if there are none."""
    view = probes_view(run.probes)
    title = "What the heads know together"
    return view and Section("probes", title, "probes", "_probes.html.j2", view)


def probes_view(found: Probed | None) -> ProbesView | None:
    """The section on probes; None if there are none."""
    if found is None:
        return None
    return ProbesView(
        lede=_lede(found),
        sections=tuple(
            ProbeSection(title, tuple(map(_number, rows)))
            for name, title in PROBE_TITLES.items()
            if (rows := _shown(found, name))
        ),
        heads=tuple(probe_heads(found).values())[:_SHOWN_HEADS],
    )


def probe_heads(found: Probed | None) -> dict[str, ProbeHead]:
    """What each head adds to the attention probe, the most first."""
    weights = () if found is None else found.weights
    ordered = sorted(weights, key=lambda each: -each.contribution)
    total = numbers.count(len(ordered))
    return {
        each.head: ProbeHead(
            each.head,
            _signed(each.from_dependent),
            _signed(each.from_head),
            f"{_signed(each.contribution)} nats",
            f"{numbers.ordinal(place)} of {total}",
        )
        for place, each in enumerate(ordered, start=1)
    }


def _lede(found: Probed) -> str:
    record = found.record
    sizes = (
        f"Probes were trained on {numbers.count(record.train_sentences)} sentences and measured on "
        f"{numbers.count(record.test_sentences)} others."
    )
    own = found.find(probe="attention", variant="trained", metric="uas")
    base = found.find(probe="attention", variant="offset", metric="uas")
    if own is None or base is None:
        return sizes
    return (
        f"One weight for each head gives {numbers.percent(own.value)} of the words their right "
        f"head; the best fixed offset gives {numbers.percent(base.value)}. {sizes}"
    )


def _shown(found: Probed, name: str) -> Sequence[ProbeRow]:
    """The rows over all relations; of structural probes, those of the first rank."""
    rows = [row for row in found.rows if row.probe == name and row.relation == "all"]
    rank = rows[0].rank if rows else None
    return [row for row in rows if row.metric in METRIC_TITLES and row.rank == rank]


def _number(row: ProbeRow) -> ProbeNumber:
    place = "" if row.layer is None else f", hidden state {row.layer}"
    return ProbeNumber(
        VARIANT_TITLES.get(row.variant, row.variant) + place,
        METRIC_TITLES[row.metric],
        f"{100 * row.value:.1f} %",
        f"{100 * row.low:.1f} to {100 * row.high:.1f} %",
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
