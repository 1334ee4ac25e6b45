"""An effect: what is lost if a head gives half of its output?"""

import headcount
from headcount.explanation import Replacement


@headcount.register
class Halved(Replacement):
    """Half of the output in its place."""

    name, label, about = "halved", "halved", "what is lost if the head gives half of its output"
    source = "ours"

    def outputs(self, prompt, row):
        return {layer: output / 2 for layer, output in prompt.clean[row].outputs.items()}
