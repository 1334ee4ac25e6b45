"""ONNX: a compact model exported to ONNX and checked in ONNX Runtime.

The export is the forward of a batch, with dynamic axes for rows and tokens, and without a decoder's
cache. The graph holds the shapes of every layer, so layers may keep different numbers of heads.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.artifact.comparing import Data, Inputs, Run, compare, runner
from headcount.artifact.head_card import write_head_card
from headcount.artifact.staging import replaced
from headcount.core import InputError, ModelError
from headcount.corpora import TOKEN_TYPES, Corpus
from headcount.models import Loaded
from headcount.results import CERTIFICATE, PRUNE, Certificate, PruneRecord, weights_sha256
from headcount.tap import SampleRun, evaluating, outputs, run_tiny, runs_whole, tiny_inputs


def export_onnx(model: PreTrainedModel, inputs: Inputs, path: Path) -> None:
    """Write the model's forward as ONNX.

    Args:
        model: Model to export.
        inputs: Batch of two rows or more; its sizes stay dynamic.
        path: File to write; large weights are written beside it.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If the model can't be exported; the message says why.
    """
    _runtime()
    if not runs_whole(model):
        raise ModelError(
            f"Expected a model whose forward uses its inputs unchanged, but {type(model).__name__} "
            "makes decoder inputs from its source and searches it for ends of sentences, which "
            "can't be exported. Export the model without its head."
        )
    names = list(inputs)
    dynamic = {name: _axes(name, tensor) for name, tensor in inputs.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with evaluating(model), torch.no_grad(), _quiet():
            torch.onnx.export(
                _Forward(model, names),
                tuple(inputs.values()),
                path,
                input_names=names,
                output_names=_output_names(model, inputs),
                dynamic_shapes=(tuple(dynamic[name] for name in names),),
                dynamo=True,
                verbose=False,
            )
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        raise ModelError(
            f"{type(model).__name__} could not be exported to ONNX: {str(error).splitlines()[0]}"
        ) from error


def onnx_runner(path: Path) -> Run:
    """A runner for an ONNX file in ONNX Runtime on the CPU.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If ONNX Runtime can't load the file or run a batch; the message says why.
    """
    runtime = _runtime()
    with _reported():
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(sample: SampleRun) -> list[Tensor]:
        given = {each.name for each in session.get_inputs()}
        feed = {name: each.cpu().numpy() for name, each in sample.batch.items() if name in given}
        with _reported():
            return [torch.from_numpy(each) for each in session.run(None, feed)]

    return run


@final
class _Forward(nn.Module):
    """The model as a function of positional inputs that returns a tuple of tensors."""

    def __init__(self, model: PreTrainedModel, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the order of `outputs`."""
        return tuple(outputs(run_tiny(self.model, dict(zip(self.names, inputs, strict=True)))))


def _axes(name: str, tensor: Tensor) -> dict[int, Any]:
    """The dynamic axes of an input: rows and tokens, but not pixels or sound features."""
    if tensor.is_floating_point():
        return {0: torch.export.Dim.DYNAMIC}
    return {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}


def _output_names(model: PreTrainedModel, inputs: Inputs) -> list[str]:
    """Names of the outputs in transformers."""
    with evaluating(model), torch.inference_mode():
        found = run_tiny(model, inputs)
    shown = {id(each) for each in outputs(found)}
    return [str(name) for name, value in found.items() if id(value) in shown]


@contextmanager
def _reported() -> Iterator[None]:
    """Raise ONNX Runtime's exceptions, which share no class but Exception, as a `ModelError`."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise ModelError(f"ONNX Runtime can't run the export: {error}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's long log."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(level)


def _runtime() -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"ONNX export needs extra packages: pip install 'headcount[onnx]' ({error})"
        ) from error
    return onnxruntime


FOLDER, FILE, FORM = "onnx", "model.onnx", "ONNX"


def export(loaded: Loaded, folder: str | Path, corpus: Corpus | None = None) -> Certificate:
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
    folder = Path(folder)
    certificate = _certificate_of_now(loaded, folder)
    if (folder / PRUNE).exists():
        PruneRecord.read(folder)  # raises before anything is replaced
    data = _with_types(loaded, Data.of(loaded, corpus))
    with replaced(folder / FOLDER) as staging:
        path = staging / FILE
        (inputs,) = _with_types(loaded, Data([tiny_inputs(loaded.model)])).batches
        export_onnx(loaded.model, inputs, path)
        reloaded = ("reloaded", runner(loaded.model))
        comparisons = compare(reloaded, {FORM: onnx_runner(path)}, data, loaded.model.dtype)
        for comparison in comparisons:
            comparison.check_equal()
        _write_certificate(
            folder, certificate.without(FORM)
        )  # if killed here, neither file is certified
    certificate = certificate.joined(comparisons)
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
    if (folder / PRUNE).exists():
        record = PruneRecord.read(folder)
        write_head_card(folder, replace(record, comparisons=certificate.comparisons))


def _certificate_of_now(loaded: Loaded, folder: Path) -> Certificate:
    """The certificate of the current weights: without comparisons if training changed them."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None or any((folder / name).exists() for name in (CERTIFICATE, PRUNE)):
        return Certificate.read(folder).of_now(folder)
    return Certificate(plan["sha256"], weights_sha256(folder), ())
