"""The comparison as Markdown."""

from collections.abc import Mapping

from headcount.compare.comparison import Change, Comparison
from headcount.importance.correlation import Correlation, signed
from headcount.markdown import table
from headcount.reports.measure_names import MEASURES, SITE_TITLES

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
