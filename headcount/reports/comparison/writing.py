"""Write a comparison: one Markdown file and one figure."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from headcount.core import (
    FORMATS,
    LINE,
    new_figure,
    plain_grid,
    save,
    styled,
    table,
    write_text,
)
from headcount.reports.comparison.comparison import Change, Comparison, compare
from headcount.reports.figures.maps import draw_roles
from headcount.reports.measure_names import MEASURES, SITE_TITLES
from headcount.reports.role_names import role_names
from headcount.results import Correlation, Run, read_run, signed

SKIPPED = ("ablation_low", "ablation_high", "ablation_p", "positional_offset", "rare_cases")
"""Columns that are not scores of heads."""


def document(comparison: Comparison, names: tuple[str, str]) -> str:
    """The comparison of two runs, named after their folders."""
    one, other = names
    parts = [
        f"# {one} and {other}",
        _roles(comparison, names),
        _changes(comparison.changes, comparison.same_roles, names),
        _correlations(comparison.by_head, comparison.by_layer),
        "Models trained independently number their heads by chance: compare their layers, not "
        "their heads.",
    ]
    return "\n\n".join(parts) + "\n"


def _roles(comparison: Comparison, names: tuple[str, str]) -> str:
    rows = [
        [SITE_TITLES.get(site, site), role, str(before), str(after)]
        for site, counts in comparison.counts.items()
        for role, (before, after) in counts.items()
        if before or after
    ]
    return f"## Heads by role\n\n{table(['site', 'role', *names], rows)}"


def _changes(changes: tuple[Change, ...], same: int, names: tuple[str, str]) -> str:
    title = "## Heads whose roles differ"
    kept = f"{same} heads have the same roles in both."
    if not changes:
        return f"{title}\n\nNone. {kept}"
    rows = [[one.head, _named(one.before), _named(one.after)] for one in changes]
    return f"{title}\n\n{table(['head', *names], rows)}\n\n{kept}"


def _correlations(by_head: Mapping[str, Correlation], by_layer: Mapping[str, Correlation]) -> str:
    rows = []
    for name, found in by_head.items():
        if name in SKIPPED or found.rho != found.rho:
            continue
        layers = by_layer[name]
        label = MEASURES[name].label if name in MEASURES else name
        rows.append([label, str(found), signed(layers.rho) if layers.rho == layers.rho else "–"])
    header = ["number", "head by head, 95 % interval", "means of layers"]
    return f"## Rank correlations (Spearman)\n\n{table(header, rows)}"


def _named(roles: tuple[str, ...]) -> str:
    return ", ".join(roles) or "none"


def side_by_side(one: Run, other: Run, names: tuple[str, str]) -> Figure:
    """Role maps of two runs over one grid of heads."""
    sites = one.by_site()
    layers, heads = one.num_layers, 1 + max(row.index for row in one.heads)
    roles = role_names(name for run in (one, other) for row in run.heads for name in row.roles)
    width, height = 2 * (0.3 * heads + 0.7) + 0.4, len(sites) * (0.3 * layers + 0.7) + 1.0
    figure = new_figure(max(5.6, width), height)
    grid = figure.subplots(len(sites), 2, squeeze=False)
    for run, column, name in zip((one, other), grid.T, names, strict=True):
        for axes, (site, rows) in zip(column, run.by_site(), strict=True):
            plain_grid(axes, 1 + max(row.layer for row in rows), heads)
            draw_roles(axes, rows, tuple(roles))
            axes.set_title(f"{name}: {SITE_TITLES.get(site, site)}")
    patches = [
        Patch(facecolor=role.colour, label=f"{role.abbreviation}  {role.name}")
        for role in roles.values()
    ]
    patches.append(Patch(facecolor="white", edgecolor=LINE, label="no role"))
    figure.legend(handles=patches, loc="outside lower center", ncols=min(4, len(patches)))
    return figure


def write_comparison(one: Path, other: Path, out: Path) -> Comparison:
    """Compare the runs in two folders; write `comparison.md` and `comparison.svg`, `.png`, `.pdf`.

    Raises:
        InputError: if a folder holds no run, or the runs are not over the same heads.
    """
    runs = (read_run(one), read_run(other))
    found = compare(*runs)
    names = (one.resolve().name, other.resolve().name)
    names = names if names[0] != names[1] else (str(one), str(other))
    out.mkdir(parents=True, exist_ok=True)
    with styled():
        figure = side_by_side(*runs, names)
        for kind in FORMATS:
            save(figure, out / f"comparison.{kind}")
    text = document(found, names) + "\n![roles side by side](comparison.svg)\n"
    write_text(out / "comparison.md", text)
    return found
