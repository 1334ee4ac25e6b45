"""Stock: whether the class and configuration of a model rebuild it, and what its weights share.

A compact model is made by the stock class, so it can hold only what that class has. A parameter
that has several names in the model (tied embeddings, a norm of two layers) stays one in the compact
model, or the model is refused. So are weights that are computed from others, and modules that were
added or taken away.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from headcount.core import ModelError
from headcount.tap import holder_of


def sources(model: nn.Module, names: Collection[str] | None = None) -> dict[str, str]:
    """The first name of every parameter that has several, by each of its further names.

    Args:
        model: Any model.
        names: Names that count; all if None.
    """
    first, found = dict[object, str](), dict[str, str]()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if names is not None and name not in names:
            continue
        holder = holder_of(model, name, parameter)
        place = holder if isinstance(holder, str) else _place(holder)
        if place in first:
            found[name] = first[place]
        else:
            first[place] = name
    return found


def _place(parameter: Tensor) -> object:
    """What two names of one parameter have in common: the numbers in memory."""
    if parameter.numel() == 0:
        return id(parameter)
    return parameter.device, parameter.data_ptr(), parameter.shape, parameter.stride()


def shared(smaller: nn.Module, model: nn.Module) -> dict[str, str] | None:
    """What `sources` a compact model must have; None if its class makes just these."""
    names = {name for name, _ in smaller.named_parameters(remove_duplicate=False)}
    found = sources(model, names)
    return None if found == sources(smaller) else found


def check_shared(found: Mapping[str, str], read: Callable[[str], Tensor]) -> None:
    """Raise an error unless names of one parameter keep the same part of it.

    Args:
        found: The first name of a parameter by its further names.
        read: Gives the numbers that are kept of a name.

    Raises:
        ModelError: If a plan cuts a shared map in two ways.
    """
    for name, source in found.items():
        if not read(name).equal(read(source)):
            raise ModelError(
                f"{name} and {source} are one parameter, but the plan keeps different heads of "
                "the two layers. Keep the same heads in both. Otherwise the model can be gated but "
                "not made smaller."
            )


_REMOVERS = {
    ("orig", "mask"): "prune.remove",
    ("g", "v"): "remove_weight_norm",
    ("orig", "u"): "remove_spectral_norm",
}
"""Function of torch.nn.utils that makes a plain parameter of two tensors with these endings."""


def computed(model: nn.Module) -> dict[str, str]:
    """Parameters that are computed from others, with the function that makes each a plain one."""
    found = {}
    for path, module in model.named_modules():
        if is_parametrized(module):
            for name in cast(nn.ModuleDict, module.parametrizations):
                found[f"{path}.{name}"] = "parametrize.remove_parametrizations"
        own = {name for name, _ in (*_own(module.named_parameters), *_own(module.named_buffers))}
        for name in own:
            plain = name.rpartition("_")[0]
            for ends, remover in _REMOVERS.items():
                if plain and {f"{plain}_{end}" for end in ends} <= own:
                    found[f"{path}.{plain}"] = remover
    return found


def _own(named: Callable[..., Iterator[tuple[str, Tensor]]]) -> Iterator[tuple[str, Tensor]]:
    return named(recurse=False)


def check_plain(model: nn.Module, paths: Collection[str]) -> None:
    """Raise an error if a weight inside modules is computed from other tensors.

    Args:
        model: Model to make smaller.
        paths: Paths of modules whose maps may be cut.

    Raises:
        ModelError: If one is; the message says how to make it a plain parameter.
    """
    inside = tuple(f"{path}." for path in paths)
    for name, remover in computed(model).items():
        if name.startswith(inside):
            raise _not_plain(name, remover)


def check_rebuilt(model: nn.Module, smaller: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Raise an error unless a compact model has a place for every tensor, and no place is empty.

    Args:
        model: Model to make smaller.
        smaller: Compact model without its weights.
        state: Weights to fill in, by name.

    Raises:
        ModelError: If the model was changed after its class had made it; names the first tensor.
    """
    stock_computed = computed(smaller)
    for name, remover in computed(model).items():
        if name not in stock_computed:
            raise _not_plain(name, remover)
    places, kind = smaller.state_dict(), type(smaller).__name__
    if more := sorted(state.keys() - places.keys()):
        raise ModelError(
            f"Expected only tensors that {kind} makes from its configuration, got {more[0]} "
            "besides. Remove what was added to the model. Otherwise it can be gated but not made "
            "smaller."
        )
    if less := sorted(places.keys() - state.keys()):
        raise ModelError(
            f"Expected all tensors that {kind} makes from its configuration, but the model lacks "
            f"{less[0]}. Put back what was removed from the model. Otherwise it can be gated but "
            "not made smaller."
        )
    for name, place in places.items():
        if place.shape != state[name].shape:
            raise ModelError(
                f"Expected {name} of the shape that {kind} makes from its configuration, "
                f"{tuple(place.shape)}, got {tuple(state[name].shape)}. Let the configuration say "
                "all that the class needs. Otherwise the model can be gated but not made smaller."
            )


def removed(model: nn.Module, smaller: nn.Module, state: Collection[str]) -> list[str]:
    """Paths where the stock class makes a module or parameter and the model has None.

    Bodies of models with heads lack BERT's pooler in this way.
    """
    found = set[str]()
    for name in smaller.state_dict().keys() - set(state):
        owner: Any = model
        parts = name.split(".")
        for end, part in enumerate(parts, 1):
            owner = getattr(owner, part, _NOTHING)
            if owner is None:
                found.add(".".join(parts[:end]))
            if owner is None or owner is _NOTHING:
                break
    return sorted(found)


_NOTHING = object()


def _not_plain(name: str, remover: str) -> ModelError:
    path, _, kind = name.rpartition(".")
    return ModelError(
        f"Expected plain weights, but {name} is computed from other tensors in every forward pass. "
        f"Make it a parameter: torch.nn.utils.{remover}(model.get_submodule({path!r}), {kind!r})."
    )
