"""Layer config: numbers of heads per layer, where transformers' configuration can hold them.

transformers (>= 5.14) is moving to `per_layer_config`: its classes do not build from it yet, but
caches and other runtimes read it. It has one row per hidden layer and no name for a second kind of
attention, so encoder-decoders have none. A layer without heads has 1 there, as many as a cache
holds for it. Rows that a stock model came with are not changed. Models with attention in only some
of their layers, or with a configuration inside another, get no rows.
"""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig

from headcount.compaction.layout import Resized
from headcount.models.anatomy import Anatomy


def set_layer_config(
    config: PreTrainedConfig, anatomy: Anatomy, layers: Sequence[Resized], is_ours: bool
) -> None:
    """Add `head_dim` and the layers' numbers of heads to a configuration that can hold them.

    Args:
        config: Configuration of the smaller model, with any rows of the larger one.
        anatomy: Anatomy of the larger model.
        layers: Cuts of its layers.
        is_ours: Whether the larger model is a compact one, whose rows are ours.
    """
    if config.is_heterogeneous and not is_ours:
        return
    config.per_layer_config = None
    sizes = {each.layer.head_dim for each in layers}
    if config.is_encoder_decoder or len(sizes) != 1 or len(anatomy.heads.counts) != 1:
        return
    if getattr(config, "num_hidden_layers", None) != len(layers) + len(anatomy.dead):
        return
    if getattr(config, "head_dim", None) is None:
        config.head_dim = sizes.pop()
    rows: dict[int | str, dict[str, Any]] = {
        each.layer.layer: {
            "num_attention_heads": max(1, len(each.kept)),
            "num_key_value_heads": max(1, each.key_value_heads),
        }
        for each in layers
    }
    for site in anatomy.dead:
        rows[site[1]] = {"num_attention_heads": 1, "num_key_value_heads": 1}
    config.allow_global_per_layer_attribute_access = True
    config.per_layer_config = rows
