"""Translating: a model's own greedy translations, the targets where a corpus has sources only."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel

from headcount.corpora import Corpus, Encoder, Sentence
from headcount.corpora.census import chunks
from headcount.files import write_text
from headcount.keyed import read_keyed, write_keyed
from headcount.models.selfcheck import evaluating
from headcount.signature import revision

SENTENCES_AT_ONCE = 64


def translated(
    model: PreTrainedModel,
    encoder: Encoder,
    corpus: Corpus,
    path: Path,
    state: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Corpus:
    """The corpus with the model's greedy translation of every source as its target.

    Args:
        model: an encoder-decoder.
        encoder: makes its inputs.
        corpus: sources.
        path: where the translations go, a line each; those that an interrupted run has made there
            are taken.
        state: a folder where it is noted what they are of.
        progress: is told how many sentences are done.

    Raises:
        InputError: if an interrupted run has made them with another model, or of other sources.
    """
    noted, key = state / "targets.json", f"{revision(model)}|{'|'.join(corpus.names)}"
    done = read_keyed(noted, key, "what an interrupted run has translated")
    if not (done and path.exists()):
        lines = list(_translations(model, encoder, corpus, progress))
        write_text(path, "".join(f"{line}\n" for line in lines))
        write_keyed(noted, key, {"sentences": len(lines)})
    return corpus.with_targets(path)


def _translations(
    model: PreTrainedModel, encoder: Encoder, corpus: Corpus, progress: Callable[[int], None]
) -> Iterator[str]:
    done = 0
    with evaluating(model), torch.inference_mode():
        for sentences in chunks(corpus, SENTENCES_AT_ONCE):
            yield from _greedy(model, encoder, sentences)
            done += len(sentences)
            progress(done)


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
    )
    texts = encoder.tokenizer.batch_decode(out_BN, skip_special_tokens=True)
    return [" ".join(text.split()) for text in texts]
