"""The view model, and a run, a card or a document as one self-contained HTML page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from headcount.core import Document, write_readable
from headcount.pages.assets import fill_template
from headcount.pages.attention_view import DRAWING_SCRIPTS, shared_pictures
from headcount.pages.card_view import Card, cards
from headcount.pages.kinds import NEITHER, NO_ROLE, Found, kinds_of, leading
from headcount.pages.map_view import Grid, Keeping, Legend, Map, grids, keepings, legend, maps
from headcount.pages.names import measures
from headcount.pages.opening import Opening, Start, opening, starts, title_of
from headcount.pages.sections import PageSection, heads_document, sections_of
from headcount.pages.sentences import absent, model_and_data, nothing_sentence, nothing_words
from headcount.results import Analysis, Record, Result, head_rows, read_run
from headcount.vocabulary import ROLES, TRAITS, RoleEntry, TraitEntry, kind_of_role, roles_named


@final
@dataclass(frozen=True)
class Atlas:
    """Everything that the map can show."""

    legend: Legend
    grids: tuple[Grid, ...]
    keepings: tuple[Keeping, ...]
    """Choices of heads."""
    maps: tuple[Map, ...]
    """Numbers of heads."""


def atlas(run: Analysis, found: Found) -> Atlas:
    """The map of a run.

    Args:
        run: the run.
        found: what leads each head.
    """
    return Atlas(legend(run, found), grids(run, found), keepings(run), maps(run))


@final
@dataclass(frozen=True)
class Report:
    """Everything the page shows."""

    title: str
    opening: Opening
    atlas: Atlas
    starts: tuple[Start, ...]
    """Heads worth a look."""
    cards: tuple[Card, ...]
    nothing: str
    """The words for a head that shows no role or tendency."""
    nothing_more: Mapping[str, str]
    """The sentence for such a head, by how the names of its site's heads begin."""
    absent: tuple[tuple[str, str], ...]
    """What no head does: the words that name it, and a sentence."""
    roles: Mapping[str, RoleEntry]
    kinds: Mapping[str, TraitEntry]
    """What leads heads, by key."""
    sections: tuple[PageSection, ...]
    """What stands below the map."""

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of all heads."""
        return tuple(card.head for card in self.cards)

    @property
    def has_worth(self) -> bool:
        """Whether cards say what heads are worth."""
        return any(card.worth for card in self.cards)


def report_view(run: Analysis, sections: Sequence[PageSection] | None = None) -> Report:
    """The view model of a run.

    Args:
        run: the run.
        sections: what stands below the map; by default everything that the run holds.
    """
    found = leading(run)
    roles = (name for row in (*run.rows, *(run.null_rows or ())) for name in row.roles)
    return Report(
        title=title_of(run),
        opening=opening(run, found),
        atlas=atlas(run, found),
        starts=starts(run, found),
        cards=cards(run),
        nothing=nothing_words(run),
        nothing_more={
            row.head.partition(".")[0]: nothing_sentence(run, row.site) for row in run.rows
        },
        absent=absent(run),
        roles=roles_named(roles),
        kinds={kind.key: kind for kind in kinds_of(run)},
        sections=sections_of(run) if sections is None else tuple(sections),
    )


MANY = 400
"""Number of heads above which the page's script makes their table, when it is opened."""

PAGE_STYLES = ("base.css", "grid.css", "card.css", "sections.css", "contents.css", "kept.css")
SCRIPTS = (
    "elements.js",
    "rove.js",
    "grid.js",
    "kept.js",
    *DRAWING_SCRIPTS,
    "card.js",
    "table.js",
    "download.js",
    "map_figure.js",
    "search.js",
    "main.js",
)

CARD_SCRIPTS = ("elements.js", "rove.js", "grid.js", *DRAWING_SCRIPTS, "card.js", "card_page.js")


def render(report: Report, many: int = MANY) -> str:
    """The page as a string.

    Args:
        report: what it shows.
        many: number of heads above which the page's script makes their table.
    """
    return fill_template(
        "report.html.j2",
        styles=PAGE_STYLES,
        scripts=SCRIPTS,
        data=page_data(report),
        title=report.title,
        report=report,
        sections=report.sections,
        heads=frozenset(report.heads),
        many=many,
        maps={shown.label: shown.key for shown in report.atlas.maps},
        swatches=swatches(report.kinds.values(), report.roles.values()),
    )


def render_card(report: Report, head: str) -> str:
    """The page of one head's card."""
    data = page_data(report)
    place = report.heads.index(head)
    for shown in data["maps"]:
        shown["values"], shown["texts"] = [shown["values"][place]], [shown["texts"][place]]
    card = data["cards"][head] | {"related": ()}
    return fill_template(
        "card_page.html.j2",
        styles=PAGE_STYLES,
        scripts=CARD_SCRIPTS,
        data=data | {"heads": [head], "cards": {head: card}, "kept": []},
        title=f"{head} · {report.title}",
        model=report.title,
    )


def page_data(report: Report) -> dict[str, Any]:
    """The data for the scripts: kinds, maps and cards; heads that show one picture share it."""
    cards = {card.head: asdict(card) for card in report.cards}
    pictures = shared_pictures(each for card in cards.values() for each in card["examples"])
    return {
        "title": report.title,
        "examples": report.opening.examples,
        "heads": report.heads,
        "kinds": kinds_data((*map(kind_of_role, report.roles.values()), *report.kinds.values())),
        "kept": [asdict(choice) for choice in report.atlas.keepings],
        "maps": [asdict(shown) for shown in report.atlas.maps],
        "cards": cards,
        "pictures": pictures,
        "hasNull": bool(report.opening.by_chance),
        "absent": report.absent,
        "nothing": report.nothing,
        "nothingMore": report.nothing_more,
    }


def kinds_data(kinds: Iterable[TraitEntry]) -> dict[str, dict[str, str]]:
    """How scripts draw kinds of heads, and find them by words."""
    return {
        kind.key: {
            "letter": kind.letter,
            "label": kind.label,
            "colour": kind.role.colour,
            "ink": kind.role.ink,
            "words": kind.words,
        }
        for kind in kinds
    }


def swatches(
    kinds: Iterable[TraitEntry], roles: Iterable[RoleEntry]
) -> Mapping[str, tuple[Any, str]]:
    """Role and letter of each name that has a swatch where it is a cell of a table."""
    return {
        **dict.fromkeys((NO_ROLE, NEITHER), (None, "")),
        **{role.name: (role, kind_of_role(role).letter) for role in roles},
        **{kind.label: (kind.role, kind.letter) for kind in kinds},
    }


def write_report(
    folder: str | Path,
    pruned: str | Path | None = None,
    confirming: str | Path | None = None,
) -> Path:
    """Read the results of a run folder and write `report.html` into it, atomically.

    Args:
        folder: folder of the run.
        pruned: folder of a model that was pruned from the run's model, to show before and after.
        confirming: folder of an analysis of the same model on other texts, to show which roles are
            found again.

    Raises:
        InputError: if a result file is missing or damaged, or the pruned model or the other
            analysis is of another model or was made in another way.
    """
    path = Path(folder) / "report.html"
    others = (None if each is None else Path(each) for each in (pruned, confirming))
    run = read_run(path.parent, *others)
    write_readable(path, render(report_view(run)))
    return path


def document_page(
    document: Document, found: Result[Any] | None = None, record: Record | None = None
) -> str:
    """The page of a document as a string.

    Args:
        document: what it shows.
        found: what was measured, whose record names the model and the data. Of tables of heads
            (`Result.of_heads`), the page shows every number of every head below.
        record: the record alone, of what is no result of tables.
    """
    record = found.record if found else record
    model, data = model_and_data(record) if record else ("", "")
    heads = found.of_heads if found else None
    rows = () if heads is None else head_rows(heads)
    columns = measures(rows[0].values, found.stored_columns) if found and rows else []
    return fill_template(
        "document.html.j2",
        styles=("base.css", "sections.css"),
        scripts=("elements.js", "table.js"),
        data={},
        title=document.title,
        by=record.COMMAND if record else "",
        model=model,
        data_names=data,
        document=document,
        sections=(PageSection("numbers", "", heads_document(rows, columns)),) if rows else (),
        swatches=swatches(TRAITS.values(), ROLES.values()),
    )


def write_documents(
    found: Result[Any],
    document: Document,
    folder: Path,
    formats: Sequence[str] = ("svg", "png", "pdf"),
) -> None:
    """Write the document of a result as Markdown, with its figures, and as a page.

    Args:
        found: the result.
        document: what it shows.
        folder: folder of the result.
        formats: formats of the figures.
    """
    document.write(folder / found.DOCUMENTS[0], formats)
    write_readable(folder / found.DOCUMENTS[1], document_page(document, found))
