"""What a sensitivity shows: attention and the loss's reaction to it, by layer and kind of token."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import ACCENT, INK, SITES, Chart, Document, Table, Text, amount, grid_of
from headcount.importance.sensitivity_result import KINDS, Sensitivity, SensitivityRow
from headcount.numbers import correlation, ends, percent, significant
from headcount.pages import SITE_TITLES, Note
from headcount.vocabulary import CLARK

_COLOURS: dict[str, str] = dict(zip(KINDS, (ACCENT, "#0072B2", "#009E73", INK), strict=True))
_MARKERS: dict[str, str] = dict(zip(KINDS, "osD^", strict=True))
_NAMES = {"attention": "mean attention of a query", "gradient": "mean |dL/dA|"}


def sensitivity_curves(found: Sensitivity) -> Figure:
    """By layer, attention to every kind of token above, the loss's reaction to it below."""
    sites = [site for site in SITES if any(row.site == site for row in found.rows)]
    figure, grid = grid_of(2, len(sites), (3.1 * len(sites) + 0.9, 4.4), sharex="col")
    for column, site in enumerate(sites):
        for axes, metric in zip(grid[:, column], _NAMES, strict=True):
            for kind in KINDS:
                _curve(axes, [row for row in found.layers(metric, kind) if row.site == site])
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if column == 0:
                axes.set_ylabel(_NAMES[metric])
        grid[0, column].set_title(SITE_TITLES.get(site, site))
        grid[1, column].set_xlabel("layer")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _curve(axes: Axes, rows: Sequence[SensitivityRow]) -> None:
    rows = [row for row in rows if row.cases and row.value == row.value]
    if not rows:
        return
    kind, layers = rows[0].kind, [row.layer for row in rows]
    colour = _COLOURS[kind]
    low, high = ([getattr(row, end) for row in rows] for end in ("low", "high"))
    axes.fill_between(layers, low, high, color=colour, alpha=0.2, linewidth=0)
    values = [row.value for row in rows]
    axes.plot(layers, values, _MARKERS[kind], ls="-", ms=4, lw=1.2, color=colour, label=kind)


def sensitivity_notes(found: Sensitivity) -> tuple[Note, ...]:
    """What a reaction is."""
    del found
    return (
        Note(
            "Reaction of the loss",
            "Mean size of the derivative of an example's loss by an attention weight, by kind of "
            "token.",
            f"{CLARK}, section 3.2",
        ),
    )


def sensitivity_document(found: Sensitivity) -> Document:
    """The document of a sensitivity."""
    record = found.record
    kinds = [kind for kind in KINDS if any(row.cases for row in found.layers("gradient", kind))]
    return Document(
        "How the loss reacts to attention",
        (
            Text(f"{record.task}: {amount(record.examples, 'example')}, loss {record.loss:.4g}."),
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
                    f"{SITE_TITLES.get(each.site, each.site)}, {each.kind}: over "
                    f"{amount(each.heads, 'head')}, attention correlates with |dL/dA| as a "
                    "share of that for other tokens: "
                    f"{correlation(each.spearman)} ({ends(each.low, each.high, correlation)}, "
                    "Spearman)."
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
            f"{percent(attention[number].value)}, {ratio[number].value:.2f}"
            for attention, ratio in parts
        )
        yield [f"{SITES[other.site]}.{other.layer}", *cells, significant(other.value)]
