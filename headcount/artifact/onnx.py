"""ONNX: a compact model for ONNX Runtime, checked in it.

The forward of a batch is exported, with axes for rows and tokens; a decoder without its cache. The
shapes of every layer are in the graph, so that layers may keep different numbers of heads.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.artifact.batches import Inputs
from headcount.errors import InputError, ModelError
from headcount.models.selfcheck import evaluating, outputs
from headcount.models.tiny_inputs import run_tiny, runs_whole


def export_onnx(model: PreTrainedModel, inputs: Inputs, path: Path) -> None:
    """Write the model's forward as ONNX.

    Args:
        model: what to export.
        inputs: a batch of two rows or more; its sizes do not become fixed.
        path: the file; large weights lie beside it.

    Raises:
        InputError: without the `onnx` extra.
        ModelError: if the model can't be exported; says why.
    """
    _runtime()
    if not runs_whole(model):
        raise ModelError(
            "a model whose forward takes its inputs as they are was expected; "
            f"{type(model).__name__} makes its decoder's inputs of its source and looks for the "
            "ends of sentences there, which is not exported: take it without its head"
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


def onnx_runner(path: Path) -> Callable[[Inputs], list[Tensor]]:
    """What ONNX Runtime makes of a file on the CPU.

    Raises:
        InputError: without the `onnx` extra.
        ModelError: if ONNX Runtime can't run it, then or on a batch; says why.
    """
    runtime = _runtime()
    with _told():
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Inputs) -> list[Tensor]:
        given = {each.name for each in session.get_inputs()}
        feed = {name: each.cpu().numpy() for name, each in inputs.items() if name in given}
        with _told():
            return [torch.from_numpy(each) for each in session.run(None, feed)]

    return run


@final
class _Forward(nn.Module):
    """The model's outputs as a tuple of tensors, from inputs by position."""

    def __init__(self, model: PreTrainedModel, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """As `outputs` lists them."""
        return tuple(outputs(run_tiny(self.model, dict(zip(self.names, inputs, strict=True)))))


def _axes(name: str, tensor: Tensor) -> dict[int, Any]:
    """Rows and tokens vary; pixels and sound features don't."""
    if tensor.is_floating_point():
        return {0: torch.export.Dim.DYNAMIC}
    return {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}


def _output_names(model: PreTrainedModel, inputs: Inputs) -> list[str]:
    """As transformers calls them."""
    with evaluating(model), torch.inference_mode():
        found = run_tiny(model, inputs)
    shown = {id(each) for each in outputs(found)}
    return [str(name) for name, value in found.items() if id(value) in shown]


@contextmanager
def _told() -> Iterator[None]:
    """ONNX Runtime's own exceptions, which share no class but Exception, as one of ours."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise ModelError(f"ONNX Runtime can't run the export: {error}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter tells of itself at length."""
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
            f"ONNX export needs packages of its own: pip install 'headcount[onnx]' ({error})"
        ) from error
    return onnxruntime
