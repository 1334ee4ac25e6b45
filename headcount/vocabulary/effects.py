"""Effects of a head on a prediction: one row each, with its name and its words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

EffectName = Literal[
    "attribution", "gradient", "zero", "mean", "corrupt", "restored", "estimate", "knockout"
]
"""A way to say by how much a head raises what is predicted."""


@final
@dataclass(frozen=True)
class EffectEntry:
    """One effect of a head."""

    key: EffectName
    """Name in tables and options."""
    label: str
    """Name in a heading."""
    about: str
    """Meaning, as the end of a sentence about it."""
    source: str
    """Where it is described."""
    is_replacement: bool = False
    """Whether heads are replaced, so that the effect of several together is measured too."""
    needs_second: bool = False
    """Whether it needs a second prompt."""


EFFECTS: Mapping[str, EffectEntry] = {
    each.key: each
    for each in (
        EffectEntry(
            "attribution",
            "attribution",
            "what the head's output adds to the logit by itself, with the final norm's scale kept",
            "Elhage et al., 2021, transformer-circuits.pub/2021/framework",
        ),
        EffectEntry(
            "gradient",
            "gradient x output",
            "what the head's output adds if everything behind it were linear",
            "Shrikumar et al., 2016, arXiv:1605.01713",
        ),
        EffectEntry(
            "zero",
            "zeroed",
            "what is lost if the head gives zero",
            "Michel et al., 2019, arXiv:1905.10650",
            is_replacement=True,
        ),
        EffectEntry(
            "mean",
            "mean instead",
            "what is lost if the head gives its mean output",
            "Wang et al., 2022, arXiv:2211.00593",
            is_replacement=True,
        ),
        EffectEntry(
            "corrupt",
            "from the second prompt",
            "what is lost if the head gives what it gives in the second prompt",
            "Vig et al., 2020, arXiv:2004.12265",
            is_replacement=True,
            needs_second=True,
        ),
        EffectEntry(
            "restored",
            "into the second prompt",
            "what the second prompt gains if the head gives what it gives in the first",
            "Meng et al., 2022, arXiv:2202.05262",
            is_replacement=True,
            needs_second=True,
        ),
        EffectEntry(
            "estimate",
            "estimate of patching",
            "gradient times the difference of the head's outputs, an estimate of what is lost if "
            "it gives what it gives in the second prompt",
            "Nanda, 2023, neelnanda.io/attribution-patching",
            needs_second=True,
        ),
        EffectEntry(
            "knockout",
            "knockout",
            "what is lost if the head can't look from where the prediction is made at the target's "
            "word in the prompt, or between the words of --query and --key, wherever these stand",
            "Geva et al., 2023, arXiv:2304.14767",
            is_replacement=True,
        ),
    )
}
"""Every effect, in the order of tables."""
