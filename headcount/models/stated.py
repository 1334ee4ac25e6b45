"""Stated: what a configuration says of a model's heads and texts, before any weight is read.

Only configurations are followed that number their layers and heads in the usual way. The model may
have fewer heads (layers without attention), never more. So an impossible request is refused at
once, and one that seems possible may still be refused when the model is there.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from transformers import AutoConfig, PreTrainedConfig

from headcount.core import Head, Heads, InputError, Plan, amount
from headcount.models.compact_checkpoint import is_compact
from headcount.models.model_files import place_of
from headcount.models.sentence_transformer import transformer_folder

_MORE = (
    *("decoder_layers", "num_decoder_layers", "encoder_layers", "inner_group_num", "block_sizes"),
    "local_transformer_stride",
)
"""Fields of configurations of one stack whose model may have more layers than it numbers."""


@final
@dataclass(frozen=True)
class Stated:
    """The most heads, and the longest text, that a model can have by its configuration."""

    name: str
    """Name of the model."""
    grids: tuple[Heads, ...] = ()
    """What its heads can be: those of one stack are an encoder's or a decoder's. Empty if that is
    unknown."""
    positions: int | None = None
    """Number of positions; None if unknown."""

    @classmethod
    def of(cls, name: str, trust_remote_code: bool = False) -> "Stated":
        """What is stated of a model by name or folder: nothing if its configuration can't be read.

        What is wrong with the configuration is reported when the model is loaded.
        """
        with suppress(Exception):
            place = place_of(name)
            inside = transformer_folder(str(place)) if Path(place).is_dir() else ""
            options = {"subfolder": inside, "trust_remote_code": trust_remote_code}
            config = AutoConfig.from_pretrained(place, **options)
            text = config.get_text_config()
            positions = _numbers(text, "max_position_embeddings")[0]
            return cls(name, grids_of(config), positions or None)
        return cls(name)

    def check_plan(self, plan: Plan) -> None:
        """Check that the model can have the heads that a plan names.

        Raises:
            InputError: If it can't have one.
        """
        named = (
            Head(site, layer, index)
            for site, layers in plan.kept.items()
            for layer, indices in layers.items()
            for index in indices
        )
        self.check_heads(named, "the plan")

    def check_heads(self, heads: Iterable[Head], where: str) -> None:
        """Check that the model can have some heads.

        Args:
            heads: The heads.
            where: What names them.

        Raises:
            InputError: If it can't have one.
        """
        heads = list(heads)
        unknown = [[head for head in heads if head not in grid] for grid in self.grids]
        if unknown and all(unknown):
            raise InputError(
                f"Expected heads of {self.name} in {where}, which has {self} by its "
                f"configuration, got {unknown[0][0]}. Name heads of this model."
            )

    def check_keep(self, number: int, site: str | None = None) -> None:
        """Check that the model can have as many heads, in all or at one site.

        Raises:
            InputError: If it has fewer.
        """
        most = max((_total(grid, site) for grid in self.grids), default=number)
        if number > most:
            raise InputError(
                f"Expected at most {amount(most, 'head')} to keep"
                f"{'' if site is None else f' at {site}'}, since {self.name} has {self} by its "
                f"configuration, got {number}. Keep fewer."
            )

    def check_length(self, number: int) -> None:
        """Check that the model can read so many tokens.

        Raises:
            InputError: If it can't.
        """
        if self.positions is not None and number > self.positions:
            raise InputError(
                f"Expected pieces of at most {amount(self.positions, 'token')}, since {self.name} "
                f"has so many positions by its configuration, got {number}. Make them shorter."
            )

    def __str__(self) -> str:
        return " or ".join(map(str, self.grids))


def grids_of(config: PreTrainedConfig) -> tuple[Heads, ...]:
    """The grids that the heads of a model can have; none if a configuration leaves that open."""
    if config.get_text_config() is not config or config.sub_configs or is_compact(config):
        return ()
    if config.is_encoder_decoder:
        names = ("encoder_layers", "encoder_attention_heads", "decoder_layers")
        found = _numbers(config, *names, "decoder_attention_heads")
        if not all(found):
            found = _numbers(config, "num_layers", "num_heads", "num_decoder_layers", "num_heads")
        if not all(found):
            return ()
        layers, heads, more_layers, more_heads = found
        decoder = (more_heads,) * more_layers
        sides = {"encoder.self": (heads,) * layers, "decoder.self": decoder}
        return (Heads({**sides, "decoder.cross": decoder}),)
    layers, heads = _numbers(config, "num_hidden_layers", "num_attention_heads")
    numbers = [name for name in vars(config) if name.endswith("num_attention_heads")]
    if not (layers and heads) or len(numbers) > 1 or any(_numbers(config, *_MORE)):
        return ()
    return tuple(Heads({site: (heads,) * layers}) for site in ("encoder.self", "decoder.self"))


def _total(grid: Heads, site: str | None) -> int:
    return len(grid) if site is None else sum(grid.counts.get(site, ()))


def _numbers(config: PreTrainedConfig, *names: str) -> list[int]:
    """Fields of a configuration; 0 for those that it lacks or that are no numbers above 0."""
    values: list[Any] = [getattr(config, name, 0) for name in names]
    return [value if isinstance(value, int) and value > 0 else 0 for value in values]
