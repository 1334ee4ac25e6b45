"""Exporting: a compact model in other formats, in its folder, each run on the same texts.

ONNX is checked in ONNX Runtime, GGUF by transformers, which reads it back, and a program of
torch.export by torch.

What differs by more than rounding usually does has eight times the room that ONNX Runtime and torch
need on the dense model, in which zeros take the place of the pruned heads.

Steps in ONNX Runtime: the graphs for generation run token by token, and beside `generate`.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.artifact.comparing import Data, Inputs, compare, no_rounding, runner
from headcount.artifact.further_training import dense_twin
from headcount.artifact.gguf import check_can_be_gguf, write_gguf
from headcount.artifact.making import is_plain, write_head_card
from headcount.artifact.onnx import (
    export_onnx,
    export_program,
    onnx_runner,
    program_runner,
    run_session,
    session,
)
from headcount.artifact.onnx_generation import DECODER, ENCODER, PAST, PRESENT, export_generation
from headcount.artifact.staging import Format, replaced
from headcount.core import InputError, ModelError, reason
from headcount.corpora import TOKEN_TYPES, Corpus
from headcount.models import Loaded, as_loaded, load
from headcount.results import Certificate, Comparison, PruneRecord, weights_sha256
from headcount.tap import ERRORS, SampleRun, evaluating, tiny_inputs

STEPS = 8
"""Number of steps that are compared."""


@final
class OnnxGeneration:
    """The graphs of a folder in ONNX Runtime on the CPU.

    Args:
        folder: Folder with `decoder.onnx` and, of an encoder-decoder, `encoder.onnx`.
        threads: Number of threads; 0 leaves it to ONNX Runtime.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If ONNX Runtime can't load a file; the message says why.
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        encoder = folder / ENCODER
        self._decoder = session(folder / DECODER, threads)
        self._encoder = session(encoder, threads) if encoder.exists() else None
        outputs = [each.name for each in self._decoder.get_outputs()]
        self._pasts = [name.replace(PRESENT, PAST, 1) for name in outputs[1:]]
        self._own: Inputs = {}
        self._fixed: Inputs = {}

    def start(self, ids_BN: Tensor, mask_BN: Tensor) -> None:
        """Start a text: read the sources, and empty the cache.

        Args:
            ids_BN: Sources of an encoder-decoder; of a causal model only the number of rows counts.
            mask_BN: True at tokens; the mask of the first tokens of a causal model.
        """
        self._fixed = {"attention_mask": mask_BN}
        if self._encoder is not None:
            given = {"input_ids": ids_BN, "attention_mask": mask_BN}
            self._fixed |= run_session(self._encoder, given)
        self._own = {
            each.name: torch.zeros(len(ids_BN), each.shape[1], 0, each.shape[3])
            for each in self._decoder.get_inputs()
            if each.name in self._pasts
        }

    def step(self, ids_BN: Tensor) -> Tensor:
        """The logits of the last of some tokens that follow those before; mask them in `start`."""
        name = "input_ids" if self._encoder is None else "decoder_input_ids"
        logits, *presents = run_session(
            self._decoder, {name: ids_BN, **self._fixed, **self._own}
        ).values()
        self._own = dict(zip(self._pasts, presents, strict=True))
        if self._encoder is None:  # the next token
            mask_BN = self._fixed["attention_mask"]
            longer = torch.cat([mask_BN, torch.ones_like(mask_BN[:, :1])], 1)
            self._fixed["attention_mask"] = longer
        return logits


def compare_generation(
    loaded: Loaded,
    folder: Path,
    data: Data,
    forms: tuple[str, str],
    rounding: Callable[[], float] = no_rounding,
) -> list[Comparison]:
    """Compare the logits of `STEPS` steps of `generate` with those of the graphs.

    Every token is fed that `generate` writes greedily after the source, or after the first half of
    a causal model's text. Texts of one batch are padded on the left, as `generate` wants them.

    Args:
        loaded: Model.
        folder: Folder of the graphs.
        data: Data to compare on.
        forms: Names of the model and of the graphs.
        rounding: Measures how far two correct ways to compute the model are apart.
    """
    reference, other = forms
    runs = _Generating(loaded.model, OnnxGeneration(folder))
    made = Data(data.batches, data.sentences, data.names, data.sha256)
    forms_run = (reference, runs.stock), {other: runs.graphs}
    return compare(*forms_run, made, loaded.model.dtype, by_row=False, rounding=rounding)


@final
class _Generating:
    """Runners of a model and of its graphs, which get the tokens that the model wrote."""

    def __init__(self, model: PreTrainedModel, graphs: OnnxGeneration) -> None:
        self._model, self._graphs = model, graphs
        self._written: Tensor | None = None

    def stock(self, sample: SampleRun) -> list[Tensor]:
        """The logits of every step of `generate`."""
        model: Any = self._model
        ids_BN, mask_BN = self._prompt(sample)
        options = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "pad_token_id": 0}
        options |= {"num_beams": 1, "do_sample": False}
        options |= {"output_logits": True, "return_dict_in_generate": True}
        try:
            with evaluating(model), torch.inference_mode():
                found = model.generate(input_ids=ids_BN, attention_mask=mask_BN, **options)
        except ERRORS as error:
            raise ModelError(
                f"Expected {type(model).__name__} to generate, but it fails: {reason(error)}. "
                "Export it without --cache."
            ) from error
        self._written = found.sequences.cpu()
        return [logits.float().cpu() for logits in found.logits]

    def graphs(self, sample: SampleRun) -> list[Tensor]:
        """The logits of the graphs at the same tokens."""
        assert self._written is not None
        self._graphs.start(*self._prompt(sample))
        length = self._written.shape[1] - STEPS
        found = [self._graphs.step(self._written[:, :length])]
        for place in range(length, length + STEPS - 1):
            found.append(self._graphs.step(self._written[:, place : place + 1]))
        return [logits.float() for logits in found]

    def _prompt(self, sample: SampleRun) -> tuple[Tensor, Tensor]:
        ids_BN, mask_BN = sample.batch["input_ids"], sample.batch["attention_mask"]
        if self._model.config.is_encoder_decoder:
            return ids_BN, mask_BN
        half = (ids_BN.shape[1] + 1) // 2
        ids_BN, mask_BN = ids_BN[:, :half], mask_BN[:, :half]
        padding_B = half - mask_BN.sum(1)
        shifted = [
            torch.stack([row.roll(int(by)) for row, by in zip(each, padding_B, strict=True)])
            for each in (ids_BN, mask_BN)
        ]
        return shifted[0], shifted[1]


FOLDER, FILE, FORM = "onnx", "model.onnx", "ONNX"
INT8_FILE = "model_int8.onnx"
"""The same in 8 bits; a new export replaces the folder, and leaves none."""
CACHED = "ONNX with a cache"
"""Name of the graphs for generation in a certificate."""
GGUF_FILE, GGUF = "model.gguf", "GGUF"
PROGRAM_FILE, PROGRAM = "model.pt2", "torch.export"


def export(
    loaded: Loaded | PreTrainedModel,
    folder: str | Path,
    corpus: Corpus | None = None,
    cache: bool = False,
    to: Format = "onnx",
) -> Certificate:
    """Write a compact model in another format into its folder, if that computes the same.

    Args:
        loaded: Model of the folder.
        folder: Folder that `headcount compact` or `prune` wrote; or `finetune`, which writes no
            certificate and no card: then the certificate covers the exported form alone.
        corpus: Texts to compare on; None for a made-up batch.
        cache: Whether to write ONNX graphs for generation, too; see `export_generation`.
        to: The format.

    Raises:
        InputError: If the folder is not a compact model's, a package is missing, or the format
            can't hold such a model.
        ModelError: If the model can't be exported or, with a cache, does not generate text, or if
            the other format computes other numbers.
    """
    loaded = as_loaded(loaded)
    folder = Path(folder)
    certificate = _certificate_of_now(loaded, folder)
    if (folder / PruneRecord.FILE).exists():
        PruneRecord.read(folder)  # raises before anything is replaced
    forms = _FORMS[to] if cache or to != "onnx" else {FORM: _forward}
    if to == "gguf":
        check_can_be_gguf(loaded, is_plain(folder))
    data = with_types(loaded, Data.of(loaded, corpus))
    with replaced(folder / to) as staging:
        comparisons = [
            form(loaded, staging, data, partial(_of_dense, form, loaded, data))
            for form in forms.values()
        ]
        for comparison in comparisons:
            comparison.check_equal()
        for name in _FORMS[to]:
            certificate = certificate.without(name)
        _write_certificate(folder, certificate)  # if killed here, neither file is certified
    certificate = certificate.joined(comparisons)
    _write_certificate(folder, certificate)
    return certificate


_Form = Callable[[Loaded, Path, Data, Callable[[], float]], Comparison]
"""Exports a model into a folder and compares it, with a measure of rounding."""


def _gguf(loaded: Loaded, folder: Path, data: Data, rounding: Callable[[], float]) -> Comparison:
    write_gguf(loaded, folder / GGUF_FILE)
    again = load(folder / GGUF_FILE, dtype=str(loaded.model.dtype).removeprefix("torch.")).model
    reference, others = ("reloaded", runner(loaded.model)), {GGUF: runner(again)}
    return compare(reference, others, data, loaded.model.dtype, rounding=rounding)[0]


def _program(loaded: Loaded, folder: Path, data: Data, rounding: Callable[[], float]) -> Comparison:
    path = folder / PROGRAM_FILE
    (inputs,) = with_types(loaded, Data([tiny_inputs(loaded.model)])).batches
    export_program(loaded.model, inputs, path)
    reference, others = ("reloaded", runner(loaded.model)), {PROGRAM: program_runner(path, inputs)}
    return compare(reference, others, data, loaded.model.dtype, rounding=rounding)[0]


def _forward(loaded: Loaded, folder: Path, data: Data, rounding: Callable[[], float]) -> Comparison:
    path = folder / FILE
    (inputs,) = with_types(loaded, Data([tiny_inputs(loaded.model)])).batches
    export_onnx(loaded.model, inputs, path)
    reference, others = ("reloaded", runner(loaded.model)), {FORM: onnx_runner(path)}
    return compare(reference, others, data, loaded.model.dtype, rounding=rounding)[0]


def _generation(
    loaded: Loaded, folder: Path, data: Data, rounding: Callable[[], float]
) -> Comparison:
    export_generation(loaded, folder)
    return compare_generation(loaded, folder, data, ("reloaded", CACHED), rounding)[0]


_FORMS: Mapping[Format, Mapping[str, _Form]] = {
    "onnx": {FORM: _forward, CACHED: _generation},
    "gguf": {GGUF: _gguf},
    "torch-export": {PROGRAM: _program},
}
"""How each format is written and compared, by the name of the form in a certificate."""


def _of_dense(form: _Form, loaded: Loaded, data: Data) -> float:
    """How far an export of the dense model is from it, as a share of its largest output.

    0 if the class makes no dense model, as where layers share a table.
    """
    with TemporaryDirectory() as folder, suppress(InputError, ModelError):
        return form(dense_twin(loaded), Path(folder), data, no_rounding).share
    return 0.0


def with_types(loaded: Loaded, data: Data) -> Data:
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
        int8 = record.int8 if (folder / FOLDER / INT8_FILE).exists() else None
        write_head_card(folder, replace(record, comparisons=certificate.comparisons, int8=int8))


def _certificate_of_now(loaded: Loaded, folder: Path) -> Certificate:
    """The certificate of the current weights: without comparisons if training changed them."""
    plan = getattr(loaded.model.config, "head_plan", None)
    if plan is None or any(
        (folder / name).exists() for name in (Certificate.FILE, PruneRecord.FILE)
    ):
        return Certificate.read(folder).of_now(folder)
    return Certificate(plan["sha256"], weights_sha256(folder), ())
