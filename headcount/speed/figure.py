"""Figure: speedup by batch size, with its ceiling and the noise."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headcount.reports.figure_style import ACCENT, INK, LINE, MUTED, new_figure
from headcount.speed.case import Timing
from headcount.speed.comparison import Speed


def speed_figure(speed: Speed) -> Figure:
    """A figure with one row of panels per mode and one panel per length."""
    modes = list(dict.fromkeys(each.case.mode for each in speed.timings))
    lengths = sorted({each.case.length for each in speed.timings})
    figure = new_figure(max(5.2, 2.1 * len(lengths) + 0.6), 1.9 * len(modes) + 0.6)
    all_axes = figure.subplots(len(modes), len(lengths), sharey="row", squeeze=False)
    for row, mode in zip(all_axes, modes, strict=True):
        for axes, length in zip(row, lengths, strict=True):
            found = [each for each in speed.timings
                     if (each.case.mode, each.case.length) == (mode, length)]  # fmt: skip
            axes.set_visible(bool(found))
            if found:
                _panel(axes, found)
    handles, labels = all_axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    figure.supylabel("times as fast as the dense model", fontsize=8)
    return figure


def _panel(axes: Axes, timings: Sequence[Timing]) -> None:
    places = np.arange(len(timings))
    speedup, noise = [each.speedup for each in timings], [each.noise for each in timings]
    axes.axhline(1, color=LINE, linewidth=0.8, zorder=0)
    axes.vlines(places, [each.low for each in noise], [each.high for each in noise],
                color=LINE, linewidth=7, label="dense against itself")  # fmt: skip
    axes.hlines([each.ceiling for each in timings], places - 0.3, places + 0.3, color=INK,
                linewidth=1.2, label="ceiling by FLOPs")  # fmt: skip
    axes.vlines(places, [each.low for each in speedup], [each.high for each in speedup],
                color=ACCENT, linewidth=1.2)  # fmt: skip
    axes.scatter(places, [each.value for each in speedup], color=ACCENT, s=16, zorder=3,
                 label="measured, 95 % interval")  # fmt: skip
    case = timings[0].case
    added = f" + {case.new_tokens}" if case.new_tokens else ""
    axes.set_title(f"{case.mode}, {case.length}{added} tokens")
    axes.set_xticks(places, [str(each.case.batch) for each in timings])
    axes.set_xlim(-0.6, len(timings) - 0.4)
    axes.set_xlabel("batch", color=MUTED)
