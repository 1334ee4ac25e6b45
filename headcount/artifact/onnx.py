"""ONNX: a model's forward as a graph, and any graph in ONNX Runtime.

The graph of a forward is that of a batch, with dynamic axes for rows and tokens. It holds the
shapes of every layer, so layers may keep different numbers of heads. Graphs that generate are in
`onnx_generation.py`.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.artifact.comparing import Inputs, Run
from headcount.core import InputError, ModelError, reason
from headcount.tap import evaluating, outputs, run_tiny, runs_whole


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
    dynamic = tuple(_axes(name, tensor) for name, tensor in inputs.items())
    found = _output_names(model, inputs)
    with evaluating(model):
        write_onnx(_Forward(model, names), inputs, found, dynamic, path=path)


def write_onnx(
    module: nn.Module,
    inputs: Inputs,
    outputs: Sequence[str],
    dynamic: Sequence[Mapping[int, Any]],
    *,
    path: Path,
) -> None:
    """Write a module as ONNX.

    Args:
        module: Module whose forward takes the inputs in their order; its part `model` is exported.
        inputs: Sample of the inputs by name.
        outputs: Names of the outputs.
        dynamic: Axes of each input whose sizes are free.
        path: File to write; large weights are written beside it.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If the module can't be exported; the message says why.
    """
    _runtime()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with torch.no_grad(), quiet():
            torch.onnx.export(
                module,
                tuple(inputs.values()),
                path,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_shapes=(tuple(dynamic),),
                dynamo=True,
                verbose=False,
            )
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        name = type(module.model).__name__
        raise ModelError(f"{name} could not be exported to ONNX: {reason(error)}") from error


def export_program(model: PreTrainedModel, inputs: Inputs, path: Path) -> None:
    """Write the model's forward as a program of torch.export.

    Args:
        model: Model to export.
        inputs: Batch of two rows or more; its sizes stay dynamic.
        path: File to write.

    Raises:
        ModelError: If the model can't be exported; the message says why.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    dynamic = tuple(_axes(name, tensor) for name, tensor in inputs.items())
    try:
        with evaluating(model), torch.no_grad(), quiet():
            module = _Forward(model, list(inputs))
            made = torch.export.export(
                module, tuple(inputs.values()), dynamic_shapes=(dynamic,), strict=False
            )
            torch.export.save(made, path)
    except (RuntimeError, ValueError) as error:  # of the tracer, and of its constraints
        raise ModelError(
            f"{type(model).__name__} could not be exported by torch.export: {reason(error)}"
        ) from error


def program_runner(path: Path, inputs: Inputs) -> Run:
    """A runner for a program of torch.export.

    Args:
        path: The file.
        inputs: Inputs that it takes, in their order.
    """
    program, names = torch.export.load(path).module(), list(inputs)
    return lambda sample: list(program(*(sample.batch[name] for name in names)))


def session(path: Path, threads: int = 0) -> Any:
    """An ONNX file in ONNX Runtime on the CPU.

    Args:
        path: The file.
        threads: Number of threads; 0 leaves it to ONNX Runtime.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If ONNX Runtime can't load the file; the message says why.
    """
    runtime = _runtime()
    with _reported():
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_runner(path: Path) -> Run:
    """A runner for an ONNX file in ONNX Runtime on the CPU.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If ONNX Runtime can't load the file or run a batch; the message says why.
    """
    loaded = session(path)
    return lambda sample: [*run_session(loaded, sample.batch).values()]


def run_session(loaded: Any, given: Mapping[str, Tensor]) -> Inputs:
    """The outputs of a session by name; it takes those of the given inputs that it knows.

    Raises:
        ModelError: If ONNX Runtime can't run them; the message says why.
    """
    taken = {each.name for each in loaded.get_inputs()}
    names = [each.name for each in loaded.get_outputs()]
    feed = {name: each.cpu().numpy() for name, each in given.items() if name in taken}
    with _reported():
        return dict(zip(names, map(torch.from_numpy, loaded.run(None, feed)), strict=True))


class Graph(nn.Module):
    """A function of a model and of positional inputs, which have names."""

    def __init__(self, model: PreTrainedModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def given(self, inputs: Sequence[Tensor]) -> Inputs:
        """The inputs by their names."""
        return dict(zip(self.names, inputs, strict=True))


@final
class _Forward(Graph):
    """The model as a function of positional inputs that returns a tuple of tensors."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the order of `outputs`."""
        return tuple(outputs(run_tiny(self.model, self.given(inputs))))


def _axes(name: str, tensor: Tensor) -> dict[int, Any]:
    """The dynamic axes of an input: rows and tokens, but not pixels or sound features."""
    return dict.fromkeys((0,) if tensor.is_floating_point() else (0, 1), torch.export.Dim.DYNAMIC)


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
def quiet() -> Iterator[None]:
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
