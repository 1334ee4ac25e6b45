"""What layers show: the mean of each measure from layer to layer."""

from headcount.core import Chart, Document, Text
from headcount.reports.figures.layers import layer_curves, panels
from headcount.results import Analysis


def layers_document(run: Analysis) -> Document | None:
    """The document of the layers; None if no measure is there."""
    if not panels(run):
        return None
    return Document(
        "From layer to layer",
        (
            Text("Mean over the heads of a layer (line) and single heads (dots)."),
            Chart("layer_curves", "Measures by layer", lambda: layer_curves(run)),
        ),
    )
