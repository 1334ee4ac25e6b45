"""Batches: text as inputs of a model's forward, or made-up inputs for models that read no text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
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
    """The model's inputs, batch by batch."""
    sentences: int = 0
    """Number of sentences; 0 for a made-up batch."""
    names: tuple[str, ...] = ()
    """Names of the files; empty for a made-up batch."""
    sha256: str | None = None
    """Hash of the data; None for a made-up batch."""

    @classmethod
    def of_task(cls, task: Task, device: torch.device, paths: Sequence[str] = ()) -> "Data":
        """All examples of a task, with the names of its files."""
        names = tuple(Path(path).name for path in paths)
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


def certificate_corpus(
    loaded: Loaded, data: Sequence[str | Path] = (), limit: int | None = None
) -> Corpus | None:
    """The texts that models are compared on; None for a model that takes no text.

    Args:
        loaded: Model to compare.
        data: Files of texts; headcount's own sample if there are none.
        limit: Largest number of sentences; all if None.

    Raises:
        ModelError: If texts are named for a model that takes none.
    """
    if loaded.tokenizer is None or loaded.model.main_input_name != "input_ids":
        if data:
            loaded.encoder()  # raises the error that says why
        return None
    sample = Path(str(files("headcount") / "data" / "sample.tsv"))
    return Corpus([Path(path) for path in data] or (sample,), limit=limit)


def _batches(encoder: Encoder, sentences: Sequence[Sentence]) -> Iterator[Inputs]:
    for pairs in groups_by_length(encoder.encode(sentences), MAX_TOKENS):
        batch = _padded([pair.source for pair in pairs], encoder.pad_id, "")
        targets = [pair.target for pair in pairs if pair.target is not None]
        yield batch | (_padded(targets, encoder.pad_id, "decoder_") if targets else {})


def _padded(rows: Sequence[Encoded], pad: int, prefix: str) -> Inputs:
    inputs = text_inputs([row.ids for row in rows], pad)
    return {f"{prefix}{name}": each for name, each in inputs.items()}
