"""A comparison of two runs as a page: what their heads do, side by side; and its other files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

from headcount.compare.comparison import Comparison, compare
from headcount.compare.document import comparison_document, comparison_parts
from headcount.compare.matching import Matching
from headcount.compare.pairing import match_heads
from headcount.core import InputError, write_readable
from headcount.pages import (
    PAGE_STYLES,
    Found,
    Grid,
    PageSection,
    counted,
    fill_template,
    findings,
    grids,
    headline,
    key_of,
    kinds_data,
    kinds_of,
    leading,
    measured,
    only_second,
    swatches,
    without,
)
from headcount.results import Analysis, finding, read_run
from headcount.vocabulary import ROLES, TraitEntry

SHORT = {"differ": "heads that differ", "methods": "methods", "matched": "matched heads"}
"""Names in the contents list that are not the titles."""

SHOWN = 4
"""Largest number of findings of a head in each run."""


@final
@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    name: str
    headline: str
    measured: str
    grids: tuple[Grid, ...]


@final
@dataclass(frozen=True)
class HeadPair:
    """What one head does in each run, and what happens without it."""

    head: str
    same: bool
    kinds: tuple[str, str]
    """Keys of what leads it; empty for nothing."""
    does: tuple[tuple[str, ...], tuple[str, ...]]
    without: tuple[str, str]


@final
@dataclass(frozen=True)
class ComparisonView:
    """Everything that the page of a comparison shows."""

    title: str
    headline: str
    sides: tuple[Side, Side]
    kinds: Mapping[str, TraitEntry]
    legend: tuple[TraitEntry, ...]
    """Every kind whose letter the maps show."""
    pairs: tuple[HeadPair, ...]
    """Every head; empty if the runs are over different heads."""
    sections: tuple[PageSection, ...]
    """What stands below the maps."""
    is_one_model: bool = False
    """Whether both runs are of the same parameters."""
    warnings: tuple[str, ...] = ()
    """What makes numbers of the runs differ besides heads and data."""


def compare_view(
    one: Analysis,
    other: Analysis,
    found: Comparison,
    names: tuple[str, str],
) -> ComparisonView:
    """The view model of a comparison.

    Args:
        one: the first run.
        other: the second run.
        found: the comparison of the two.
        names: names of the runs.
    """
    runs, leads = (one, other), (leading(one), leading(other))
    both = [each for its in leads for each in its.values()]
    kinds = {kind.key: kind for run in runs for kind in kinds_of(run)}
    sides = [
        Side(name, headline([*its.values()]), measured(run.record), grids(run, its))
        for run, its, name in zip(runs, leads, names, strict=True)
    ]
    return ComparisonView(
        title=f"{names[0]} and {names[1]}",
        headline=found.headline,
        sides=(sides[0], sides[1]),
        kinds=kinds,
        legend=tuple(kind for kind, _ in (*counted(both), *only_second(both))),
        pairs=_pairs(runs, leads, found) if found.is_paired else (),
        sections=tuple(
            PageSection(key, SHORT.get(key, shown.title.lower()), shown)
            for key, shown in comparison_parts(one, other, found, names).items()
        ),
        is_one_model=found.is_one_model,
        warnings=found.warnings,
    )


def _pairs(
    runs: tuple[Analysis, Analysis], leads: tuple[Found, Found], found: Comparison
) -> tuple[HeadPair, ...]:
    rows = zip(runs[0].rows, runs[1].rows, strict=True)
    return tuple(
        HeadPair(
            a.head,
            a.head in found.same,
            (key_of(leads[0][a.head]) or "", key_of(leads[1][a.head]) or ""),
            (_does(runs[0], a.head, leads[0]), _does(runs[1], a.head, leads[1])),
            (without(runs[0], a), without(runs[1], b)),
        )
        for a, b in rows
    )


def _does(run: Analysis, head: str, found: Found) -> tuple[str, ...]:
    """Roles and tendencies of a head, what leads it first."""
    leads = found[head]
    if leads is None:
        return ()
    traits = findings((run.traits or {}).get(head, ()), run.roles[head])
    texts = [f"{leads.verdict}: {leads.says}"]
    texts += [f"{each.verdict}: {finding(each)}" for each in traits]
    return tuple(dict.fromkeys(texts))[:SHOWN]


STYLES = (*PAGE_STYLES, "compare.css")
SCRIPTS = ("elements.js", "rove.js", "table.js", "download.js", "compare.js")


def write_comparison(one: Path, other: Path, out: Path, match: bool = False) -> Comparison:
    """Compare the runs in two folders, and write the page, the document and the figure.

    The files are `comparison.html` and `comparison.md`; of runs over the same heads also
    `comparison.svg`, `.png` and `.pdf`; of matched heads `matching.json`.

    Args:
        one: folder of the first run.
        other: folder of the second run.
        out: folder for the comparison.
        match: whether to pair heads by what they do, for models trained apart.

    Raises:
        InputError: if a folder holds no run, or the output folder holds a run, whose files would be
            mixed with the comparison's; if runs were measured in different ways; or if heads
            can't be matched.
    """
    if (out / "run.json").exists():
        raise InputError(
            f"Expected a folder for the comparison, got {out}, which holds a run. "
            "Name another folder."
        )
    names = names_of(one, other)
    runs = (read_run(one), read_run(other))
    found = compare(*runs)
    if match:
        found = replace(found, matching=match_heads(*runs, names))
    out.mkdir(parents=True, exist_ok=True)
    (out / Matching.FILE).unlink(missing_ok=True)
    if found.matching is not None:
        found.matching.write(out)
    comparison_document(*runs, found, names).write(out / "comparison.md", figures=".")
    view = compare_view(*runs, found, names)
    write_readable(out / "comparison.html", render_comparison(view))
    return found


def names_of(one: Path, other: Path) -> tuple[str, str]:
    """The names of two folders, with as many folders above them as it takes to distinguish them.

    >>> names_of(Path("/runs/news"), Path("/runs/web"))
    ('news', 'web')
    >>> names_of(Path("/a/b/out"), Path("/a/c/out"))
    ('b/out', 'c/out')
    """
    first, second = one.resolve().parts, other.resolve().parts
    lengths = range(1, max(len(first), len(second)))
    differ = (number for number in lengths if first[-number:] != second[-number:])
    number = next(differ, 1)
    return "/".join(first[-number:]), "/".join(second[-number:])


def render_comparison(view: ComparisonView) -> str:
    """The page as a string."""
    names = [side.name for side in view.sides]
    return fill_template(
        "compare.html.j2",
        styles=STYLES,
        scripts=SCRIPTS,
        data={
            "title": view.title,
            "names": names,
            "kinds": kinds_data(view.kinds.values()),
            "pairs": {pair.head: asdict(pair) for pair in view.pairs},
        },
        title=view.title,
        view=view,
        sections=view.sections,
        heads=frozenset(pair.head for pair in view.pairs),
        swatches=swatches(view.kinds.values(), ROLES.values()),
        names=names,
    )
