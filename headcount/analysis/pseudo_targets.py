"""Translating: a model's own greedy translations, used as targets if a corpus has only sources."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from accelerate.utils import gather_object
from transformers import PreTrainedModel

from headcount.core import (
    CorpusError,
    InputError,
    Kept,
    processes,
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
from headcount.models import revision, tokenizer_revision
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
    us = processes()
    file = state / f"targets-{us.process_index}.json"
    key = "|".join(
        [
            f"revision:{revision(model)}",
            f"tokenizer:{tokenizer_revision(encoder.tokenizer)}",
            f"corpus:{corpus.sha256()[:12]}",
            f"limit:{corpus.limit}",
            f"max_length:{encoder.max_length}",
            f"processes:{us.num_processes}",
        ]
    )
    what, done = "the translations of an interrupted run", 0
    kept = Kept(file, key, what, tuple[str, ...], save_every)
    with evaluating(model), torch.inference_mode():
        for lines in kept.results(_chunks_of_process(model, encoder, corpus)):
            done += len(lines)
            progress(done)
    _write(path, gather_object([dict(kept)]))
    return corpus.with_targets(path)


def _check_not_silent(model: PreTrainedModel) -> None:
    if not model.can_generate():
        raise InputError(
            f"Expected parallel text (.tsv, or --source and --target), got sources only. "
            f"A {type(model).__name__} reads targets but does not generate them."
        )


def _write(path: Path, shares: Sequence[Lines]) -> None:
    """Write the translations of all processes, in the order of the corpus."""
    of_chunk = {int(number): lines for done in shares for number, lines in done.items()}
    lines = [line for number in sorted(of_chunk) for line in of_chunk[number]]
    text = "".join(f"{line}\n" for line in lines)
    if processes().is_main_process:
        write_text(path, text)
    processes().wait_for_everyone()
    if not path.exists():  # in this process's own folder
        write_text(path, text)


def _chunks_of_process(
    model: PreTrainedModel, encoder: Encoder, corpus: Corpus
) -> Iterator[tuple[str, Callable[[], tuple[str, ...]]]]:
    """The number of each chunk that this process translates, and what translates it."""
    us = processes()
    for number, sentences in enumerate(chunks(corpus, SENTENCES_AT_ONCE)):
        _check_targets(sentences)
        if number % us.num_processes == us.process_index:
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
    out_BN = model.generate(  # type: ignore[operator]
        input_ids=ids_BN.to(input_device(model)),
        attention_mask=mask_BN.to(input_device(model)),
        num_beams=1,
        do_sample=False,
        max_new_tokens=min(longest, encoder.max_length or longest),
        **language_in_generation(encoder.tokenizer),
    )
    texts = encoder.tokenizer.batch_decode(out_BN, skip_special_tokens=True)
    return tuple(" ".join(text.split()) for text in texts)
