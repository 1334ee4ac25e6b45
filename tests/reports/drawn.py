"""What is drawn of a figure, and whether all of it is on the page."""

from matplotlib.figure import Figure

MARGIN = 0.1
"""Of the legend, in inches: there is no frame that is seen."""


def assert_whole(figure: Figure, name: str) -> None:
    """Nothing is cut off at an edge."""
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.x0 >= -MARGIN and drawn.x1 <= width + MARGIN, name
    assert drawn.y0 >= -MARGIN and drawn.y1 <= height + MARGIN, name
