"""The style and saving of figures: text stays text, and a run always gives the same bytes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.figure import Figure
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


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches, without pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


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
    columns = min(in_a_row, number)
    rows = -(-number // columns)
    figure = new_figure(size[0] * columns + room[0], size[1] * rows + room[1])
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
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


_SIGN = "\ufffd"
"""Sign of a control character, which the font of figures has."""


def save(figure: Figure, path: Path) -> Path:
    """Save atomically, in the format of the file's suffix, without a date inside.

    Control characters of texts are drawn as signs. What killed processes left of this figure is
    removed.
    """
    kind = path.suffix[1:]
    _make_visible(figure)

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
