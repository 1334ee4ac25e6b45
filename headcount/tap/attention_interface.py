"""The attention interface: our attention function in place of a model's own, in a `with` block.

transformers looks up the attention function and the mask function in every forward pass, by the
name in `config._attn_implementation`. Setting that name on every configuration that the model
reads, and registering both functions under it, reaches every module that dispatches through the
interface. Undoing both leaves no trace.

Some models also compare the name with "sdpa" or "eager" and compute something else where they don't
know it, such as a dense mask in place of a sparse one. So the name that we set compares equal to
the model's own, and yet it is a key of its own in both registries (`_Name`).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, final

from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

from headcount.core import ModelError
from headcount.tap.call import Call, implementation_of
from headcount.tap.packed import Packed
from headcount.tap.seen_keys import interval_mask

_FIELD: Final = "_attn_implementation_internal"
_FIELD_OF_MODULES: Final = "_attn_implementation"
"""Some modules keep the name that their configuration had when they were made."""


@final
class _Name(str):
    """The name of an attention implementation that is a dictionary key of its own.

    It is equal to the plain string, so that a model that compares it takes the branch that it
    always takes. A dictionary finds by hash first, and the hash is that of this object, so that
    functions registered under it are found under it alone.
    """

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Name":
        return self


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


@final
class Dispatched:
    """An attention function of transformers' kind.

    Args:
        attend: What gives the heads' outputs.
        packed: What makes one call of several.
    """

    def __init__(self, attend: Callable[[Call], Tensor], packed: Packed) -> None:
        self.attend, self._joined = attend, packed.around(attend)

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,  # some models pass it by this name
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        """The heads' outputs, without weights."""
        return self._joined(Call(module, query, key, value, attention_mask, kwargs)), None


@contextmanager
def dispatching(
    model: PreTrainedModel,
    attend: Callable[[Call], Tensor],
    implementation: str | None = None,
    explicit: bool = True,
    as_intervals: bool = False,
) -> Iterator[str]:
    """Send every attention call that the model dispatches through the interface to `attend`.

    The model sees its own implementation's name if that is "sdpa" or "eager", otherwise "sdpa".
    Masks have the form of that implementation: under "sdpa" boolean (True = visible), under "eager"
    added to the scores. Causal masks are explicit, so no mask means that everything is visible.
    Packed sequences, too, are one call with a mask (`packed`).

    Args:
        model: any transformers model.
        attend: what gives the heads' outputs, [batch, query, head, dim].
        implementation: "sdpa" or "eager", which the model sees instead of its own.
        explicit: whether causal masks are always explicit under "sdpa"; otherwise, as in the stock
            model, there may be none for single queries and for whole texts without padding.
        as_intervals: whether explicit masks of long texts are `IntervalMask` where they can be.
    """
    holders = [(vars(config), _FIELD) for config in configurations(model)]
    holders += [
        (vars(module), _FIELD_OF_MODULES)
        for module in model.modules()
        if isinstance(vars(module).get(_FIELD_OF_MODULES), str)
    ]
    before = [(fields, name, fields.get(name)) for fields, name in holders]
    own = implementation_of(model)
    names, packed = {base: _Name(base) for base in ("sdpa", "eager")}, Packed(model)
    for base, name in names.items():
        AttentionInterface.register(name, Dispatched(attend, packed))
        fused_mask = _mask_as_intervals if as_intervals else _explicit_mask
        fused_mask = fused_mask if explicit else sdpa_mask
        AttentionMaskInterface.register(name, eager_mask if base == "eager" else fused_mask)
    try:
        for fields, field, stock in before:
            fields[field] = names[_known(implementation or stock)]
        with packed.joining():
            yield names[_known(implementation or own)]
    finally:
        for fields, field, stock in before:
            fields[field] = stock
        for name in names.values():
            AttentionInterface._global_mapping.pop(name)
            AttentionMaskInterface._global_mapping.pop(name)


def plain_attention(call: Call) -> Tensor:
    """Attention by torch's fused function, without dropout, soft capping or sinks.

    It is for forward passes in which shapes and order matter, and for models that use sdpa.
    """
    names = ("scaling", "position_bias")
    known = {name: each for name, each in call.kwargs.items() if name in names}
    return sdpa_attention_forward(*call.tensors, is_causal=False, **known)[0]


def stock_attention(call: Call) -> Tensor:
    """The heads' outputs of a call, by the function that the module calls outside a tap."""
    name = str(_known(implementation_of(call.module)))
    return stock_function(call.module, name)(*call.tensors, **call.kwargs)[0]


def stock_function(module: nn.Module, name: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """The attention function that a module calls by a name: that of its file, or of transformers.

    Raises:
        ModelError: If the name is "eager" and there is no eager function in the module's file.
    """
    for base in type(module).__mro__:
        for each in vars(sys.modules[base.__module__]).values():
            if isinstance(each, AttentionInterface) and name in each._local_mapping:
                return each[name]
    return eager_function(module) if name == "eager" else AttentionInterface._global_mapping[name]


def eager_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager attention function in the file of a module's class, or of one it derives from.

    Raises:
        ModelError: If there is none.
    """
    for base in type(module).__mro__:
        found = vars(sys.modules[base.__module__]).get("eager_attention_forward")
        if found is not None:
            return found
    raise ModelError(
        f"Expected an eager_attention_forward beside {type(module).__name__}, whose weights "
        "headcount can't compute itself, but there is none."
    )


def _known(name: str | None) -> str:
    """The implementation whose masks have the form that a model with this one can work with."""
    return "eager" if name == "eager" else "sdpa"


def _explicit_mask(*args: Any, **kwargs: Any) -> Any:
    return sdpa_mask(*args, **(kwargs | {"allow_is_causal_skip": False}))


def _mask_as_intervals(**kwargs: Any) -> Any:
    """The mask by the model's own mask function, whole only if it must be."""
    first = kwargs.get("q_offset", 0)

    def part(start: int, stop: int) -> Any:
        return _explicit_mask(**kwargs | {"q_length": stop - start, "q_offset": first + start})

    found = interval_mask(part, kwargs["q_length"], kwargs["kv_length"])
    return _explicit_mask(**kwargs) if found is None else found
