"""Budget: what may go, and how much of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.heads import Head, Heads
from headcount.models.anatomy import Anatomy


@final
@dataclass(frozen=True)
class Units:
    """What may go: heads one by one, or, where heads share keys and values, whole groups."""

    heads: Heads
    """All heads of the model; those in no unit stay."""
    units: tuple[tuple[Head, ...], ...]
    """Heads that go together."""

    @classmethod
    def of(cls, anatomy: Anatomy, sites: Sequence[str] | None = None) -> "Units":
        """The units of some sites; of all if None."""
        units: list[tuple[Head, ...]] = []
        for layer in anatomy.layers:
            if sites is None or layer.site in sites:
                size = layer.num_heads // layer.num_key_value_heads
                heads = [Head(layer.site, layer.layer, index) for index in range(layer.num_heads)]
                units += [tuple(heads[i : i + size]) for i in range(0, len(heads), size)]
        return cls(anatomy.heads, tuple(units))
