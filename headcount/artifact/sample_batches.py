"""Batches: text as inputs of a model's forward, or made-up inputs for models that read no text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from headcount.corpora import Corpus, Encoded, Encoder, Sentence, groups_by_length
from headcount.models import Loaded
from headcount.tap import tiny_inputs
from headcount.tasks import Task, text_inputs

MAX_TOKENS = 1024
"""Number of padded tokens in a batch."""

Inputs = dict[str, Tensor]


@final
@dataclass(frozen=True)
class Data:
    """The data that models are compared on."""

    batches: list[Inputs]
    sentences: int = 0
    """Number of sentences; 0 for a made-up batch."""
    names: tuple[str, ...] = ()
    sha256: str | None = None

    @classmethod
    def of_task(cls, task: Task, device: torch.device, files: Sequence[str] = ()) -> "Data":
        """All examples of a task, with the names of its files."""
        names = tuple(Path(file).name for file in files)
        batches = [batch.to(device).inputs for batch in task.batches(MAX_TOKENS)]
        return cls(batches, task.num_examples, names, task.sha256)

    @classmethod
    def of(cls, loaded: Loaded, corpus: Corpus | None) -> "Data":
        """The batches of a corpus, with targets for an encoder-decoder; a made-up one for None."""
        if corpus is None:
            return cls([tiny_inputs(loaded.model)])
        sentences, device = list(corpus), loaded.model.device
        batches = [
            {name: tensor.to(device) for name, tensor in batch.items()}
            for batch in _batches(loaded.encoder(), sentences)
        ]
        return cls(batches, len(sentences), corpus.names, corpus.sha256())


def _batches(encoder: Encoder, sentences: Sequence[Sentence]) -> Iterator[Inputs]:
    for pairs in groups_by_length(encoder.encode(sentences), MAX_TOKENS):
        batch = _padded([pair.source for pair in pairs], encoder.pad_id, "")
        targets = [pair.target for pair in pairs if pair.target is not None]
        yield batch | (_padded(targets, encoder.pad_id, "decoder_") if targets else {})


def _padded(rows: Sequence[Encoded], pad: int, prefix: str) -> Inputs:
    inputs = text_inputs([row.ids for row in rows], pad)
    return {f"{prefix}{name}": each for name, each in inputs.items()}
