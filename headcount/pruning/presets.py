"""Presets: a paper's way of pruning, option by option.

- `voita2019`: Hard Concrete gates from the authors' start, weights trained along; where only the
  encoder's heads go, the decoder is frozen; label smoothing of 0.1 in translation. The coefficient
  of the penalty is swept, up to eight trainings, until as many gates stay open as heads are to
  stay. Gates are rounded, and nothing is trained afterwards. *Departures*: where eight do not hit
  the number, the nearest is cut to it; gradients of the loss are clipped (see `l0`); updates, rates
  and batches are the caller's (the paper's batches have about 16,000 source tokens, as
  `tuning.batch_tokens=4096 tuning.accumulate=4`), with a linear schedule by default.
- `michel2019`: gradient importance of the paper's formula, normalised by layer, one ranking over
  all sites, estimated anew after every tenth of the heads. Nothing is trained.
- `li2021`: a relaxed subset of exactly K heads, trained jointly with the weights.

References: Voita et al. (2019), https://arxiv.org/abs/1905.09418; Michel et al. (2019),
https://arxiv.org/abs/1905.10650; Li et al. (2021), https://arxiv.org/abs/2108.04657
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.errors import InputError


@final
@dataclass(frozen=True)
class Preset:
    """A paper's way; what follows the choice of heads (folding, rescaling, recovery) is not it."""

    method: str
    options: tuple[str, ...] = ()
    encoder_only: tuple[str, ...] = ()
    """Options where only heads of the encoder go."""
    translation: tuple[str, ...] = ()
    """Options of that task."""

    def of(self, sites: Sequence[str], task: str) -> list[str]:
        """The options, given the sites whose heads may go, and the name of the task."""
        encoder_only = self.encoder_only if set(sites) == {"encoder.self"} else ()
        return [*self.options, *encoder_only, *(self.translation if task == "translation" else ())]


PRESETS: Mapping[str, Preset] = {
    "voita2019": Preset(
        "l0",
        ("voita2019=true", "sweep=8"),
        ("tuning.trained=encoder",),
        ("tuning.label_smoothing=0.1",),
    ),
    "michel2019": Preset("gradient", ("step=0.1", "level=sample", "normalise=true")),
    "li2021": Preset("subset", ("tuning.trained=all",)),
}
"""By the name that `--preset` takes."""


def preset(name: str) -> Preset:
    """A preset by name.

    Raises:
        InputError: for one that there is not.
    """
    if name not in PRESETS:
        raise InputError(f"a preset out of {', '.join(PRESETS)} was expected; came {name!r}")
    return PRESETS[name]
