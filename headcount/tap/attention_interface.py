"""The seam: our attention function in place of a model's own, inside a `with` block.

transformers looks up the attention function and the mask function in every forward pass, by the
name in `config._attn_implementation`. Switching that name on every configuration that the model
reads, and registering both functions under it, reaches every module that dispatches through the
interface. Undoing both leaves no trace.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

_FIELD = "_attn_implementation_internal"
_numbers = itertools.count()


def configurations(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """Every configuration object that some module of the model may read, each once."""
    found: dict[int, PreTrainedConfig] = {}
    waiting = [getattr(module, "config", None) for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if isinstance(config, PreTrainedConfig) and id(config) not in found:
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())


@contextmanager
def dispatching(model: PreTrainedModel, attend: Callable[..., Any]) -> Iterator[str]:
    """Send every attention call that the model dispatches through the interface to `attend`.

    Masks have the form of `sdpa_mask` (boolean, True = visible). Causal masks are always explicit,
    so no mask means that everything is visible.
    """
    name = f"headcount_{next(_numbers)}"
    configs = configurations(model)
    before = [vars(config).get(_FIELD) for config in configs]
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _explicit_mask)
    try:
        for config in configs:
            setattr(config, _FIELD, name)
        yield name
    finally:
        for config, implementation in zip(configs, before, strict=True):
            setattr(config, _FIELD, implementation)
        AttentionInterface._global_mapping.pop(name)
        AttentionMaskInterface._global_mapping.pop(name)


def implementation_of(module: nn.Module) -> str | None:
    """The attention implementation that a module would use now (`sdpa`, `eager` ...)."""
    return getattr(getattr(module, "config", None), "_attn_implementation", None)


def _explicit_mask(*args: Any, **kwargs: Any) -> Any:
    return sdpa_mask(*args, **(kwargs | {"allow_is_causal_skip": False}))
