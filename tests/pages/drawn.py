"""The drawn extent of a figure, and a check that all of it is on the page."""

from matplotlib.figure import Figure

MARGIN = 0.1
"""Tolerance for the legend's invisible frame, in inches."""


def assert_whole(figure: Figure, name: str) -> None:
    """Assert that nothing is cut off at an edge."""
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.x0 >= -MARGIN and drawn.x1 <= width + MARGIN, name
    assert drawn.y0 >= -MARGIN and drawn.y1 <= height + MARGIN, name
