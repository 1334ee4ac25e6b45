"""Translating: a model's own greedy translations, used as targets if a corpus has only sources."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from headcount.core import (
    CorpusError,
    InputError,
    Kept,
    is_main_process,
    wait_for_everyone,
    write_text,
)
from headcount.corpora import (
    Corpus,
    Encoder,
    Sentence,
    check_languages_set,
    chunks,
    language_in_generation,
)
from headcount.models.fingerprint import revision, tokenizer_revision
from headcount.tap import evaluating, input_device

SENTENCES_AT_ONCE = 64

Lines = Mapping[str, tuple[str, ...]]
"""Translations by chunk number, which is a string because JSON keys are."""


def translated(
    model: PreTrainedModel,
    encoder: Encoder,
    corpus: Corpus,
    path: Path,
    state: Path,
    save_every: float = 30.0,
    progress: Callable[[int], None] = lambda done: None,
) -> Corpus:
    """The corpus with the model's greedy translation of every source as its target.

    Under torchrun every process translates its share.

    Args:
        model: an encoder-decoder.
        encoder: makes the model's inputs.
        corpus: the sources.
        path: the file for the translations, one per line.
        state: a folder where each process stores its translations so far; those of an interrupted
            run are reused.
        save_every: seconds between two saves.
        progress: called with the number of sentences done.

    Raises:
        InputError: if an interrupted run translated with another model or other sources, if the
            languages of a multilingual model are not set, or if the model can't generate.
        CorpusError: for a sentence that already has a target.
    """
    check_languages_set(encoder.tokenizer)
    _check_not_silent(model)
    file = state / "targets.json"
    key = "|".join(
        [
            f"revision:{revision(model)}",
            f"tokenizer:{tokenizer_revision(encoder.tokenizer)}",
            f"corpus:{corpus.sha256()[:12]}",
            f"limit:{corpus.limit}",
            f"max_length:{encoder.max_length}",
        ]
    )
    what, done = "the translations of an interrupted run", 0
    kept = Kept(file, key, what, tuple[str, ...], save_every)
    with evaluating(model), torch.inference_mode():
        for lines in kept.results(_units(model, encoder, corpus)):
            done += len(lines)
            progress(done)
    _write(path, kept)
    return corpus.with_targets(path)


def _check_not_silent(model: PreTrainedModel) -> None:
    if not model.can_generate():
        raise InputError(
            f"Expected parallel text (.tsv, or --source and --target), got sources only. "
            f"A {type(model).__name__} reads targets but does not generate them."
        )


def _write(path: Path, lines: Lines) -> None:
    """Write the translations of all chunks, in the order of the corpus."""
    every = (line for number in sorted(lines, key=int) for line in lines[number])
    text = "".join(f"{line}\n" for line in every)
    if is_main_process():
        write_text(path, text)
    wait_for_everyone()
    if not path.exists():  # in this process's own folder
        write_text(path, text)


def _units(
    model: PreTrainedModel, encoder: Encoder, corpus: Corpus
) -> Iterator[tuple[str, Callable[[], tuple[str, ...]]]]:
    """The number of each chunk, and what translates it."""
    for number, sentences in enumerate(chunks(corpus, SENTENCES_AT_ONCE)):
        _check_targets(sentences)
        yield str(number), partial(_greedy, model, encoder, sentences)


def _check_targets(sentences: Sequence[Sentence]) -> None:
    for sentence in sentences:
        if sentence.target is not None:
            raise CorpusError(
                f"{sentence.origin}: expected no target, since the corpus begins with sources that "
                "have none, got one. Give targets for all sentences or for none."
            )


def _greedy(
    model: PreTrainedModel, encoder: Encoder, sentences: Sequence[Sentence]
) -> tuple[str, ...]:
    rows = [torch.tensor(encoded.ids) for encoded in encoder.sources(sentences)]
    ids_BN = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=encoder.pad_id)
    lengths_B = torch.tensor([len(row) for row in rows])
    mask_BN = (torch.arange(ids_BN.shape[1]) < lengths_B[:, None]).long()
    # Twice the source plus a margin is ample for a translation and ends repetitions.
    longest = 2 * ids_BN.shape[1] + 16
    device, longest = input_device(model), min(longest, encoder.max_length or longest)
    inputs = {"input_ids": ids_BN.to(device), "attention_mask": mask_BN.to(device)}
    return greedy(model, encoder, inputs, longest)


def greedy(
    model: PreTrainedModel, encoder: Encoder, inputs: Mapping[str, torch.Tensor], longest: int
) -> tuple[str, ...]:
    """The greedy translations of some sources, each of a largest number of tokens."""
    out_BN = model.generate(  # type: ignore[operator]
        **inputs,
        num_beams=1,
        do_sample=False,
        max_new_tokens=longest,
        **language_in_generation(encoder.tokenizer),
    )
    texts = encoder.tokenizer.batch_decode(out_BN, skip_special_tokens=True)
    return tuple(" ".join(text.split()) for text in texts)
