"""Translating: a model's own greedy translations, the targets where a corpus has sources only."""

import time
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

import torch
from accelerate.utils import gather_object
from transformers import PreTrainedModel

from headcount.corpora import Corpus, Encoder, Sentence
from headcount.corpora.census import chunks
from headcount.corpora.languages import language_in_generation, refuse_unset_languages
from headcount.errors import CorpusError, InputError
from headcount.files import write_text
from headcount.keyed import read_keyed, write_keyed
from headcount.models.selfcheck import evaluating
from headcount.processes import processes
from headcount.signature import revision, tokenizer_revision

SENTENCES_AT_ONCE = 64

Lines = dict[str, list[str]]
"""Translations by the number of their chunk, a string as JSON has it."""


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
        encoder: makes its inputs.
        corpus: sources.
        path: where the translations go, a line each.
        state: a folder where each process keeps what it has translated; those that an interrupted
            run has kept there are taken.
        save_every: seconds between two savings.
        progress: is told how many sentences are done.

    Raises:
        InputError: if an interrupted run has made them with another model, or of other sources; or
            the languages of a multilingual model are not set, or the model can't generate.
        CorpusError: for a sentence that has a target.
    """
    refuse_unset_languages(encoder.tokenizer)
    _refuse_silent(model)
    us = processes()
    kept = state / f"targets-{us.process_index}.json"
    key = "|".join([
        f"revision:{revision(model)}", f"tokenizer:{tokenizer_revision(encoder.tokenizer)}",
        f"corpus:{corpus.sha256()[:12]}", f"limit:{corpus.limit}",
        f"max_length:{encoder.max_length}", f"processes:{us.num_processes}",
    ])  # fmt: skip
    done: Lines = read_keyed(kept, key, "what an interrupted run has translated")
    saved = time.monotonic()
    try:
        for number, lines in _translations(model, encoder, corpus, done):
            done[number] = lines
            progress(sum(map(len, done.values())))
            if time.monotonic() - saved >= save_every:
                write_keyed(kept, key, done)
                saved = time.monotonic()
    finally:  # after Ctrl-C too
        if done:
            write_keyed(kept, key, done)
    _write(path, gather_object([done]))
    return corpus.with_targets(path)


def _refuse_silent(model: PreTrainedModel) -> None:
    if not model.can_generate():
        raise InputError(
            f"parallel text (.tsv, or --source and --target) was expected, since a "
            f"{type(model).__name__} reads targets but makes none; found sources only"
        )


def _write(path: Path, shares: Sequence[Lines]) -> None:
    """What all processes have translated, in the order of the corpus."""
    of_chunk = {int(number): lines for done in shares for number, lines in done.items()}
    lines = [line for number in sorted(of_chunk) for line in of_chunk[number]]
    text = "".join(f"{line}\n" for line in lines)
    if processes().is_main_process:
        write_text(path, text)
    processes().wait_for_everyone()
    if not path.exists():  # in a folder of this process's own
        write_text(path, text)


def _translations(
    model: PreTrainedModel, encoder: Encoder, corpus: Corpus, done: Container[str]
) -> Iterator[tuple[str, list[str]]]:
    """The number of each chunk of this process that is not done, with its translations."""
    us = processes()
    with evaluating(model), torch.inference_mode():
        for number, sentences in enumerate(chunks(corpus, SENTENCES_AT_ONCE)):
            _refuse_targets(sentences)
            if number % us.num_processes == us.process_index and str(number) not in done:
                yield str(number), _greedy(model, encoder, sentences)


def _refuse_targets(sentences: Sequence[Sentence]) -> None:
    for sentence in sentences:
        if sentence.target is not None:
            raise CorpusError(
                f"{sentence.origin}: expected no target, since the corpus begins with sources that "
                "have none, found one; give targets for all sentences or for none."
            )


def _greedy(model: PreTrainedModel, encoder: Encoder, sentences: Sequence[Sentence]) -> list[str]:
    rows = [torch.tensor(encoded.ids) for encoded in encoder.sources(sentences)]
    ids_BN = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=encoder.pad_id)
    lengths_B = torch.tensor([len(row) for row in rows])
    mask_BN = (torch.arange(ids_BN.shape[1]) < lengths_B[:, None]).long()
    # Twice the source and some more is plenty for a translation, and ends one that repeats itself.
    longest = 2 * ids_BN.shape[1] + 16
    out_BN = model.generate(  # type: ignore[operator]
        input_ids=ids_BN.to(model.device),
        attention_mask=mask_BN.to(model.device),
        num_beams=1,
        do_sample=False,
        max_new_tokens=min(longest, encoder.max_length or longest),
        **language_in_generation(encoder.tokenizer),
    )
    texts = encoder.tokenizer.batch_decode(out_BN, skip_special_tokens=True)
    return [" ".join(text.split()) for text in texts]
