"""What a sensitivity shows: attention and the loss's reaction to it, by layer and kind of token."""

from collections.abc import Iterator

from headcount.core import SITES, Chart, Document, Table, Text, amount
from headcount.reports.figures.sensitivity import sensitivity_curves
from headcount.results import KINDS, Sensitivity


def sensitivity_document(found: Sensitivity) -> Document:
    """The document of a sensitivity."""
    record = found.record
    kinds = [kind for kind in KINDS if any(row.cases for row in found.layers("gradient", kind))]
    return Document(
        "How the loss reacts to attention",
        (
            Text(f"{record.task}: {amount(record.examples, 'example')}, loss {record.loss:.4g}"),
            Text(
                "|dL/dA| is how fast the loss L of an example changes with an attention weight A. "
                "By layer: the share of attention, then |dL/dA| divided by that for other tokens. "
                "Much attention with a small reaction suggests that it does nothing."
            ),
            Table.of(
                ("layer", *kinds, "|dL/dA|, other"),
                _rows(found, kinds),
                "Attention and reactions by layer",
            ),
            *(
                Text(
                    f"{each.site}, {each.kind}: over {amount(each.heads, 'head')}, attention "
                    "correlates with |dL/dA| as a share of that for other tokens: "
                    f"{each.spearman:.2f} ({each.low:.2f} to {each.high:.2f}, Spearman)"
                )
                for each in record.no_ops
            ),
            Chart(
                "sensitivity",
                "Attention to every kind of token by layer, and the loss's reaction to it",
                lambda: sensitivity_curves(found),
            ),
        ),
    )


def _rows(found: Sensitivity, kinds: list[str]) -> Iterator[list[str]]:
    """A row for each layer: for each kind the share of attention and the reaction."""
    parts = [(found.layers("attention", kind), found.layers("ratio", kind)) for kind in kinds]
    for number, other in enumerate(found.layers("gradient", "other")):
        cells = (
            f"{attention[number].value:.0%}, {ratio[number].value:.2f}"
            for attention, ratio in parts
        )
        yield [f"{SITES[other.site]}.{other.layer}", *cells, f"{other.value:.2e}"]
