"""The view model as one self-contained HTML page."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headcount.core import write_text
from headcount.reports.documents.chance import NO_ROLE
from headcount.reports.documents.kept import NEITHER
from headcount.reports.page.assets import fill_template
from headcount.reports.page.card_view import Card
from headcount.reports.page.view import Report, report_view
from headcount.results import read_run
from headcount.vocabulary import RoleEntry, TraitEntry, kind_of_role

STYLES = (
    "base.css",
    "grid.css",
    "card.css",
    "sections.css",
    "contents.css",
    "kept.css",
)
SCRIPTS = (
    "elements.js",
    "rove.js",
    "grid.js",
    "kept.js",
    "sentence.js",
    "image.js",
    "card.js",
    "table.js",
    "download.js",
    "map_figure.js",
    "search.js",
    "main.js",
)

CARD_SCRIPTS = (
    "elements.js",
    "rove.js",
    "grid.js",
    "sentence.js",
    "image.js",
    "card.js",
    "card_page.js",
)


def render(report: Report) -> str:
    """The page as a string."""
    return fill_template(
        "report.html.j2",
        styles=STYLES,
        scripts=SCRIPTS,
        data=page_data(report),
        title=report.title,
        report=report,
        sections=report.sections,
        heads=frozenset(report.heads),
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
        styles=STYLES,
        scripts=CARD_SCRIPTS,
        data=data | {"heads": [head], "cards": {head: card}, "kept": []},
        title=f"{head} · {report.title}",
        model=report.title,
    )


def page_data(report: Report) -> dict[str, Any]:
    """The data for the scripts: kinds, maps and cards; heads that show one image share it."""
    cards = {card.head: _card_data(card) for card in report.cards}
    pictures: dict[str, int] = {}
    for example in (each for card in cards.values() for each in card["examples"]):
        if "image" in example:
            example["image"] = pictures.setdefault(example["image"], len(pictures))
    return {
        "title": report.title,
        "heads": report.heads,
        "kinds": {
            kind.key: {
                "letter": kind.letter,
                "label": kind.label,
                "colour": kind.role.colour,
                "ink": kind.role.ink,
                "words": kind.words,
            }
            for kind in (*map(kind_of_role, report.roles.values()), *report.kinds.values())
        },
        "kept": [asdict(choice) for choice in report.atlas.keepings],
        "maps": [asdict(shown) for shown in report.atlas.maps],
        "cards": cards,
        "pictures": [*pictures],
        "hasNull": bool(report.opening.by_chance),
        "absent": report.absent,
        "nothing": report.nothing[0],
        "nothingMore": report.nothing[1],
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


def _card_data(card: Card) -> dict[str, Any]:
    """The card; the maps already hold its numbers, so only those at random weights are added."""
    return asdict(card) | {"numbers": [number.null_text for number in card.numbers]}


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
    write_text(path, render(report_view(run)))
    return path
