"""Word times of recordings: every step from sound to the tables of a result."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import InputError, Progress, Stopwatch, amount, name_of, short_hash, silent
from headcount.corpora import Data, Recording, as_flac, read_recordings, recordings_sha256
from headcount.models import Loaded, as_loaded, signature
from headcount.statistics import Bootstrap, check_draws, few_clusters
from headcount.wordtimes.comparison import KnownSpans, compare_lists, known_spans
from headcount.wordtimes.head_scores import MAP_SCORES, agreeing, ranked
from headcount.wordtimes.hearing import Forcing, Hearing, hear
from headcount.wordtimes.lists import head_errors
from headcount.wordtimes.result import (
    ExampleRow,
    HeadTimesRow,
    WordRow,
    WordTimes,
    WordTimesOptions,
    WordTimesRecord,
)
from headcount.wordtimes.word_files import WordTimesOf, read_word_times

EXAMPLES = 3
"""Number of recordings on the page."""
USUAL_NUMBER = 8
"""Number of heads in the list of a model that has none of its own."""


def word_times(
    model: Loaded | PreTrainedModel,
    sound: Data | Sequence[Recording],
    words: str | Path | WordTimesOf | None = None,
    options: WordTimesOptions | None = None,
    progress: Progress = silent,
    tokenizer: Tokenizer | None = None,
    columns: Mapping[str, str | int] | None = None,
) -> WordTimes:
    """Find the heads of a Whisper that follow sound word by word, and when words are spoken.

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        sound: a folder, table or data set of recordings with their transcripts (see
            `read_recordings`), or a list of `Recording`.
        words: known word times, to measure errors by: a file, a folder, or these.
        options: how to run.
        progress: called with the stage and the number of recordings done.
        tokenizer: the tokenizer of a plain model.
        columns: names of the columns `audio`, `text` and `speaker` of a table.

    Raises:
        CorpusError: if recordings or word times can't be read, or no recording can be used.
        ModelError: if the model is no Whisper.
        InputError: if an option does not fit the model.
    """
    loaded, options = as_loaded(model, tokenizer), options or WordTimesOptions()
    watch = Stopwatch()
    forcing = Forcing(loaded, options.language)
    given = [*_read(sound)] or read_recordings(sound, columns)
    known = read_word_times(words) if isinstance(words, str | Path) else words
    number = _number_of(forcing, options)
    check_draws(options.samples, 2 * len(given))
    with TemporaryFile() as file:
        hearing = hear(forcing, given, file, progress)
        disagreement_SH = agreeing([each.starts_HR for each in hearing.heard], number)
        order = ranked(disagreement_SH).tolist()
        spans = {} if known is None else known_spans(hearing, known)
        words_found, fixed_ms = _words(hearing, order[:number], disagreement_SH)
        record = WordTimesRecord(
            signature=_signature(loaded, given, known, options),
            model=name_of(loaded.name),
            corpora=(name_of(sound) if isinstance(sound, str | Path) else "<python>",),
            recordings=len({each.name for each in hearing.recordings}),
            seconds=hearing.seconds,
            words=len(words_found),
            timed=len({hearing.recordings[place].name for place in spans}),
            fixed_ms=fixed_ms,
            prepared=hearing.prepared,
            warnings=(*hearing.left_out, *(few_clusters(len(spans), "recording") if spans else ())),
            timings=watch.lap("align"),
        )
        errors = _head_errors(hearing, spans, options)
        off_H = 1000 * forcing.speech.frame_seconds * disagreement_SH.mean(0)
        rows = tuple(_head_rows(hearing, forcing, order, number, off_H.tolist(), errors))
        lists = compare_lists(hearing, spans, forcing, number, options)
        names = [str(head) for head in forcing.heads]
        examples = _examples(hearing, forcing.speech.rate, order[:number], names, spans)
        return WordTimes(record, rows, words_found, lists, tuple(examples))


def _head_rows(
    hearing: Hearing,
    forcing: Forcing,
    order: Sequence[int],
    number: int,
    off: Sequence[float],
    errors: Mapping[int, Mapping[str, float]],
) -> Iterator[HeadTimesRow]:
    """A row for each head: its place in the order, its scores, and its errors if any are known."""
    scores_CH = hearing.scores_SCH.mean(0)
    for place, head in enumerate(forcing.heads):
        yield HeadTimesRow(
            head=str(head),
            rank=order.index(place) + 1,
            is_chosen=place in order[:number],
            is_own=head in forcing.own,
            disagreement_ms=off[place],
            **dict(zip(MAP_SCORES, scores_CH[:, place].tolist(), strict=True)),
            **errors.get(place, {}),
        )


def _examples(
    hearing: Hearing,
    rate: int,
    chosen: Sequence[int],
    names: Sequence[str],
    spans: KnownSpans,
) -> Iterator[ExampleRow]:
    """The first recordings, with the paths of the chosen heads."""
    for place, (heard, recording) in enumerate(zip(hearing.heard, hearing.recordings, strict=True)):
        if place == EXAMPLES:
            return
        samples_N, _ = recording.samples(rate, np.inf)
        paths = [_bounds(heard.spans(heard.starts_HR[head])) for head in chosen]
        yield ExampleRow(
            recording=recording.label,
            sound=as_flac(samples_N, rate),
            rate=rate,
            words=tuple(recording.words),
            starts=tuple(_bounds(heard.spans_of(chosen))),
            known=tuple(spans[place][:, 0].tolist()) if place in spans else (),
            heads=tuple(names[head] for head in chosen),
            paths=tuple(second for path in paths for second in path),
        )


def _bounds(spans_W2: Float[np.ndarray, "word 2"]) -> list[float]:
    """The seconds at which words begin, and the last ends."""
    return [*spans_W2[:, 0].tolist(), float(spans_W2[-1, 1])]


def _read(sound: object) -> Iterator[Recording]:
    """The recordings that are given as such; none of other data."""
    if isinstance(sound, list | tuple):
        yield from (each for each in sound if isinstance(each, Recording))


def _number_of(forcing: Forcing, options: WordTimesOptions) -> int:
    """Number of heads in the list.

    Raises:
        InputError: if more are asked for than the model has.
    """
    most = len(forcing.heads)
    if options.heads is None:
        return min(len(forcing.own) or USUAL_NUMBER, max(1, most // 3))
    if options.heads > most:
        raise InputError(
            f"Expected at most {amount(most, 'head')} in the list, since the model has no more "
            f"cross-attention heads, got {options.heads:,}. Ask for fewer with --heads."
        )
    return options.heads


def _words(
    hearing: Hearing, chosen: Sequence[int], disagreement_SH: Float[np.ndarray, "recording head"]
) -> tuple[tuple[WordRow, ...], float]:
    """The word times by a fixed list, and how far these are from those by each recording's own.

    The second is the mean difference of word starts in milliseconds.
    """
    rows, apart = list[WordRow](), list[np.ndarray]()
    for place, (heard, recording) in enumerate(zip(hearing.heard, hearing.recordings, strict=True)):
        spans_W2 = heard.spans_of(chosen)
        own_W2 = heard.spans_of(np.argsort(disagreement_SH[place])[: len(chosen)].tolist())
        apart.append(np.abs(spans_W2 - own_W2)[:, 0])
        rows += [
            WordRow(recording=recording.name, word=word, start=start, end=end)
            for word, (start, end) in zip(
                recording.words, (recording.start + spans_W2).tolist(), strict=True
            )
        ]
    return tuple(rows), 1000 * float(np.concatenate(apart).mean())


def _head_errors(
    hearing: Hearing, spans: KnownSpans, options: WordTimesOptions
) -> dict[int, dict[str, float]]:
    """The errors of every head alone, by the fields of its row; none without word times."""
    if not spans:
        return {}
    heard, bootstrap = (
        [hearing.heard[place] for place in spans],
        Bootstrap(len(spans), options.samples, options.seed),
    )
    found = {}
    for head, errors in enumerate(head_errors(heard, [*spans.values()])):
        start, end = errors.estimates(bootstrap)
        ends = {"start_ms": start.value, "start_low": start.low, "start_high": start.high}
        found[head] = {**ends, "end_ms": end.value, **errors.within()}
    return found


def _signature(
    loaded: Loaded,
    recordings: Sequence[Recording],
    known: WordTimesOf | None,
    options: WordTimesOptions,
) -> str:
    """Everything that the numbers depend on."""
    return signature(
        loaded,
        recordings_sha256(recordings),
        n=len(recordings),
        words=None if known is None else short_hash(repr(sorted(known.items()))),
        heads=options.heads,
        language=options.language,
        samples=options.samples,
        seed=options.seed,
    )
