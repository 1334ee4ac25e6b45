"""What an explanation of several prompts shows of all heads: a map of one effect."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from headcount.core import MUTED, SITES, Block, Chart, Head, new_figure, say
from headcount.explanation.result import EffectRow, Explained
from headcount.explanation.together_document import words_of
from headcount.numbers import within
from headcount.pages import DIVERGING
from headcount.statistics import ALPHA


def effect_maps(found: Explained) -> Iterator[Block]:
    """The map of each site by the first effect, and by that of the stable circuit."""
    if len(found.prompts) == 1:
        return  # its page draws the maps of the text
    for effect in dict.fromkeys((found.measured[0], found.record.stable or found.measured[0])):
        rows = [row for row in found.of(effect).values() if row.is_head]
        for site, prefix in SITES.items():
            here = [row for row in rows if row.part.startswith(f"{prefix}.")]
            if here:
                label = words_of(found, effect).label
                yield Chart(
                    f"effects-{effect}-{prefix}",
                    f"Effect “{label}” of every head ({site}); a dot is an effect beyond chance",
                    lambda here=here, label=label: effect_map(here, label),
                )


def effect_map(rows: Sequence[EffectRow], label: str) -> Figure:
    """Layers x heads: the mean effect over prompts; a dot where it is certain after correction."""
    heads = [Head.parse(row.part) for row in rows]
    grid = np.full((1 + max(h.index for h in heads), 1 + max(h.layer for h in heads)), np.nan)
    for head, row in zip(heads, rows, strict=True):
        grid[head.index, head.layer] = row.value
    most = float(np.nanmax(np.abs(grid))) or 1.0
    figure = new_figure(min(5.8, 0.2 * grid.shape[1] + 1.6), 0.18 * grid.shape[0] + 1.0)
    axes = figure.subplots()
    image = axes.imshow(np.ma.masked_invalid(grid), cmap=DIVERGING, vmin=-most, vmax=most)
    places = [(head.layer, head.index) for head in heads]
    is_sure = [row.p < ALPHA for row in rows]
    sure = [place for place, each in zip(places, is_sure, strict=True) if each]
    axes.scatter(*np.array(sure).reshape(-1, 2).T, s=4, color=MUTED, zorder=3)
    say(
        axes.scatter(*np.array(places).T, s=40, alpha=0, marker="s", zorder=4),
        [f"{row.part}: {within(row.value, row.low, row.high)}" for row in rows],
    )
    axes.set(xlabel="layer", ylabel="head")
    step = 1 + grid.shape[1] // 16
    axes.set_xticks(range(0, grid.shape[1], step))
    axes.set_yticks(range(grid.shape[0]))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
    bar.set_label(f"{label}, nats")
    return figure
