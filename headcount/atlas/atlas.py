"""An atlas: a page for each run, and one page that searches the heads of all of them."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from headcount.atlas.result import About, AtlasFinding, AtlasHead, AtlasModel, AtlasRecord
from headcount.core import Block, Code, Document, InputError, Table, Text, write_readable
from headcount.pages import (
    PageSection,
    Report,
    fill_template,
    kinds_data,
    model_and_data,
    numbers_shown,
    render,
    report_view,
    scores_of,
)
from headcount.results import Analysis, read_run
from headcount.vocabulary import TraitEntry

PAGES = "runs"
"""Folder of the pages of runs."""


def write_atlas(
    folders: Sequence[Path], out: Path, pages: Mapping[Path, str] | None = None
) -> AtlasRecord:
    """Write the pages of some runs, a page that searches their heads, and `atlas.json`.

    Args:
        folders: folders of analyses, each of which may hold `about.json`.
        out: folder of the site.
        pages: addresses, relative to the site, of the pages of runs that have one already.

    Raises:
        InputError: If there is no folder, one is named twice, a file is missing or damaged, or the
            site would be written into a run.
    """
    if not folders or len({each.resolve() for each in folders}) < len(folders):
        got = "none" if not folders else "one twice"
        raise InputError(f"Expected folders of different runs, got {got}. Name each once.")
    if (out / "run.json").exists():
        raise InputError(f"Expected a folder for the atlas, got {out}, a run. Name another folder.")
    runs = [read_run(each) for each in folders]
    models, kinds, drawn = list[AtlasModel](), dict[str, TraitEntry](), pages or {}
    said = [About.read_if_any(each) for each in folders]
    for name, run, about, folder in zip(_names(runs, said), runs, said, folders, strict=True):
        report = _report(run, about)
        own = f"{PAGES}/{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.html"
        models.append(_model(name, drawn.get(folder, own), run, report, about))
        kinds |= report.kinds
        if folder not in drawn:
            write_readable(out / own, render(report, many=0))
    found = AtlasRecord(models=tuple(models))
    found.write(out)
    write_readable(out / "index.html", _page(found, kinds))
    return found


def _report(run: Analysis, about: About | None) -> Report:
    """The page of a run: map, cards, all numbers, and where model and texts are from."""
    sections = (
        PageSection("about", "about", _about(run, about)),
        PageSection("numbers", "all numbers", numbers_shown(run)),
    )
    report = report_view(run, sections)
    report = report if about is None else replace(report, title=about.model)
    known = {} if about is None else {each.head: each.sentence for each in about.known}
    cards = tuple(replace(card, known=known.get(card.head, "")) for card in report.cards)
    return replace(report, cards=cards)


def _about(run: Analysis, about: About | None) -> Document:
    """Where a model and its texts are from, which heads papers name, and the signature."""
    blocks: list[Block] = [Code(run.record.signature, is_signature=True)]
    if about is None:
        return Document("Model and texts", tuple(blocks))
    rows = [
        (each.head, each.does, each.paper, "found" if each.found else "not found", each.evidence)
        for each in about.known
    ]
    if rows:
        headers = ("head", "what it does", "says", "here", "measured")
        blocks.insert(0, Table.of(headers, rows, "Heads that papers name"))
    weights = Text(f"Weights: {about.source} ({about.licence}).")
    texts = Text(f"Texts: {about.texts} ({about.texts_licence}).")
    return Document("Model and texts", (weights, texts, *blocks))


def _names(runs: Sequence[Analysis], said: Sequence[About | None]) -> list[str]:
    """Names of runs that differ: the model's, with the texts' or a number where it repeats."""
    pairs = [model_and_data(run.record) for run in runs]
    pairs = [
        (model, data) if about is None else (about.model, about.texts)
        for (model, data), about in zip(pairs, said, strict=True)
    ]
    models = Counter(model for model, _ in pairs)
    names = [model if models[model] == 1 else f"{model} on {data}" for model, data in pairs]
    again, found = Counter[str](), list[str]()
    for name in names:
        again[name] += 1
        found.append(name if names.count(name) == 1 else f"{name} ({again[name]})")
    return found


def _model(name: str, page: str, run: Analysis, report: Report, about: About | None) -> AtlasModel:
    scores = scores_of(run.rows, run.stored_columns)
    last = {site: len(layers) - 1 for site, layers in run.record.sites.items()}
    return AtlasModel(
        name=name,
        page=page,
        model=run.record.model if about is None else about.model,
        model_type=run.record.model_type,
        corpora=run.record.corpora,
        signature=run.record.signature,
        about=about,
        headline=report.opening.headline,
        heads=tuple(
            AtlasHead(
                head=card.head,
                depth=row.layer / last[row.site] if last[row.site] else 0.0,
                roles=card.roles,
                known=card.known,
                findings=tuple(
                    AtlasFinding(each.kind, each.verdict, each.text) for each in card.findings
                ),
                skill=card.does,
                worth=card.without,
                scores={
                    each: row.values[each] for each in scores if math.isfinite(row.values[each])
                },
            )
            for row, card in zip(run.rows, report.cards, strict=True)
        ),
    )


def _page(found: AtlasRecord, kinds: Mapping[str, TraitEntry]) -> str:
    """The page that searches."""
    return fill_template(
        "atlas.html.j2",
        styles=("base.css", "sections.css", "atlas.css"),
        scripts=("elements.js", "atlas.js"),
        data={
            "kinds": kinds_data(kinds.values()),
            "starts": {key: kind.role.starts for key, kind in kinds.items()},
            "models": asdict(found)["models"],
        },
        package="headcount.atlas",
        title="Atlas of attention heads",
        models=found.models,
        num_models=len({each.model for each in found.models}),
        num_heads=f"{sum(len(each.heads) for each in _firsts(found.models)):,}",
    )


def _firsts(runs: Sequence[AtlasModel]) -> list[AtlasModel]:
    """The first run of every model: two runs have the same heads."""
    return [*{each.model: each for each in reversed(runs)}.values()]
