"""Head lists: fields of configurations that list heads by number, as [layer, head], both from 0.

Compaction renumbers them with the heads, and notes so in the head plan. A compact model that an
earlier version wrote has no such note: its fields name heads of the dense model.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from transformers import PreTrainedModel


@final
@dataclass(frozen=True)
class HeadList:
    """A field that lists heads."""

    name: str
    """Name of the field, in the generation's configuration or in the model's."""
    site: str
    """Site of the heads."""
    serves: str
    """What the listed heads are for, in the plural."""


HEAD_LISTS: dict[str, tuple[HeadList, ...]] = {
    "whisper": (HeadList("alignment_heads", "decoder.cross", "time stamps of words"),),
}
"""The fields by model type."""

RENUMBERED = "renumbered"
"""Field of a head plan: names of the head lists whose numbers are those of the compact model."""


def lists_of(model: PreTrainedModel) -> Iterator[tuple[Any, HeadList, list[list[int]]]]:
    """The head lists that a model has, with what holds each and the pairs in it."""
    holders = [getattr(model, "generation_config", None), model.config]
    for each in HEAD_LISTS.get(model.config.model_type, ()):
        for holder in holders:
            if listed := getattr(holder, each.name, None):
                yield holder, each, listed


def warn_of_dense_numbers(model: PreTrainedModel, folder: Path) -> None:
    """Warn of head lists of a compact model that an earlier version did not renumber.

    Args:
        model: the compact model.
        folder: its folder.
    """
    plan: Mapping[str, Any] = model.config.head_plan
    for _, each, _ in lists_of(model):
        layers = plan["heads"].get(each.site, ())
        kept = plan["kept"].get(each.site, {}).values()
        if each.name not in plan.get(RENUMBERED, ()) and sum(map(len, kept)) < sum(layers):
            warnings.warn(
                f"{folder}: {each.name} names heads of the dense model, since an earlier version "
                f"of headcount copied it unchanged, so {each.serves} are wrong. Prune the dense "
                f"model again. Or leave out pruned heads, replace [layer, head] by [layer, place "
                f'of head in kept["{each.site}"] of config.json\'s head_plan], and add '
                f'"{RENUMBERED}": ["{each.name}"] to that head_plan',
                stacklevel=4,
            )
