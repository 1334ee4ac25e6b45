"""A model some of whose attention heads were removed: the stock class, with smaller linear maps.

This file needs only torch and transformers. It lies in the folder of a compact model, which
therefore loads anywhere by its auto class, e.g.
`AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`. What is smaller, and by how
much, is in `config.json` under `head_plan`; nothing here depends on the architecture.
"""

from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor, nn

OWN: dict[str, type] = {}  # stock classes that transformers lacks


class ConstantMap(nn.Module):
    """Replaces a linear map whose inputs or outputs are gone: gives its bias, or zeros."""

    def __init__(self, size: int, bias: bool, **kind: Any) -> None:
        super().__init__()
        self.size = size
        self.bias = nn.Parameter(torch.zeros(size, **kind)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        """Return the same numbers at every position."""
        zeros = states.new_zeros(*states.shape[:-1], self.size)
        return zeros if self.bias is None else zeros + self.bias


class Settled(dict[str, Any]):
    """An immutable plan, which copies therefore share.

    transformers copies the configuration in every forward pass that makes a cache, which took a
    tenth of a short one.
    """

    def __deepcopy__(self, memo: Any) -> "Settled":
        return self


def shrink(model: Any) -> None:
    """Swap the maps named in `config.head_plan` for smaller ones, and set what counts heads."""
    body, plan = model.base_model, model.config.head_plan
    for path, size in plan["maps"].items():
        if _is_part(body, path):
            owner, name = body.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]
            setattr(owner, name, _resized(getattr(owner, name, None), size, model))
    for path, values in plan["attributes"].items():
        if _is_part(body, path):
            vars(body.get_submodule(path)).update(values)
    for path in plan["own_position_bias"]:
        if _is_part(body, path):
            attention = body.get_submodule(path)
            attention.register_forward_pre_hook(_without_shared_bias, with_kwargs=True)


@cache
def pruned(stock: type) -> Any:
    """The class of models that have fewer heads than `stock`."""

    def init(self: Any, config: Any, *args: Any, **options: Any) -> None:
        config.head_plan = Settled(config.head_plan)
        stock.__init__(self, config, *args, **options)
        shrink(self)
        if (shared := _shared(self)) is not None:
            self._tied_weights_keys = self.all_tied_weights_keys = shared
            self.tie_weights()

    def tied(self: Any, all_submodels: bool = False) -> dict[str, str]:
        shared = _shared(self)
        if shared is None:
            return stock.get_expanded_tied_weights_keys(self, all_submodels)  # type: ignore[attr-defined]
        return shared

    @torch.no_grad()
    def initialize(self: Any) -> None:
        stock.initialize_weights(self)  # type: ignore[attr-defined]
        for part in self.modules():  # constants of theirs, which are left out for custom code
            if isinstance(part, transformers.PreTrainedModel):
                part._init_weights(part)  # which changes no weight that a file held

    own = {"__init__": init, "__module__": __name__, "stock_class": stock, "_auto_class": None}
    own |= {"get_expanded_tied_weights_keys": tied, "initialize_weights": initialize}
    return type(stock.__name__, (stock,), own)


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not (name in OWN or hasattr(transformers, name)):
        raise AttributeError(name)
    return pruned(OWN.get(name) or getattr(transformers, name))


def _shared(model: Any) -> dict[str, str] | None:
    """Which parameters are another one, by name, where the stock class would not make these."""
    pairs = model.config.head_plan.get("shared")
    if pairs is None:
        return None
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    body = f"{model.base_model_prefix}."  # a body is loaded with and without its head

    def here(name: str) -> str | None:
        known = (name, name.removeprefix(body), body + name)
        return next((each for each in known if each in names), None)

    found = {here(name): here(source) for name, source in pairs.items()}
    return {name: source for name, source in found.items() if name and source}


def _is_part(body: Any, path: str) -> bool:
    """Whether the class has this side at all: a model's encoder loads without its decoder."""
    return hasattr(body, path.partition(".")[0])


def _resized(stock: Any, size: dict[str, Any], model: Any) -> nn.Module | None:
    if size["kind"] == "none":
        return None
    like = model if stock is None else stock.weight
    kind: dict[str, Any] = {"device": like.device, "dtype": like.dtype}
    if size["kind"] == "constant":
        return ConstantMap(size["out"], size["bias"], **kind)
    if size["kind"] == "embedding":
        fresh: Any = nn.Embedding(size["in"], size["out"], **kind)
    elif size["kind"] == "conv1d":
        fresh = transformers.pytorch_utils.Conv1D(size["out"], size["in"]).to(**kind)
    elif size["kind"] == "linear":
        fresh = nn.Linear(size["in"], size["out"], size["bias"], **kind)
    else:
        raise ValueError(f"Expected a kind of map that this file knows, got {size['kind']!r}.")
    model._init_weights(fresh)
    return fresh.train(model.training)


def _without_shared_bias(attention: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return args, kwargs | {"position_bias": None}
