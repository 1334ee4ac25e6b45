"""Exporting: the ONNX files in a compact model's folder, checked in ONNX Runtime."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.artifact.comparing import Data, Inputs, compare, runner
from headcount.artifact.head_card import write_head_card
from headcount.artifact.onnx import export_onnx, onnx_runner
from headcount.artifact.onnx_generation import export_generation
from headcount.artifact.onnx_steps import compare_generation
from headcount.artifact.staging import replaced
from headcount.corpora import TOKEN_TYPES, Corpus
from headcount.models import Loaded, as_loaded
from headcount.results import Certificate, PruneRecord, weights_sha256
from headcount.tap import tiny_inputs

FOLDER, FILE, FORM = "onnx", "model.onnx", "ONNX"
CACHED = "ONNX with a cache"
"""Name of the graphs for generation in a certificate."""


def export(
    loaded: Loaded | PreTrainedModel,
    folder: str | Path,
    corpus: Corpus | None = None,
    cache: bool = False,
) -> Certificate:
    """Write `onnx/model.onnx` into a compact model's folder, if ONNX Runtime agrees with it.

    Args:
        loaded: Model of the folder.
        folder: Folder that `headcount compact` or `prune` wrote; or `finetune`, which writes no
            certificate and no card: then the certificate covers the exported form alone.
        corpus: Texts to compare on; None for a made-up batch.
        cache: Whether to write graphs for generation, too; see `onnx_generation`.

    Raises:
        InputError: If the folder is not a compact model's, or the `onnx` extra is missing.
        ModelError: If the model can't be exported or, with a cache, does not generate text, or if
            ONNX Runtime computes other numbers.
    """
    loaded = as_loaded(loaded)
    folder = Path(folder)
    certificate = _certificate_of_now(loaded, folder)
    if (folder / PruneRecord.FILE).exists():
        PruneRecord.read(folder)  # raises before anything is replaced
    data = _with_types(loaded, Data.of(loaded, corpus))
    with replaced(folder / FOLDER) as staging:
        path = staging / FILE
        (inputs,) = _with_types(loaded, Data([tiny_inputs(loaded.model)])).batches
        export_onnx(loaded.model, inputs, path)
        reloaded = ("reloaded", runner(loaded.model))
        comparisons = compare(reloaded, {FORM: onnx_runner(path)}, data, loaded.model.dtype)
        if cache:
            export_generation(loaded, staging)
            comparisons += compare_generation(loaded, staging, data, ("reloaded", CACHED))
        for comparison in comparisons:
            comparison.check_equal()
        _write_certificate(
            folder, certificate.without(FORM).without(CACHED)
        )  # if killed here, neither file is certified
    certificate = certificate.without(CACHED).joined(comparisons)
    _write_certificate(folder, certificate)
    return certificate


def _with_types(loaded: Loaded, data: Data) -> Data:
    """The batches with token types, as for a pair of texts, if the model takes texts and types."""
    if loaded.tokenizer is None or not loaded.takes_token_types:
        return data
    return replace(
        data, batches=[each | {TOKEN_TYPES: _second_half(each)} for each in data.batches]
    )


def _second_half(batch: Inputs) -> Tensor:
    """0 for the first half of the tokens of a batch, 1 for the rest."""
    mask_RN = batch["attention_mask"]
    place_N = torch.arange(mask_RN.shape[1], device=mask_RN.device)
    return (place_N >= mask_RN.shape[1] // 2).long().expand_as(mask_RN).contiguous()


def _write_certificate(folder: Path, certificate: Certificate) -> None:
    certificate.write(folder)
    if (folder / PruneRecord.FILE).exists():
        record = PruneRecord.read(folder)
        write_head_card(folder, replace(record, comparisons=certificate.comparisons))


def _certificate_of_now(loaded: Loaded, folder: Path) -> Certificate:
    """The certificate of the current weights: without comparisons if training changed them."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None or any(
        (folder / name).exists() for name in (Certificate.FILE, PruneRecord.FILE)
    ):
        return Certificate.read(folder).of_now(folder)
    return Certificate(plan["sha256"], weights_sha256(folder), ())
