"""Estimating: what an analysis of a whole corpus would cost, from some of its texts.

All texts are read once and their letters counted (of a stream of many files, those of a few parts).
Texts that are spread evenly over them are analysed, whose tokens for each letter and seconds for
each token hold for all. What processes share takes its N-th part, the rest as long in each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter
from typing import Any, final

import torch

from headcount.analysis.analysis import analyze
from headcount.analysis.options import Options
from headcount.core import (
    Document,
    InputError,
    Progress,
    Table,
    Text,
    amount,
    is_alone,
    peak_memory,
    silent,
    size_in_words,
)
from headcount.corpora import Corpus, Sentence, check_is_corpus, take_census
from headcount.models import Loaded, encoder_of, reader_of
from headcount.tap import input_device

BATCHES = 16
"""Number of batches that are measured, if the corpus has as many."""
PARTS = 8
"""Number of parts of a stream that are read."""
WARMING = 2
"""Number of texts of a first analysis, which is not timed: code may be compiled in it."""
READINGS = 3
"""Number of times that a corpus is read: to count, to hash (parts are when counted), to measure."""
PROCESSES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of processes in the table."""


@final
@dataclass(frozen=True)
class Estimate:
    """What an analysis of a corpus would cost."""

    sentences: int
    tokens: int
    """Number of tokens on both sides, without padding."""
    measured: int
    """Number of tokens that were measured for the estimate."""
    passes: int
    """Number of passes of the model over the corpus."""
    alone_s: float
    """Seconds that each process takes for what is not shared."""
    shared_s: float
    """Seconds that one process takes for what processes share."""
    memory: int | None
    """Bytes of each process at the peak, on its GPU if it has one; None where that is not known."""

    def seconds(self, num_processes: int) -> float:
        """Seconds that some processes take, each on a processor or device of its own."""
        return self.alone_s + self.shared_s / num_processes

    def document(self) -> Document:
        """What is printed."""
        rows = [
            [
                str(number),
                f"{self.seconds(number) / 3600:,.4f}",
                f"{number * self.seconds(number) / 3600:,.4f}",
                "-" if self.memory is None else size_in_words(number * self.memory),
            ]
            for number in PROCESSES
        ]
        read = f"{amount(self.sentences, 'text')}, {amount(self.tokens, 'token')}"
        return Document(
            "What this would cost",
            (
                Text(f"{read}, {amount(self.passes, 'pass')} of the model over all"),
                Text(f"estimated from {amount(self.measured, 'token')}; nothing was written"),
                Table.of(["processes", "hours", "hours in all", "memory"], rows, "estimate"),
            ),
        )


def estimate(
    loaded: Loaded, corpus: Corpus, options: Options | None = None, progress: Progress = silent
) -> Estimate:
    """What an analysis of a corpus would cost, from some of its texts.

    Args:
        loaded: the model.
        corpus: what would be measured.
        options: how the analysis would run.
        progress: called with the stage and the progress.

    Raises:
        InputError: if several processes run.
    """
    if not is_alone():
        raise InputError(
            "Expected one process for an estimate, got several. Run it without torchrun: it says "
            "what several would take."
        )
    check_is_corpus(corpus)
    options, start = options or Options(), perf_counter()
    loaded = reader_of(loaded, corpus)
    parts = corpus.parts
    read = parts[:: max(1, len(parts) // PARTS)][:PARTS]
    found = _Sample.of(chain.from_iterable(read), options.pool)
    if not found.num_sentences:
        next(iter(corpus))  # its error says that it is empty
    factor = len(parts) / len(read)
    reading_s = factor * (perf_counter() - start)
    encoder = encoder_of(loaded, corpus, options.strict, options.windows, options.window)
    spread = Corpus.from_sentences(found.sentences)
    for_letter = take_census(spread, encoder).counts.tokens / sum(map(_letters, spread))
    share = min(1.0, BATCHES * options.max_tokens / (for_letter * sum(map(_letters, spread))))
    few = [*found.sentences[:: max(1, int(1 / share))], found.longest]
    plain = replace(options, limit_tokens=None)
    warming = replace(plain, induction=False, null=False)
    analyze(loaded, Corpus.from_sentences(few[:WARMING]), warming, progress=progress)
    record = analyze(loaded, Corpus.from_sentences(few), plain, progress=progress).record
    counts, timings = record.counts, record.timings
    sources = factor * for_letter * found.num_letters
    cut = 1.0 if options.limit_tokens is None else min(1.0, options.limit_tokens / sources)
    times = cut * sources / counts.tokens
    is_shared = len(parts) > 1
    reading_s *= (READINGS - is_shared) * cut
    grows = ("translate_s", "census_s", "measure_s", "null_s")
    shared_s = times * sum(timings.get(name, 0.0) for name in grows)
    alone_s = timings["induction_s"] + timings["examples_s"]
    return Estimate(
        sentences=round(cut * factor * found.num_sentences),
        tokens=round(times * (counts.tokens + (counts.target_tokens or 0))),
        measured=counts.tokens + (counts.target_tokens or 0),
        passes=1 + options.null,
        alone_s=alone_s + (0.0 if is_shared else reading_s),
        shared_s=shared_s + (reading_s if is_shared else 0.0),
        memory=_peak(input_device(loaded.model)),
    )


def _peak(device: torch.device) -> int | None:
    """Bytes at the peak where a model runs."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_memory()


@final
@dataclass(frozen=True)
class _Sample:
    """Sentences that are spread evenly over some, and how many these are."""

    sentences: tuple[Sentence, ...]
    longest: Sentence
    num_sentences: int
    num_letters: int

    @classmethod
    def of(cls, sentences: Iterable[Sentence], size: int) -> "_Sample":
        """Every n-th sentence, at least as many as `size` if there are as many."""
        kept, step, num_letters, number = list[Sentence](), 1, 0, -1
        longest: Any = None
        for number, sentence in enumerate(sentences):
            letters = _letters(sentence)
            num_letters += letters
            if longest is None or letters > _letters(longest):
                longest = sentence
            if number % step == 0:
                kept.append(sentence)
            if len(kept) > 2 * size:
                kept, step = kept[::2], 2 * step
        return cls(tuple(kept), longest, number + 1, num_letters)


def _letters(sentence: Sentence) -> int:
    """Number of letters of a text, and one for its end; all images are as long."""
    return len(sentence.text) + len(sentence.second or "") + 1
