"""Fingerprints: what a number was measured with, as in sacreBLEU, and what a plan was made for."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount import __version__
from headcount.core import (
    OURS,
    REPAIR,
    ChangedModelError,
    Head,
    InputError,
    Origin,
    Plan,
    free_memory,
    short_hash,
)
from headcount.models.loaded import Loaded
from headcount.results import Signature
from headcount.tap import (
    Anatomy,
    AnyModel,
    implementation_of,
    input_device,
    model_of,
    named_weights,
    product_precision,
)

GATES = "headcount_gates"
"""Name of the submodule with the gates of a gating block; not part of the model's revision."""


def signature(loaded: Loaded, corpus_sha256: str, **options: object) -> str:
    """`headcount:0.1.0|model:bert|revision:...|tokenizer:...|corpus:...|...|transformers:...`.

    Options appear in the order given. Options that are None, and a missing tokenizer, are left
    out.
    """
    model, tokenizer, processor = loaded.model, loaded.tokenizer, loaded.image_processor
    signed = Signature.of(
        headcount=__version__,
        model=model.config.model_type,
        revision=revision(model),
        tokenizer=None if tokenizer is None else tokenizer_revision(tokenizer),
        processor=None if processor is None else _processor_revision(processor),
        corpus=corpus_sha256[:12],
        **options,
        kernel=implementation_of(model),
        dtype=_number_format(model),
        torch=torch.__version__,
        transformers=version("transformers"),
    )
    return str(signed)


def _number_format(model: PreTrainedModel) -> str:
    """The number format of the weights, and that of products if these are rounded further."""
    name = str(model.dtype).removeprefix("torch.")
    rounded = product_precision(input_device(model))
    return name if rounded is None or model.dtype != torch.float32 else f"{name}-{rounded}"


def tokenizer_revision(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash over what decides the tokens of a text or chat; for a slow tokenizer, its vocabulary."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules: dict[str, Any] = {"vocabulary": sorted(tokenizer.get_vocab().items())}
    if backend is not None:
        rules = json.loads(backend.to_str())
        for state in ("truncation", "padding"):  # left by the last call
            rules.pop(state, None)
    reported = [type(tokenizer).__name__, rules, tokenizer.special_tokens_map]
    if tokenizer.chat_template:
        reported.append(tokenizer.chat_template)
    if hasattr(tokenizer, "tgt_lang"):
        reported += [getattr(tokenizer, "src_lang", None), tokenizer.tgt_lang]
    return short_hash(json.dumps(reported, default=str))


def _processor_revision(processor: Any) -> str:
    """Hash over the settings that decide the pixels of an image."""
    settings = json.dumps(processor.to_dict(), sort_keys=True, default=str)
    return short_hash(settings)


def revision(model: PreTrainedModel) -> str:
    """Hash over the model's parameters, which changes whenever the model is trained."""
    digest = hashlib.sha256()
    for name, parameter in named_weights(model):
        if name.startswith(f"{GATES}."):
            continue
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
        digest.update(_bytes_of(parameter.detach()))
    for name, module in model.named_modules():
        weight: Any = getattr(module, "weight", None)
        if callable(weight):  # torch's quantized modules
            digest.update(name.encode())
            packed: Any = weight()
            digest.update(_bytes_of(packed))
    return digest.hexdigest()[:12]


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Where torch keeps the hooks of a module."""


@contextmanager
def unchanged(
    model: AnyModel,
    origin: Origin,
    thing: object = None,
    *,
    is_brief: bool = False,
    restores: bool = False,
) -> Iterator[None]:
    """Check that a plug-in leaves a model as it is: parameters, hooks, and modules' modes.

    Args:
        model: the model.
        origin: where the code is from; ours is not watched.
        thing: what runs, which an error names.
        is_brief: whether what runs takes about as long as a batch. Parameters are then compared by
            the sums of their rows, which takes a tenth of the time of a hash.
        restores: whether to keep a copy in main memory, if there is room, from which the model is
            restored.

    Raises:
        ChangedModelError: If it does not.
    """

    def state() -> tuple[object, ...]:
        modules = [(e.training, *(len(vars(e)[hooks]) for hooks in _HOOKS)) for e in its.modules()]
        return (_row_sums if is_brief else revision)(its), modules

    its, is_watched = model_of(model), origin != OURS
    before = state() if is_watched else None
    restore = _restoring(its) if is_watched and restores else None
    try:
        yield
    except ChangedModelError:  # by what this code runs, which the error names
        is_watched = False
        raise
    finally:
        if is_watched and state() != before:
            error = ChangedModelError(
                f"Expected the plug-in {origin} to leave the model as it is, got changed "
                f"parameters, hooks or modes. {REPAIR}"
            )
            error.thing = thing
            if restore is not None:
                restore()
                error.is_restored = state() == before
            raise error


def _restoring(model: PreTrainedModel) -> Callable[[], None] | None:
    """What makes a model as it is now; None without room for a copy, or if weights are away."""
    parameters, room = [*model.parameters()], free_memory()
    needed = 2 * sum(each.nbytes for each in parameters)
    if any(each.is_meta for each in parameters) or (room is not None and room < needed):
        return None
    copies = [each.detach().to("cpu", copy=True) for each in parameters]
    devices = [each.device for each in parameters]
    modules = [(e, e.training, [dict(vars(e)[hooks]) for hooks in _HOOKS]) for e in model.modules()]

    def restore() -> None:
        for parameter, copied, device in zip(parameters, copies, devices, strict=True):
            parameter.data = copied.to(device)
        for module, is_training, hooks in modules:
            module.training = is_training
            for name, its in zip(_HOOKS, hooks, strict=True):
                vars(module)[name].clear()
                vars(module)[name].update(its)

    return restore


def _row_sums(model: PreTrainedModel) -> list[bytes]:
    """The sum of each row of the model's parameters; biases have rows of one number."""
    plain = (_plain(each.detach()) for _, each in named_weights(model))
    rows = (each.flatten(1) if each.ndim > 1 else each[..., None] for each in plain)
    return [rows_RC.sum(-1, dtype=torch.float32).cpu().numpy().tobytes() for rows_RC in rows]


def _bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a tensor, or of what a quantized one stands for."""
    return _plain(tensor).cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def _plain(tensor: Tensor) -> Tensor:
    """A tensor, or what a quantized one stands for."""
    is_other = type(tensor) is not Tensor or tensor.is_quantized
    return tensor.dequantize() if is_other else tensor


def plan_for(loaded: Loaded, kept: Iterable[Head], anatomy: Anatomy | None = None) -> Plan:
    """The plan that keeps some heads of this very model, with its revision and size of head.

    Args:
        loaded: the model.
        kept: the heads to keep.
        anatomy: its attention layers; a trained copy has those of the model it was copied from.
    """
    anatomy = anatomy or loaded.anatomy
    sizes = {layer.head_dim for layer in anatomy.layers}
    plan = Plan.keeping(anatomy.heads, kept, revision(loaded.model))
    return replace(plan, head_dim=sizes.pop() if len(sizes) == 1 else None)


def check_plan(plan: Plan, model: PreTrainedModel, anatomy: Anatomy) -> None:
    """Check that a plan was made for a model.

    Raises:
        InputError: for another model, or one that lacks a head, layer or site of the plan.
        ModelError: for heads of a vision layer if the model was examined on text.
    """
    check_revision(plan.model, model)
    for site in plan.kept:
        anatomy.check_saw_images(site)
    plan.check_heads(anatomy.heads)


def check_revision(made_for: str | None, model: PreTrainedModel) -> None:
    """Check that a model is the one that a plan was made for; None fits any.

    Raises:
        InputError: if its revision is another.
    """
    if made_for is not None and made_for != (found := revision(model)):
        raise InputError(
            f"Expected the model with revision {made_for}, for which the plan was made, got "
            f"revision {found}. Give the model that was measured, in the same number format "
            "(--dtype), or make a plan for this one."
        )


def versions(kernel: str = "blocks") -> dict[str, str]:
    """Versions of the packages that the numbers depend on, if a kernel computed attention."""
    compilers = {"sweep": ("numba",), "triton": ("triton",)}.get(kernel, ())
    names = ("torch", "transformers", "tokenizers", "numpy", *compilers)
    ours = {"python": platform.python_version(), "headcount": __version__}
    return ours | {name: version(name) for name in names}
