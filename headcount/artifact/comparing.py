"""Comparing: the gated, the compact, the reloaded and the exported model give the same numbers.

For every two forms, a comparison holds the largest absolute difference of their outputs over all
batches, and that difference as a share of the largest output. A share above the tolerance (float32:
1e-5; 1e-3 where every head was compared by itself) is a failure, unless rounding explains it: then
the tolerance is eight times what two correct ways to compute a model of this kind differ by. Data
are padded on the right and read at once; so gated, compact and reloaded model are compared on short
random batches, too, with every padding and, where the model generates, step by step with a cache.
Padding itself is not compared: runtimes disagree about a padding token that may see no other token,
as in a sliding window.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import DATA, ModelError, Steps, reason, silent_steps
from headcount.corpora import (
    Columns,
    Corpus,
    Encoded,
    EncodedPair,
    Encoder,
    ReadAs,
    groups_by_length,
)
from headcount.models import CUT, Loaded, as_loaded, batch_tokens, check_memory
from headcount.results import Comparison
from headcount.tap import (
    ERRORS,
    MOST,
    SPREADS,
    TOLERANCE,
    SampleRun,
    evaluating,
    exact_products,
    input_device,
    tiny_inputs,
)
from headcount.tasks import Task, text_inputs

MAX_TOKENS = 1024
"""The most padded tokens of a batch, whose logits may leave room for fewer."""
PIECE = 1 << 20
"""Number of outputs that are compared at once."""

Inputs = dict[str, Tensor]


@final
@dataclass(frozen=True)
class Data:
    """The data that models are compared on."""

    batches: list[Inputs]
    """The model's inputs, batch by batch."""
    sentences: int = 0
    """Number of sentences; 0 for a made-up batch."""
    names: tuple[str, ...] = ()
    """Names of the files; empty for a made-up batch."""
    sha256: str | None = None
    """Hash of the data; None for a made-up batch."""
    runs: Mapping[str, SampleRun] = field(default_factory=dict)
    """Runs on short random batches to compare besides, by a description."""

    @classmethod
    def of_task(cls, task: Task, model: PreTrainedModel, paths: Sequence[str] = ()) -> "Data":
        """All examples of a task, with the names of its files."""
        names = tuple(Path(path).name for path in paths)
        tokens, device = batch_tokens(model, MAX_TOKENS), input_device(model)
        batches = [batch.to(device).inputs for batch in task.batches(tokens)]
        return cls(batches, task.num_examples, names, task.sha256)

    @classmethod
    def of(cls, loaded: Loaded, corpus: Corpus | None) -> "Data":
        """The batches of a corpus, with targets for an encoder-decoder.

        Without a corpus, a made-up batch, or the inputs that the model was loaded with.
        """
        if corpus is None:
            given = loaded.inputs
            return cls([tiny_inputs(loaded.model) if given is None else dict(given)])
        sentences, device = list(corpus), input_device(loaded.model)
        encoder = loaded.encoder()
        pairs = encoder.encode(sentences)
        longest = max((pair.length for pair in pairs), default=1)
        tokens = batch_tokens(loaded.model, MAX_TOKENS)
        at_once = min(len(pairs), max(1, tokens // longest))
        check_memory(loaded, longest, advice=CUT, at_once=at_once)
        batches = [
            {name: tensor.to(device) for name, tensor in batch.items()}
            for batch in _batches(encoder, pairs, tokens)
        ]
        return cls(batches, len(sentences), corpus.names, corpus.sha256())


def certificate_corpus(
    loaded: Loaded | PreTrainedModel,
    data: Sequence[str | Path] | ReadAs = (),
    limit: int | None = None,
    columns: Columns | None = None,
) -> Corpus | None:
    """The texts that models are compared on; None for a model that takes no text.

    Args:
        loaded: Model to compare.
        data: Files of texts; headcount's own sample if there are none.
        limit: Largest number of sentences; all if None.
        columns: Names of the columns of tables, as in `Corpus`.

    Raises:
        ModelError: If texts are named for a model that takes none.
    """
    loaded = as_loaded(loaded)
    if loaded.tokenizer is None or loaded.model.main_input_name != "input_ids":
        if data:
            loaded.encoder()  # raises the error that says why
        return None
    sample = DATA / "sample.tsv"
    return Corpus(data or sample, limit=limit, columns=columns)


def _batches(encoder: Encoder, encoded: Sequence[EncodedPair], tokens: int) -> Iterator[Inputs]:
    for pairs in groups_by_length(encoded, lambda pair: pair.length, tokens):
        batch = _padded([pair.source for pair in pairs], encoder.pad_id, "")
        targets = [pair.target for pair in pairs if pair.target is not None]
        yield batch | (_padded(targets, encoder.pad_id, "decoder_") if targets else {})


def _padded(rows: Sequence[Encoded], pad: int, prefix: str) -> Inputs:
    inputs = text_inputs([row.ids for row in rows], pad)
    return {f"{prefix}{name}": each for name, each in inputs.items()}


def no_rounding() -> float:
    """The spread of models that are not known to round."""
    return 0.0


Run = Callable[[SampleRun], list[Tensor]]
"""A model's floating-point outputs for a batch that is read at once, or in steps with a cache."""


def compare(
    reference: tuple[str, Run],
    others: Mapping[str, Run],
    data: Data,
    dtype: torch.dtype,
    steps: Steps = silent_steps,
    tolerances: Mapping[torch.dtype, float] = TOLERANCE,
    by_row: bool = True,
    rounding: Callable[[], float] = no_rounding,
) -> list[Comparison]:
    """Run all forms on the data and compare each with the reference.

    Args:
        reference: Name and runner of the form that others are compared with.
        others: Names and runners of the other forms.
        data: Batches to run.
        dtype: Number format of the model, which sets the tolerance.
        steps: Called with the number of batches that all forms have run.
        tolerances: Largest share that needs no measure of rounding, by number format.
        by_row: Whether the reference can read rows one at a time, to measure its rounding.
        rounding: Measures by how much two correct ways to compute such a model differ, as a share
            of the largest output.

    Raises:
        ModelError: If another form does not run where the reference does.
    """
    name, run = reference
    samples = [*(("", SampleRun(batch)) for batch in data.batches), *data.runs.items()]
    largest, differences, passed = _differences(run, others, samples, steps)
    tolerance = tolerances[dtype]
    if any(_share(each, largest) > tolerance for each in differences.values()):
        own = max(_rounding(run, each) for _, each in samples) if by_row else 0.0
        spread = max(_share(own, largest), rounding())
        tolerance = max(tolerance, min(SPREADS * spread, MOST[dtype]))
    return [
        Comparison(
            what=f"{other} and {name}",
            difference=difference,
            largest_output=largest,
            share=_share(difference, largest),
            tolerance=tolerance,
            dtype=str(dtype).removeprefix("torch."),
            data=data.names,
            data_sha256=data.sha256,
            sentences=data.sentences,
            batches=len(data.batches) + len(passed),
            runs=tuple(passed),
        )
        for other, difference in differences.items()
    ]


def _differences(
    run: Run,
    others: Mapping[str, Run],
    samples: Sequence[tuple[str, SampleRun]],
    steps: Steps,
) -> tuple[float, dict[str, float], list[str]]:
    """The largest output of the reference, each form's largest difference, and the runs by name.

    Raises:
        ModelError: If another form does not run where the reference does.
    """
    largest, differences, passed = 0.0, dict.fromkeys(others, 0.0), list[str]()
    for number, (where, sample) in enumerate(samples):
        steps(number, len(samples))
        found = _on_sample(run, others, where, sample)
        if found is not None:
            largest = max(largest, found[0])
            differences = {name: max(differences[name], each) for name, each in found[1].items()}
            passed += [where] if where else []
    steps(len(samples), len(samples))
    return largest, differences, passed


def _on_sample(
    run: Run, others: Mapping[str, Run], where: str, sample: SampleRun
) -> tuple[float, dict[str, float]] | None:
    """The largest output of the reference, and each form's largest difference, on one sample.

    None where the reference does not run with a cache, as some stock models. Outputs are gone when
    this returns: those of a language model are nearly as large as its weights.
    """
    try:
        expected = _at_tokens(run(sample), sample)
    except ERRORS:
        if sample.cached:
            return None
        raise
    differences = {}
    for other, run_other in others.items():
        pairs = zip(_of_other(other, run_other, where, sample), expected, strict=True)
        differences[other] = max(_largest_difference(*pair) for pair in pairs)
    return max(0.0, *map(_largest, expected)), differences


def _of_other(name: str, run: Run, where: str, sample: SampleRun) -> list[Tensor]:
    """The outputs of a form that is compared with the reference, which has run on the sample."""
    try:
        return _at_tokens(run(sample), sample)
    except ERRORS as error:
        raise ModelError(
            f"Expected the {name} model to run {where or 'on the data'}, as the other one does, "
            f"but it does not: {reason(error)}. Nothing was written."
        ) from error


def _rounding(run: Run, sample: SampleRun) -> float:
    """How far a form's outputs for a batch are from those for its rows alone, added up otherwise.

    0 if it does not run so, or if rows are not the first axis of its outputs.
    """
    num_rows = len(next(iter(sample.batch.values())))
    try:
        whole = _at_tokens(run(sample), sample)
        found = []
        for row in range(num_rows):
            batch = {name: each[row : row + 1] for name, each in sample.batch.items()}
            alone = replace(sample, batch=batch)
            found.append(_at_tokens(run(alone), alone))
        rows = [torch.cat(parts) for parts in zip(*found, strict=True)]
    except ERRORS:
        return 0.0
    if [each.shape for each in rows] != [each.shape for each in whole]:
        return 0.0
    return max(_largest_difference(*pair) for pair in zip(rows, whole, strict=True))


def _share(difference: float, largest: float) -> float:
    """The difference as a share of the largest output, also where that is 0."""
    return difference / largest if largest else math.inf if difference else 0.0


def runner(model: PreTrainedModel) -> Run:
    """A runner for a torch model."""

    def run(sample: SampleRun) -> list[Tensor]:
        with evaluating(model), exact_products(), torch.inference_mode():
            return [tensor.cpu() for tensor in sample.outputs(model)]

    return run


def _at_tokens(outputs: Sequence[Tensor], sample: SampleRun) -> list[Tensor]:
    """The outputs with 0 at padding; the first output is the decoder's if there is a decoder."""
    masks = [mask.cpu() for mask in sample.masks]
    return [_masked(masks, outputs[0]), *(_masked(masks[::-1], each) for each in outputs[1:])]


def _masked(masks: Sequence[Tensor], output: Tensor) -> Tensor:
    """The output with 0 where the first mask of its shape is 0; unchanged without such a mask."""
    for mask in masks:
        if output.ndim > 2 and mask.shape == output.shape[:2]:
            if mask.all():  # saves a copy, which of a language model's logits is large
                return output
            return output.where(mask.view(*mask.shape, *(1,) * (output.ndim - 2)), 0)
    return output


def _largest(output: Tensor) -> float:
    """The largest absolute number, without a copy of the output."""
    least, most = output.aminmax()
    return max(-least.item(), most.item())


def _largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference; infinite where an output is not a number.

    In pieces, since temporary copies of a language model's logits are as large as its weights.
    """
    pieces = zip(*(each.flatten().split(PIECE) for each in (ours, theirs)), strict=True)
    return max((a - b).abs().nan_to_num(nan=torch.inf).max().item() for a, b in pieces)
