"""Lists of heads compared: each is chosen on one half of the recordings and tested on the other."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from headcount.core import CorpusError, amount
from headcount.corpora import Recording
from headcount.statistics import Bootstrap
from headcount.wordtimes.head_scores import agreeing, ranked
from headcount.wordtimes.hearing import Forcing, Hearing
from headcount.wordtimes.lists import Errors, Heard, errors_of, greedy, head_errors
from headcount.wordtimes.result import ListTimesRow, WordTimesOptions
from headcount.wordtimes.word_files import WordTimesOf, check_word_times

KnownSpans = Mapping[int, Float[np.ndarray, "_ 2"]]
"""Seconds at which words begin and end, by the number of the recording."""
FOUND, OWN, UNIFORM = "found without times", "the model's own", "uniform rate"
EACH, BEST, GREEDY = "for each recording", "best by error", "greedy by error"
CANDIDATES = 16
"""Number of heads, the best by error, that a greedy search adds from."""


def known_spans(hearing: Hearing, known: WordTimesOf) -> KnownSpans:
    """The known times of the words of every recording that has some.

    Raises:
        CorpusError: if no recording has some, or they do not fit its transcript or its length.
    """
    found = {}
    for place, (recording, heard) in enumerate(zip(hearing.recordings, hearing.heard, strict=True)):
        if (timed := known.get(recording.name)) is None:
            continue
        is_whole, first = recording.seconds is None, recording.first_word
        if not is_whole:  # its words were shared out by ear, so some may begin beside it
            timed = timed[first : first + len(recording.words)]
        seconds = heard.seconds if is_whole else np.inf
        check_word_times(recording.label, recording.words, timed, seconds)
        found[place] = np.array([(each.start, each.end) for each in timed]) - recording.start
    if not found:
        raise CorpusError(
            f"Expected word times of {hearing.recordings[0].name} or another of "
            f"{amount(len(hearing.recordings), 'recording')}, got those of "
            f"{', '.join(sorted(known)[:3]) or 'none'}. Name recordings as their files are named, "
            "without the ending."
        )
    return found


def halves(recordings: Sequence[Recording], places: Sequence[int]) -> tuple[list[int], list[int]]:
    """Two halves of some recordings: of other speakers where these are known, else by turns."""
    by_speaker = len({recordings[place].speaker for place in places}) > 1
    names = [recordings[n].speaker if by_speaker else recordings[n].name for n in places]
    turns = [*(sorted({*names}) if by_speaker else dict.fromkeys(names))]
    is_first = [turns.index(name) % 2 == 0 for name in names]
    pairs = [*zip(places, is_first, strict=True)]
    return [place for place, its in pairs if its], [place for place, its in pairs if not its]


def compare_lists(
    hearing: Hearing,
    spans: KnownSpans,
    forcing: Forcing,
    number: int,
    options: WordTimesOptions,
) -> tuple[ListTimesRow, ...]:
    """The errors of lists on the recordings that did not choose them; none without known times."""
    choosing, testing = halves(hearing.recordings, [*spans])
    if not choosing or not testing:
        return ()
    lists = _chosen(hearing, spans, forcing, number, choosing)
    heard, known = _of(hearing, spans, testing)
    errors = {
        name: errors_of([each.spans_of(heads) for each in heard], known)
        for name, heads in lists.items()
    }
    errors[EACH] = errors_of(_for_each(heard, number), known)
    errors[UNIFORM] = errors_of([each.evenly() for each in heard], known)
    bootstrap = Bootstrap(len(testing), options.samples, options.seed)
    names = {
        name: tuple(str(forcing.heads[each]) for each in heads) for name, heads in lists.items()
    }
    order = sorted(errors, key=lambda name: float(errors[name].mean()[0]))
    return tuple(_row(name, names.get(name, ()), errors, bootstrap) for name in order)


def _of(
    hearing: Hearing, spans: KnownSpans, places: Sequence[int]
) -> tuple[list[Heard], list[Float[np.ndarray, "_ 2"]]]:
    return [hearing.heard[place] for place in places], [spans[place] for place in places]


def _chosen(
    hearing: Hearing, spans: KnownSpans, forcing: Forcing, number: int, choosing: Sequence[int]
) -> dict[str, list[int]]:
    """The lists that are chosen on some recordings, and the model's own."""
    heard, known = _of(hearing, spans, choosing)
    starts = [each.starts_HR for each in heard]
    means = [float(each.mean()[0]) for each in head_errors(heard, known)]
    best = np.argsort(means, kind="stable").tolist()
    found = {
        FOUND: ranked(agreeing(starts, number))[:number].tolist(),
        BEST: best[:number],
        GREEDY: greedy(heard, known, best[:CANDIDATES], number),
    }
    own = [forcing.heads.index(head) for head in forcing.own if head in forcing.heads]
    return found | ({OWN: own} if own else {})


def _for_each(heard: Sequence[Heard], number: int) -> list[Float[np.ndarray, "_ 2"]]:
    """Word times by the heads that agree best on each recording."""
    disagreement_SH = agreeing([each.starts_HR for each in heard], number)
    chosen = np.argsort(disagreement_SH, axis=1, kind="stable")[:, :number]
    return [each.spans_of(heads) for each, heads in zip(heard, chosen.tolist(), strict=True)]


def _row(
    name: str, heads: tuple[str, ...], errors: Mapping[str, Errors], bootstrap: Bootstrap
) -> ListTimesRow:
    start, end = errors[name].estimates(bootstrap)
    more = {}
    if OWN in errors and name != OWN:
        found = errors[name].more_than(errors[OWN], bootstrap)
        more = {"more_ms": found.value, "more_low": found.low, "more_high": found.high}
    return ListTimesRow(
        name=name,
        heads=heads,
        start_ms=start.value,
        start_low=start.low,
        start_high=start.high,
        end_ms=end.value,
        end_low=end.low,
        end_high=end.high,
        **errors[name].within(),
        **more,
    )
