"""The style and saving of figures: text stays text, and a run always gives the same bytes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from headcount.core.files import remove_leftovers, write_atomically
from headcount.core.wording import HIDDEN

INK, MUTED, LINE, ACCENT = "#1b1f24", "#6b727a", "#dcd8d0", "#b34700"
PAPER = "#fffffe"
"""White inside a mark that is hollow: the colour of a page, also where it is dark."""
ON_MARK = "#101316"
"""Colour of text on a coloured mark, also where a page is dark and turns ink light."""
SITE_COLOURS = {
    "encoder.self": INK,
    "decoder.self": "#0072B2",
    "decoder.cross": "#D55E00",
    "vision.self": "#009E73",
}
SITE_MARKERS = {"encoder.self": "o", "decoder.self": "s", "decoder.cross": "^", "vision.self": "D"}

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same everywhere
    "font.size": 8.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "headcount",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}
"""Settings for drawing and saving figures; matplotlib's own settings are not changed."""

_NO_DATE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "png": {},
    "pdf": {"CreationDate": None},
}
FORMATS = tuple(_NO_DATE)


COLUMN = 3.3
"""Width in inches of one column of a paper."""
_TALLEST, _LEAST = 8.5, 0.95
"""Height in inches of a column, and of the smallest panel in it."""
_is_column: ContextVar[bool] = ContextVar("_is_column", default=False)


@contextmanager
def for_column() -> Iterator[None]:
    """Draw figures as wide as one column of a paper, their panels below each other."""
    before = _is_column.set(True)
    try:
        yield
    finally:
        _is_column.reset(before)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches, without pyplot; a column is no wider."""
    width = min(width, COLUMN) if _is_column.get() else width
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def grid_of(
    rows: int, columns: int, size: tuple[float, float], **shared: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of rows x columns panels; in a column they are below each other, row by row.

    Args:
        rows: number of rows.
        columns: number of panels side by side.
        size: width and height of the figure in inches.
        shared: what panels share, and the ratios of their widths, as for `subplots`.
    """
    if not _is_column.get():
        figure = new_figure(*size)
        return figure, figure.subplots(rows, columns, squeeze=False, **shared)
    number = rows * columns
    figure = new_figure(COLUMN, min(size[1] / rows * number, max(_TALLEST, _LEAST * number)))
    all_shared: dict[str, Any] = {axis: shared.get(axis) is True for axis in ("sharex", "sharey")}
    stacked = figure.subplots(number, 1, squeeze=False, **all_shared)
    return figure, stacked.reshape(rows, columns)


def panel_grid(
    number: int, in_a_row: int, size: tuple[float, float], room: tuple[float, float], **shared: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of small panels in rows, the last of which may be shorter.

    Args:
        number: number of panels.
        in_a_row: largest number of panels side by side.
        size: width and height of a panel in inches.
        room: width and height around all of them.
        shared: what panels share, as for `subplots`.
    """
    columns = 1 if _is_column.get() else min(in_a_row, number)
    rows = -(-number // columns)
    whole = (size[0] * columns + room[0], size[1] * rows + room[1])
    figure, grid = grid_of(rows, columns, whole, **shared)
    for axes in grid.flat[number:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:number])


def named_rows(names: Sequence[str], size: tuple[float, float], says: str) -> tuple[Figure, Axes]:
    """A figure of shares with a row for each name, the first on top.

    Args:
        names: names of the rows.
        size: width of the figure and height of a row in inches.
        says: what the shares are, below the axis.
    """
    figure = new_figure(size[0], size[1] * len(names) + 0.9)
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel(says)
    return figure, axes


def _fit(figure: Figure) -> None:
    """Wrap the texts of a column, and put its legends below the panels, or above a label there."""
    place: Any = f"outside {'upper' if figure.get_supxlabel() else 'lower'} center"
    for legend in [*figure.legends]:
        handles = [each for each in legend.legend_handles if each is not None]
        texts = [text.get_text() for text in legend.get_texts()]
        legend.remove()
        for columns in range(min(4, len(texts)), 0, -1):
            legend = figure.legend(handles, texts, loc=place, ncols=columns)
            if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
                break
            legend.remove()
    figure.draw_without_rendering()
    for axes in figure.axes:
        width, height = axes.bbox.width / figure.dpi, axes.bbox.height / figure.dpi
        axes.set_title(_wrapped(axes.get_title("left"), width), loc="left")
        axes.set_xlabel(_wrapped(axes.get_xlabel(), width))
        axes.set_ylabel(_wrapped(axes.get_ylabel(), height))
    figure.supxlabel(_wrapped(figure.get_supxlabel(), figure.get_figwidth()), fontsize=8)
    figure.supylabel(_wrapped(figure.get_supylabel(), figure.get_figheight()), fontsize=8)


def _wrapped(text: str, inches: float) -> str:
    """A text in lines that are about as long."""
    return "\n".join(wrap(text, max(8, int(inches / _LETTER)), break_long_words=False))


_LETTER = 0.068
"""Mean width in inches of a letter of 8 points."""
_SIGN = "\ufffd"
"""Sign of a control character, which the font of figures has."""


def save(figure: Figure, path: Path) -> Path:
    """Save atomically, in the format of the file's suffix, without a date inside.

    Control characters of texts are drawn as signs. What killed processes left of this figure is
    removed.
    """
    kind = path.suffix[1:]
    _make_visible(figure)
    if _is_column.get() and isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        _fit(figure)

    def write(file: Path) -> None:
        figure.savefig(file, format=kind, metadata=_NO_DATE[kind])
        figure.set_layout_engine("none")  # laid out once: all formats and the page are alike
        if kind == "svg":
            file.write_text(_finished(file.read_text(encoding="utf-8")), encoding="utf-8")

    remove_leftovers(path.parent, {path.name}.__contains__)
    write_atomically(path, write)
    return path


def svg_of(figure: Figure) -> str:
    """The figure as SVG, without a background or a date inside."""
    _make_visible(figure)
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata=_NO_DATE["svg"], transparent=True)
    return _finished(drawn.getvalue())


def say(marks: Collection, texts: Iterable[str], heads: Iterable[object] = ()) -> None:
    """Give marks texts that SVG shows under the pointer, and links to the cards of their heads.

    Args:
        marks: the marks, of which there is one for each text.
        texts: what each mark shows.
        heads: the head of each mark; without any, marks are no links.
    """
    each, links = list(texts), list(map(str, heads))
    links = links or [""] * len(each)
    marks.set_urls([f"#{link} {text}" for link, text in zip(links, each, strict=True)])


_SAID = re.compile(r'<a xlink:href="#(\S*) ([^"]+)"(?: target="_blank")?>(.*?)</a>', re.S)
"""A mark that says something."""


def _finished(svg: str) -> str:
    """The SVG with the texts of its marks as titles.

    Labels of ticks, which are made when it is drawn, lose their control characters.
    """

    def titled(found: re.Match[str]) -> str:
        head, text, mark = found.groups()
        tag, link = ("a", f' xlink:href="#{head}" target="_blank"') if head else ("g", "")
        return f"<{tag}{link}><title>{text}</title>{mark}</{tag}>"

    return _SAID.sub(titled, HIDDEN.sub(_SIGN, svg))


def _make_visible(figure: Figure) -> None:
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(HIDDEN.sub(_SIGN, text.get_text()))


def styled() -> Any:
    """The context for drawing figures in this style."""
    return matplotlib.rc_context(STYLE)  # pyright: ignore[reportArgumentType]


def save_all(
    figures: Mapping[str, Figure | None], folder: Path, formats: Sequence[str]
) -> list[Path]:
    """Save figures by their names, and remove those of an earlier run without numbers now.

    Args:
        figures: the figures; None for those without numbers.
        folder: their folder.
        formats: their formats.
    """
    paths = []
    for name, figure in figures.items():
        files = {kind: folder / f"{name}.{kind}" for kind in FORMATS}
        if figure is None:
            for file in files.values():
                file.unlink(missing_ok=True)
        else:
            paths += [save(figure, files[kind]) for kind in formats]
    return paths


def plain_grid(axes: Axes, rows: int, columns: int) -> None:
    """Set up the axes of a layers x heads map: integer ticks, no lines."""
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xticks(range(columns))
    axes.set_yticks(range(rows))
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
