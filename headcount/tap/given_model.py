"""The given model: what can be examined is a transformers model, whole, in memory, not compiled.

A model that is split over processes computes the same as ever, and yet a process sees some of its
heads only, or a part of each weight. Of a model that was made without numbers, nothing can be read;
accelerate may hold them elsewhere, and fetch them while a layer runs.
A compiled one may run the attention that it was compiled with, whatever is put in its place.
"""

from abc import ABC, abstractmethod

from torch import nn
from transformers import PreTrainedModel

from headcount.core import InputError, ModelError, with_article, work_together
from headcount.tap.anatomy import Anatomy
from headcount.tap.placement import head_group, weight_away


class Holder(ABC):
    """Something that holds a model and knows its heads, as `headcount.load` returns it."""

    model: PreTrainedModel

    @property
    @abstractmethod
    def anatomy(self) -> Anatomy:
        """The model's attention layers, found and checked."""


AnyModel = PreTrainedModel | Holder
"""A transformers model, by itself or as `headcount.load` returns it."""


def model_of(model: AnyModel) -> PreTrainedModel:
    """The transformers model, whoever holds it."""
    return model.model if isinstance(model, Holder) else model


def check_is_model(model: object) -> None:
    """Check that something is a transformers model that can be tapped.

    Raises:
        InputError: if it is not; says what to pass instead.
        ModelError: if it is split over processes, without weights, or compiled; says which.
    """
    if isinstance(model, PreTrainedModel):
        _check_is_whole(model)
        _check_has_weights(model)
        _check_is_not_compiled(model)
        return
    kind = type(model).__name__
    names = [base.__name__ for base in type(model).__mro__ if base.__name__ in _UNWRAPPED]
    otherwise = "Pass a PreTrainedModel, or what headcount.load returns."
    advice = _UNWRAPPED[names[0]] if names else otherwise
    if names == ["PeftModel"] and _has_virtual_tokens(model):
        advice = (
            "Its virtual tokens are added outside the transformers model, where heads can't be "
            "measured with them. `.get_base_model()` is the model without them."
        )
    if isinstance(model, str):
        advice = "Pass the result of headcount.load(...), which reads names and folders."
    raise InputError(f"Expected a transformers model, got {with_article(kind)}. {advice}")


def _has_virtual_tokens(model: object) -> bool:
    """Whether a PeftModel tunes a prompt or prefix, not the weights."""
    return bool(getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False))


_GRAPH = "has the attention that it was compiled with, which can't be measured or gated"
_UNWRAPPED = {
    "OptimizedModule": (
        f"What torch.compile returns {_GRAPH}. Pass the model that it was given (`._orig_mod`)."
    ),
    "DataParallel": "Pass the model inside (`.module`).",
    "DistributedDataParallel": "Pass the model inside (`.module`).",
    "FullyShardedDataParallel": (
        "Each process holds a part of every weight. Pass the model before it was sharded."
    ),
    "PeftModel": "Pass `.get_base_model()`, or the merged model, `.merge_and_unload()`.",
    "SentenceTransformer": "Pass headcount.load(folder or name), or its `[0].auto_model`.",
}
"""What to pass in place of objects that hold a model, by their class."""

_SHARDED = {"FullyShardedDataParallel", "FSDPModule"}
"""Classes of modules whose parameters FSDP shards: its first version wraps, its second mixes in."""


def _check_is_whole(model: PreTrainedModel) -> None:
    """Check that this process has all heads and all of each weight."""
    kind = type(model).__name__
    sharder = None
    if any(_class_names(module) & _SHARDED for module in model.modules()):
        sharder = "FSDP"
    elif any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        sharder = "DeepSpeed (ZeRO-3)"
    if sharder is not None:
        raise ModelError(
            f"Expected a model that is whole in this process, got {with_article(kind)} sharded "
            f"by {sharder}: each process holds a part of every weight. Pass the model before it "
            "was sharded."
        )
    if (group := head_group(model)) is not None:
        work_together(group.size)
        return
    if any("DTensor" in _class_names(each) for each in model.parameters()):
        raise ModelError(
            f"Expected a model that is whole in this process, got {with_article(kind)} split "
            "over several by parallelize_module: each process has some of the heads, and counts "
            "them from 0. Load it with device='tp' or transformers' tp_plan."
        )


def _check_has_weights(model: PreTrainedModel) -> None:
    """Check that weights are in memory, or that accelerate holds them."""
    absent = weight_away(model, lost=True)
    if absent is not None:
        raise ModelError(
            f"Expected a {type(model).__name__} with weights, got {absent} on the meta device, "
            "without numbers that are kept elsewhere. Load the model from its files."
        )


def _check_is_not_compiled(model: PreTrainedModel) -> None:
    """Check that neither the model nor a part of it is compiled."""
    compiled = next((name for name, module in model.named_modules() if _is_compiled(module)), None)
    if compiled is not None:
        where = f"{compiled} in {type(model).__name__}" if compiled else type(model).__name__
        raise ModelError(
            f"Expected a model that is not compiled, but {where} was, by torch.compile: it "
            f"{_GRAPH}. Load it again, and compile it after headcount's work."
        )


def _is_compiled(module: nn.Module) -> bool:
    """Whether a module was compiled by either form of `compile`, or its forward was."""
    is_wrapped = "OptimizedModule" in _class_names(module)
    is_replaced = hasattr(vars(module).get("forward"), "_torchdynamo_orig_callable")
    return is_wrapped or is_replaced or getattr(module, "_compiled_call_impl", None) is not None


def _class_names(one: object) -> set[str]:
    """Names of an object's classes; to import those of FSDP and DTensor takes time."""
    return {base.__name__ for base in type(one).__mro__}
