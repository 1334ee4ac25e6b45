"""Figures for a paper, as SVG, PNG and PDF; each is a function of a run that draws a figure."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from headcount.core import FORMATS, InputError, save, styled
from headcount.reports.figures.maps import confidence_map, role_map
from headcount.reports.figures.plots import (
    layer_curves,
    positional_offsets,
    relations,
    weight_and_norm,
)
from headcount.reports.figures.worth import agreement, importance
from headcount.results import Run, read_run

FIGURES: dict[str, Callable[[Run], Figure | None]] = {
    "role_map": role_map,
    "confidence_map": confidence_map,
    "positional_offsets": positional_offsets,
    "relations": relations,
    "layer_curves": layer_curves,
    "weight_and_norm": weight_and_norm,
    "importance": importance,
    "agreement": agreement,
}
"""Every figure by its file name."""


def write_figures(folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw every figure that the run has numbers for, into `folder/figures`.

    Raises:
        InputError: if a result file is missing or damaged, or a format is unknown.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise InputError(f"Expected formats among {', '.join(FORMATS)}, got {unknown}")
    run = read_run(folder)
    paths = []
    with styled():
        for name, draw in FIGURES.items():
            figure = draw(run)
            for kind in FORMATS if figure is None else ():  # left by an earlier run
                (folder / "figures" / f"{name}.{kind}").unlink(missing_ok=True)
            if figure is not None:
                paths += [save(figure, folder / "figures" / f"{name}.{kind}") for kind in formats]
    return paths
