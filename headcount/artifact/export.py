"""Export: ONNX beside a compact model, compared in ONNX Runtime for the certificate."""

from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from headcount.artifact.batches import Data, Inputs
from headcount.artifact.certificate import NAME, Certificate, compare, runner, weights_sha256
from headcount.artifact.head_card import RECORD, read_record, update_head_card
from headcount.artifact.onnx import export_onnx, onnx_runner
from headcount.artifact.staging import replaced
from headcount.corpora import TOKEN_TYPES, Corpus
from headcount.models.load import Loaded
from headcount.models.tiny_inputs import tiny_inputs

FOLDER, FILE, FORM = "onnx", "model.onnx", "ONNX"


def export(loaded: Loaded, folder: Path, corpus: Corpus | None) -> Certificate:
    """Write `onnx/model.onnx` into a compact model's folder, if ONNX Runtime agrees with it.

    Args:
        loaded: Model of the folder.
        folder: Folder that `headcount compact` or `prune` wrote; or `finetune`, which writes no
            certificate and no card: then the certificate covers the exported form alone.
        corpus: Texts to compare on; None for a made-up batch.

    Raises:
        InputError: If the folder is not a compact model's, or the `onnx` extra is missing.
        ModelError: If the model can't be exported, or ONNX Runtime computes other numbers.
    """
    certificate = _certificate_of_now(loaded, folder)
    if (folder / RECORD).exists():
        read_record(folder)  # raises before anything is replaced
    data = _with_types(loaded, Data.of(loaded, corpus))
    with replaced(folder / FOLDER) as staging:
        path = staging / FILE
        (inputs,) = _with_types(loaded, Data([tiny_inputs(loaded.model)])).batches
        export_onnx(loaded.model, inputs, path)
        reloaded = ("reloaded", runner(loaded.model))
        comparisons = compare(reloaded, {FORM: onnx_runner(path)}, data, loaded.model.dtype)
        for comparison in comparisons:
            comparison.refuse_unequal()
        _tell(folder, certificate.without(FORM))  # if killed here, neither file is certified
    certificate = certificate.joined(comparisons)
    _tell(folder, certificate)
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


def _tell(folder: Path, certificate: Certificate) -> None:
    certificate.write(folder)
    if (folder / RECORD).exists():
        update_head_card(folder, comparisons=[asdict(each) for each in certificate.comparisons])


def _certificate_of_now(loaded: Loaded, folder: Path) -> Certificate:
    """The certificate of the current weights: without comparisons if training changed them."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None or any((folder / name).exists() for name in (NAME, RECORD)):
        return Certificate.read(folder).of_now(folder)
    return Certificate(plan["sha256"], weights_sha256(folder), ())
