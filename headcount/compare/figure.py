"""Two runs side by side: the roles of all heads, one row of maps per site."""

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from headcount.reports.figure_maps import draw_roles
from headcount.reports.figure_style import LINE, by_site, new_figure, plain_grid
from headcount.reports.measure_names import SITE_TITLES
from headcount.reports.role_names import role_names
from headcount.reports.run import Run


def side_by_side(one: Run, other: Run, names: tuple[str, str]) -> Figure:
    """Role maps of two runs over one grid of heads."""
    sites = by_site(one)
    layers, heads = one.num_layers, 1 + max(row.index for row in one.heads)
    roles = role_names(name for run in (one, other) for row in run.heads for name in row.roles)
    width, height = 2 * (0.3 * heads + 0.7) + 0.4, len(sites) * (0.3 * layers + 0.7) + 1.0
    figure = new_figure(max(5.6, width), height)
    grid = figure.subplots(len(sites), 2, squeeze=False)
    for run, column, name in zip((one, other), grid.T, names, strict=True):
        for axes, (site, rows) in zip(column, by_site(run), strict=True):
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
