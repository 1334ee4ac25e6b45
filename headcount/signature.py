"""Signature: one string that says what a number was measured with, as sacreBLEU has it."""

import hashlib
from importlib.metadata import version

import torch
from transformers import PreTrainedModel

GATES = "headcount_gates"
"""Of the submodule that gates are in a gating block; it is no part of the model's revision."""


def signature(model: PreTrainedModel, corpus_sha256: str, **options: object) -> str:
    """`headcount:0.1.0|model:bert|revision:...|corpus:...|...|torch:...|transformers:...`.

    Options come in the order they are given; those that are None are left out.
    """
    parts = {
        "headcount": version("headcount"),
        "model": model.config.model_type,
        "revision": revision(model),
        "corpus": corpus_sha256[:12],
        **{name: value for name, value in options.items() if value is not None},
        "dtype": str(model.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items())


def measured_revision(signature: str) -> str | None:
    """The revision of the model that a signature names.

    >>> measured_revision("headcount:0.1.0|model:bert|revision:86741b4e3f53|corpus:5f2c")
    '86741b4e3f53'
    """
    parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
    return parts.get("revision")


def revision(model: PreTrainedModel) -> str:
    """Hash over the model's parameters, which a copy that has learned shares with no other."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        if name.startswith(f"{GATES}."):
            continue
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
        digest.update(parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:12]
