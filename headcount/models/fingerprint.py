"""Signature: one string that says what a number was measured with, as in sacreBLEU."""

import hashlib
import json
from importlib.metadata import version
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.models.loading import Loaded

GATES = "headcount_gates"
"""Name of the submodule with the gates of a gating block; not part of the model's revision."""


def signature(loaded: Loaded, corpus_sha256: str, **options: object) -> str:
    """`headcount:0.1.0|model:bert|revision:...|tokenizer:...|corpus:...|...|transformers:...`.

    Options appear in the order given. Options that are None, and a missing tokenizer, are left
    out.
    """
    model, tokenizer = loaded.model, loaded.tokenizer
    reads = {} if tokenizer is None else {"tokenizer": tokenizer_revision(tokenizer)}
    parts = {
        "headcount": version("headcount"),
        "model": model.config.model_type,
        "revision": revision(model),
        **reads,
        "corpus": corpus_sha256[:12],
        **{name: value for name, value in options.items() if value is not None},
        "dtype": str(model.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items())


def measured_revision(signature: str) -> str | None:
    """The model revision named in a signature.

    >>> measured_revision("headcount:0.1.0|model:bert|revision:86741b4e3f53|corpus:5f2c")
    '86741b4e3f53'
    """
    parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
    return parts.get("revision")


def tokenizer_revision(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash over what decides the tokens of a text; for a slow tokenizer, its vocabulary."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules: dict[str, Any] = {"vocabulary": sorted(tokenizer.get_vocab().items())}
    if backend is not None:
        rules = json.loads(backend.to_str())
        for state in ("truncation", "padding"):  # left by the last call
            rules.pop(state, None)
    reported = [type(tokenizer).__name__, rules, tokenizer.special_tokens_map]
    if hasattr(tokenizer, "tgt_lang"):
        reported += [getattr(tokenizer, "src_lang", None), tokenizer.tgt_lang]
    return hashlib.sha256(json.dumps(reported, default=str).encode()).hexdigest()[:12]


def revision(model: PreTrainedModel) -> str:
    """Hash over the model's parameters, which changes whenever the model is trained."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        if name.startswith(f"{GATES}."):
            continue
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
        digest.update(parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:12]
