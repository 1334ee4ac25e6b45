"""What an explanation shows of positions: a map of the best heads by token."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from headcount.core import Block, Chart, Heading, Table, Text, new_figure, say, sorted_by
from headcount.explanation.result import Explained, PositionRow
from headcount.explanation.together_document import words_of
from headcount.numbers import within
from headcount.pages import DIVERGING
from headcount.results import select


def position_blocks(found: Explained) -> Iterator[Block]:
    """A map for each effect, and the token at which each head matters most."""
    if not found.positions:
        return
    yield Heading("Heads at each token")
    several = len(found.prompts) > 1
    yield Text(
        "Each of these heads is replaced at one token alone. Tokens are counted from the end of "
        f"the prompt{', and named where most prompts have the same word' if several else ''}."
    )
    for effect in dict.fromkeys(row.effect for row in found.positions):
        rows, label = select(found.positions, effect=effect), words_of(found, effect).label
        yield Chart(
            f"positions-{effect}",
            f"Effect “{label}” of the best heads at each token",
            lambda rows=rows, label=label: _position_map(rows, label),
        )
        yield _table(found, rows, label)


def _table(found: Explained, rows: Sequence[PositionRow], label: str) -> Table:
    """The token at which each head has its largest effect, beside its effect at all tokens."""

    def cells(head: str) -> Iterator[str]:
        best = sorted_by(select(rows, head=head), lambda row: abs(row.value), descending=True)[0]
        whole = found.of(best.effect)[head]
        yield from (head, _name(best), within(best.value, best.low, best.high))
        yield within(whole.value, whole.low, whole.high)

    heads = dict.fromkeys(row.head for row in rows)
    return Table.of(
        ("head", "largest at", label, "at all tokens"),
        (tuple(cells(head)) for head in heads),
        f"Where heads matter most: {label}",
    )


def _name(row: PositionRow) -> str:
    return f"{row.token or 'token'} ({row.place})".replace("-", "−")


def _position_map(rows: Sequence[PositionRow], label: str) -> Figure:
    """Heads x tokens."""
    heads = [*dict.fromkeys(row.head for row in rows)]
    places = [*dict.fromkeys(row.place for row in rows)]
    grid = np.array([row.value for row in rows]).reshape(len(heads), len(places))
    most = float(np.abs(grid).max()) or 1.0
    figure = new_figure(min(5.8, 0.24 * len(places) + 1.8), 0.2 * len(heads) + 1.3)
    axes = figure.subplots()
    image = axes.imshow(grid, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto")
    at = [(column, row) for row in range(len(heads)) for column in range(len(places))]
    say(
        axes.scatter(*np.array(at).T, s=40, alpha=0, marker="s", zorder=4),
        [f"{row.head} at {_name(row)}: {within(row.value, row.low, row.high)}" for row in rows],
    )
    named = [row for row in rows if row.head == heads[0]]
    axes.set_xticks(range(len(places)), [row.token or f"−{-row.place}" for row in named])
    axes.tick_params(axis="x", rotation=90, length=0)
    axes.set_yticks(range(len(heads)), heads)
    axes.tick_params(axis="y", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
    bar.set_label(f"{label}, nats")
    return figure
