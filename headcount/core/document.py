"""Documents: what a result shows, as blocks that every renderer prints with the same words.

A result says once what it shows; the terminal, Markdown, pages and CSV are renderings of it. Text
in blocks is plain: renderers escape what their format obeys.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from headcount.core.files import write_readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKUP = re.compile(r"[\\`*\[\]!|~$#{}]|(?<!\w)_|_(?!\w)|(?<=:/)/|(?<=www)\.|@")
"""What Markdown obeys within a line, links without brackets included."""
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def literal(text: str) -> str:
    r"""A name from outside on one line, shown as it is: no markup, HTML or link works.

    >>> literal("bert_base-cased"), literal("a\n# <b>[x](https://y)")
    ('bert_base-cased', 'a \\# &lt;b&gt;\\[x\\](https:/\\/y)')
    """
    line = _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(text.split()))
    return re.sub("[&<>]", lambda found: _HTML[found[0]], line)


def code(text: str) -> str:
    """A text as code on one line, between more backticks than it holds in a row.

    >>> code("a|b"), code("a`b")
    ('`a|b`', '``a`b``')
    """
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_number: Sequence[bool] | None = None,
) -> str:
    """A Markdown table with right-aligned numbers.

    Args:
        headers: names of the columns.
        rows: the cells.
        is_number: whether each column holds numbers; by default the first row's cells say it.

    >>> print(table(["layer", "here"], [["0", "−0.12"]]))
    |   layer |   here |
    |--------:|-------:|
    |       0 |  −0.12 |
    """
    from tabulate import tabulate  # only here: it takes longer than the help of all commands

    if is_number is None:
        is_number = [_numeric(cell) for cell in rows[0]] if rows else []
    align = ["right" if each else "left" for each in is_number] or None
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=align)


def _numeric(cell: str) -> bool:
    digits = cell.strip("*").lstrip("+−<").replace(".", "").replace(",", "").replace("–", "0")
    return digits.isdigit()


_NUMBER = re.compile(r"[<+\-−]?\d[\d.,e+\-−]*|–|nan")
_UNITS = {"to", "nats", "%", "of", "/", "ms"}


@final
@dataclass(frozen=True)
class Heading:
    """The title of what follows."""

    text: str
    level: Literal[2, 3] = 2
    """Whether it is a part of the document or of another part."""


@final
@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["lede", "hint"] = "hint"
    """Whether it is what a reader should know first."""


@final
@dataclass(frozen=True)
class Warned:
    """A sentence about what was left out or not measured."""

    text: str


@final
@dataclass(frozen=True)
class Code:
    """A signature or a command, in one line."""

    text: str
    is_signature: bool = False
    """Whether it is a signature, which a page says before it."""


@final
@dataclass(frozen=True)
class Table:
    """Rows of cells; a cell that is the name of a head links to its card where there is one."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    label: str = ""
    """What the rows are, for those who can't see the table, and where it is folded; by default
    the heading above says it."""
    is_detail: bool = False
    """Whether pages and Markdown fold it under its label."""
    abouts: tuple[str, ...] = ()
    """Meaning of each column, of a table that pages sort by any of them."""

    @classmethod
    def of(
        cls,
        headers: Iterable[str],
        rows: Iterable[Sequence[str]],
        label: str = "",
        is_detail: bool = False,
        abouts: Iterable[str] = (),
    ) -> "Table":
        """A table of any sequences."""
        return cls(tuple(headers), tuple(map(tuple, rows)), label, is_detail, tuple(abouts))

    @cached_property
    def is_number(self) -> tuple[bool, ...]:
        """Whether each column holds numbers only, with intervals, units and asterisks or empty.

        >>> Table(("head", "share", "of"), (("enc.0.1", "4 % (2 to 6)", "–"),), "").is_number
        (False, True, True)
        >>> Table(("change",), (("−2.00*",), ("0.4 (0.2 to 0.6)*",)), "significant").is_number
        (True,)
        """
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headers)
        return tuple(any(each) and all(map(_is_number, filter(None, each))) for each in columns)


@final
@dataclass(frozen=True)
class Chart:
    """A figure."""

    name: str
    """Name of its file."""
    says: str
    """What it shows, in a sentence."""
    draw: "Callable[[], Figure | None]"
    """Draws it, in the context `styled`; None if the result has no such numbers."""
    is_detail: bool = False
    """Whether it adds to what others show: a page folds it."""
    sound: bytes = b""
    """FLAC that a page plays below the figure; empty for none."""
    shrinks: bool = False
    """Whether a page shrinks it to a narrow screen, instead of scrolling it."""

    @cached_property
    def figure(self) -> "Figure | None":
        """The figure, drawn once for files and page; read it in the context `styled`."""
        return self.draw()


@final
@dataclass(frozen=True)
class Facts:
    """What somebody who decides reads first: a word, and what it means, for each fact."""

    rows: tuple[tuple[str, str], ...]


@final
@dataclass(frozen=True)
class Listing:
    """Lines of Python to paste."""

    label: str
    """What they need, or do."""
    text: str


@final
@dataclass(frozen=True)
class Bar:
    """A share of a whole, from 0 to 1."""

    name: str
    share: float
    words: str
    """The share as a text."""
    low: float = nan
    high: float = nan
    """The ends of its interval; NaN for none."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval as far as they lie between 0 and 1; None without one."""
        if not isfinite(self.low) or not isfinite(self.high):
            return None
        return min(max(self.low, 0.0), 1.0), min(max(self.high, 0.0), 1.0)


@final
@dataclass(frozen=True)
class Bars:
    """How large some things are beside a whole: for each a bar from 0 to the whole."""

    label: str
    """What the whole is."""
    rows: tuple[Bar, ...]

    @property
    def text(self) -> str:
        """The bars as lines of characters, for a terminal."""
        width = max(len(each.name) for each in self.rows)
        lines = (f"{each.name:{width}} {drawn_bar(each.share)} {each.words}" for each in self.rows)
        return "\n".join((f"{self.label}:", *lines))


_PLACES = 30
"""Number of characters that a whole takes in a terminal."""


def drawn_bar(share: float) -> str:
    """A bar of characters, as long as the share; a share above 0 shows at least one.

    >>> drawn_bar(0.1), drawn_bar(0.001)
    ('███···························', '█·····························')
    """
    filled = min(max(round(share * _PLACES), share > 0), _PLACES)
    return "█" * filled + "·" * (_PLACES - filled)


Block = Heading | Text | Warned | Code | Table | Chart | Facts | Listing | Bars


@final
@dataclass(frozen=True)
class Document:
    """What a result shows."""

    title: str
    blocks: tuple[Block, ...]

    def ending(self, warnings: Iterable[str], signature: str) -> "Document":
        """The document, without empty paragraphs, and the warnings and signature of its result.

        Warnings that it begins with are not repeated.
        """
        blocks = [each for each in self.blocks if not isinstance(each, Text) or each.text]
        signed = [Code(signature, is_signature=True)] if signature else []
        left = [each for each in map(Warned, warnings) if each not in blocks]
        return replace(self, blocks=(*blocks, *left, *signed))

    def as_part(self) -> tuple[Block, ...]:
        """The blocks as a part of another document, under the title."""
        inner = (
            replace(each, level=3) if isinstance(each, Heading) else each for each in self.blocks
        )
        return (Heading(self.title), *inner)

    @property
    def charts(self) -> "dict[str, Callable[[], Figure | None]]":
        """What draws the figures, once, by the names of their files."""
        shown = (each for each in self.blocks if isinstance(each, Chart))
        return {each.name: partial(getattr, each, "figure") for each in shown}

    def markdown(self) -> str:
        """The document as Markdown, without its figures."""
        parts = [f"# {literal(self.title)}", *map(_markdown, self.blocks)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(
        self,
        path: Path,
        formats: Sequence[str] = ("svg", "png", "pdf"),
        figures: str = "figures",
    ) -> None:
        """Write the document as Markdown, with a link to each of its figures, and these.

        Figures of an earlier run without numbers now are removed.

        Args:
            path: its file.
            formats: formats of the figures, the linked one first.
            figures: folder of the figures beside the document; `.` for its own.
        """
        # Only here: documents are printed without matplotlib.
        from headcount.core.figure_style import save_all, styled

        with styled():
            drawn = {name: draw() for name, draw in self.charts.items()}
            save_all(drawn, path.parent / figures, formats)
        links = [
            f"\n![{name}]({(Path(figures) / f'{name}.{formats[0]}').as_posix()})\n"
            for name, figure in drawn.items()
            if figure is not None
        ]
        write_readable(path, "".join([self.markdown(), *links]))


def _markdown(block: Block) -> str:
    if isinstance(block, Table):
        rows = [[literal(cell) for cell in row] for row in block.rows]
        shown = table([literal(each) for each in block.headers], rows, block.is_number)
        summary = f"<details><summary>{literal(block.label)}</summary>"
        return f"{summary}\n\n{shown}\n\n</details>" if block.is_detail else shown
    if isinstance(block, Facts):
        return _markdown(Table(("in short", ""), block.rows))
    if isinstance(block, Bars):
        return f"```text\n{block.text}\n```"
    if isinstance(block, Listing):
        return f"{literal(block.label)}:\n```python\n{block.text}\n```"
    if isinstance(block, Heading):
        return f"{'#' * block.level} {literal(block.text)}"
    if isinstance(block, Warned):
        return f"Warning: {literal(block.text)}."
    if isinstance(block, Code):
        return code(block.text)
    return "" if isinstance(block, Chart) else literal(block.text)


def _is_number(cell: str) -> bool:
    words = re.sub(r"[()*]", " ", cell.replace("\u202f", " ")).split()
    return {*words} - _UNITS != set() and all(
        word in _UNITS or _NUMBER.fullmatch(word.rstrip("%")) for word in words
    )
