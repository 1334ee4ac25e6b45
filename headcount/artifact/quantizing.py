r"""Quantizing: an ONNX export in 8 bits, and what that costs on a task.

$$x \approx s_x (q_x - z_x), \quad W_{ij} \approx s_j (q_{ij} - z_j), \qquad
q_x, q_{ij} \in \{0, ..., 255\}$$

Weights W of linear maps and embeddings are rounded once, with a scale s and a zero point z for each
output j of a map; activations x are rounded in each forward pass, with one scale for each tensor
(dynamic quantization). This is no equal form, so no certificate covers it: the task's score of the
8-bit file in ONNX Runtime is compared with that of the model itself, example by example.

Reference: Integer Quantization for Deep Learning Inference (Wu et al., 2020), sections 3 and 4,
https://arxiv.org/abs/2004.09602; written by onnxruntime.quantization.quantize_dynamic
Departure: weights have no sign, since processors without VNNI saturate products of bytes with one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from headcount.artifact.exporting import FILE, FOLDER, INT8_FILE
from headcount.artifact.making import write_head_card
from headcount.artifact.onnx import quiet, run_session, session
from headcount.core import InputError, ModelError, write_atomically
from headcount.models import Loaded
from headcount.pruning import changes
from headcount.results import Int8Record, PruneRecord, weights_sha256
from headcount.tasks import Evaluation, Task, evaluate


def quantize(loaded: Loaded, folder: Path, task: Task, names: Sequence[str] = ()) -> Int8Record:
    """Write the ONNX export of a folder in 8 bits, and measure what that costs on a task.

    Args:
        loaded: Model of the folder.
        folder: Folder of a compact model, with `onnx/model.onnx`.
        task: Task on data that chose nothing.
        names: Names of the task's files.

    Raises:
        InputError: If there is no export, or the `onnx` extra is missing.
        ModelError: If the task runs another part of the model than the export holds.
    """
    source = folder / FOLDER / FILE
    if not source.exists():
        raise InputError(f"Expected an export in {source}, got none. Export with --to onnx first.")
    target, found = source.with_name(INT8_FILE), dict[str, Evaluation]()

    def written(new: Path) -> None:
        """Write the file, and keep what the task says of the model and of it."""
        _write(source, new)
        found["model"] = evaluate(loaded.model, task, texts=True)
        with running(loaded.model, new):
            found["int8"] = evaluate(loaded.model, task, texts=True)

    write_atomically(target, written)
    record = Int8Record(
        bytes_after=target.stat().st_size,
        bytes_before=sum(path.stat().st_size for path in source.parent.glob(f"{FILE}*")),
        sha256=sha256(target.read_bytes()).hexdigest(),
        weights_sha256=weights_sha256(folder),
        data=tuple(Path(name).name for name in names),
        change=changes(task, found["model"], found["int8"]),
    )
    if (folder / PruneRecord.FILE).exists():
        write_head_card(folder, replace(PruneRecord.read(folder), int8=record))
    return record


def _write(source: Path, target: Path) -> None:
    session(source)  # names the extra that is missing
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quiet():
        quantize_dynamic(source, target, weight_type=QuantType.QUInt8, per_channel=True)


@contextmanager
def running(model: PreTrainedModel, path: Path) -> Iterator[None]:
    """Inside, the model's forward is that of an ONNX file in ONNX Runtime.

    Args:
        model: Model that the file was exported from.
        path: The file.

    Raises:
        ModelError: If the model was not run inside, or without an input that the file needs.
    """
    loaded, runs, its = session(path), 0, cast(Any, model)
    needed = [each.name for each in loaded.get_inputs()]

    def forward(**given: Any) -> ModelOutput:
        nonlocal runs
        runs += 1
        tensors = {name: each for name, each in given.items() if isinstance(each, Tensor)}
        if "token_type_ids" in needed and "token_type_ids" not in tensors:
            tensors["token_type_ids"] = torch.zeros_like(tensors["input_ids"])
        if missing := [name for name in needed if name not in tensors]:
            raise ModelError(
                f"Expected the task to give {', '.join(missing)}, which the export reads. Measure "
                "it on another task."
            )
        return ModelOutput(run_session(loaded, tensors))

    its.forward = forward
    try:
        yield
    finally:
        del its.forward
    if not runs:
        raise ModelError(
            f"Expected a task that runs all of {type(model).__name__}, as the export does, got one "
            "that runs a part of it. Export the model without its head."
        )
