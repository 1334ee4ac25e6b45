"""What word times show: the list of heads, its errors beside others', and paths over sound."""

import io
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from headcount.core import ACCENT, INK, Chart, Document, Table, Text, amount, new_figure
from headcount.numbers import ends, minus
from headcount.pages import Note
from headcount.statistics import Estimate
from headcount.wordtimes.comparison import FOUND
from headcount.wordtimes.lists import TOLERANCES
from headcount.wordtimes.result import ExampleRow, HeadTimesRow, ListTimesRow, WordTimes

SHOWN = 12
"""Number of heads in the table."""
DRAWS = 2000
"""Number of draws of heads for an interval."""
WIDTH, HEIGHT = 9.0, 3.6
"""Size of a figure in inches."""


def word_times_notes(found: WordTimes) -> tuple[Note, ...]:
    """How word times are read from heads, and how heads are chosen."""
    del found
    return (
        Note(
            "Word times",
            "A word begins where dynamic time warping through the mean of some heads' "
            "cross-attention enters it; weights are normalised over tokens and smoothed by a "
            "median over 7 frames.",
            "Radford et al., ICML 2023, arXiv:2212.04356",
        ),
        Note(
            "Choice of heads",
            "Without word times, by how far a head's own path is from those of the others, "
            "aggregated over recordings; the norm of maps is reported beside.",
            "Yeh et al., 2025, arXiv:2509.09987, section 3, for the norm",
        ),
    )


def word_times_document(found: WordTimes) -> Document:
    """The document of word times."""
    record = found.record
    return Document(
        "Which heads say when words are spoken",
        (
            Text(_first(found), "lede"),
            Text(
                f"{record.model}: {amount(record.recordings, 'recording')} of "
                f"{record.seconds:,.0f} s with {amount(record.words, 'word')}."
            ),
            *map(Text, record.prepared),
            *_errors(found),
            Text(
                "Heads are ranked without word times, by how far apart their own path through a "
                "recording and the median path of the others are."
            ),
            Table.of(_headers(found), map(_cells, _best(found)), "The heads that agree best"),
            Text(
                f"The list is fixed. Heads chosen for each recording would move the starts of "
                f"words by {record.fixed_ms:.0f} ms on average."
            ),
            *(
                Chart(
                    f"recording-{number}",
                    f"{example.recording}: where words begin by the list (lines), "
                    f"{'in truth (dots), ' if example.known else ''}and by the path of each head",
                    partial(_draw, example),
                    sound=example.sound,
                )
                for number, example in enumerate(found.examples, start=1)
            ),
        ),
    )


def _first(found: WordTimes) -> str:
    own = {row.head for row in found.rows if row.is_own}
    shared = len(own.intersection(found.chosen))
    text = f"{', '.join(found.chosen)} follow the sound word by word"
    if not own:
        return f"{text}; the model has no list of its own."
    text = f"{text}; {shared} of them are in the model's own list of {len(own)}."
    if len(own) == len(found.rows):
        return text
    agrees = _auroc(found)
    interval = ends(agrees.low, agrees.high, "{:.2f}".format)
    return (
        f"{text} With that list as truth, the order of heads has an AUROC of {agrees.value:.2f} "
        f"(95 % interval over heads: {interval})."
    )


def _auroc(found: WordTimes) -> Estimate:
    """The chance that a head of the model's own list agrees better than one that is not in it.

    The 95 % interval is that of heads drawn again, those of the list and the others apart.
    """
    own_P, others_Q = (
        np.sort([row.disagreement_ms for row in found.rows if row.is_own is is_own])
        for is_own in (True, False)
    )
    before_PQ = np.sign(others_Q - own_P[:, None]) / 2 + 0.5
    rng = np.random.default_rng(0)
    share_DP, share_DQ = (
        rng.multinomial(size, np.full(size, 1 / size), DRAWS) / size for size in before_PQ.shape
    )
    low, high = np.quantile((share_DP @ before_PQ * share_DQ).sum(1), (0.025, 0.975)).tolist()
    return Estimate(float(before_PQ.mean()), low, high, len(found.rows))


def _errors(found: WordTimes) -> list[Text | Table]:
    """The errors of lists, if word times are known."""
    if not found.lists:
        return []
    within = (f"\u2264 {most} ms" for most in TOLERANCES)
    headers = ("list", "heads", "start", "95 %", "end", *within)
    return [
        Text(
            f"Mean absolute errors in ms against the known word times of "
            f"{amount(found.record.timed, 'recording')}: lists are chosen on one half and tested "
            "on the other."
        ),
        Table.of(headers, map(_list_cells, found.lists), "Errors of lists of heads"),
        *map(Text, _beside_own(found)),
    ]


def _list_cells(row: ListTimesRow) -> list[str]:
    return [
        row.name,
        str(len(row.heads) or ""),
        f"{row.start_ms:.0f}",
        ends(row.start_low, row.start_high, "{:.0f}".format),
        f"{row.end_ms:.0f}",
        *(f"{100 * each:.0f} %" for each in (row.within_50, row.within_100, row.within_200)),
    ]


def _beside_own(found: WordTimes) -> list[str]:
    """How the list that was found without word times compares with the model's own."""
    row = next((row for row in found.lists if row.name == FOUND), None)
    if row is None or row.more_ms != row.more_ms:
        return []
    nearer = row.more_ms < 0
    off = sorted([row.more_low, row.more_high], reverse=nearer)
    low, high = (-each if nearer else each for each in off)
    return [
        f"Without word times a list was found whose starts are {abs(row.more_ms):.0f} ms "
        f"{'nearer to' if nearer else 'further from'} the known ones than those of the model's own "
        f"({ends(low, high, '{:.0f}'.format)})."
    ]


def _best(found: WordTimes) -> list[HeadTimesRow]:
    return sorted(found.rows, key=lambda row: row.rank)[:SHOWN]


def _headers(found: WordTimes) -> tuple[str, ...]:
    known = ("error", "95 %") if found.record.timed else ()
    return ("head", "chosen", "own", "apart", "gain", "monotone", "coverage", "norm", *known)


def _cells(row: HeadTimesRow) -> list[str]:
    cells = [
        row.head,
        "yes" if row.is_chosen else "",
        "yes" if row.is_own else "",
        f"{row.disagreement_ms:.0f} ms",
        minus(f"{row.gain:.2f}"),
        f"{row.monotone:.2f}",
        f"{row.coverage:.2f}",
        f"{row.norm:.1f}",
    ]
    if row.start_ms == row.start_ms:
        interval = ends(row.start_low, row.start_high, "{:.0f}".format)
        cells += [f"{row.start_ms:.0f} ms", interval]
    return cells


def _draw(example: ExampleRow) -> Figure:
    """The spectrogram, over it the starts of words by the list, and below those of each head."""
    import soundfile

    samples_N, _ = soundfile.read(io.BytesIO(example.sound), dtype="float32")
    figure = new_figure(WIDTH, HEIGHT)
    over, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    loudest = 20 * np.log10(np.abs(samples_N).max() + 1e-6)
    how = {"cmap": "Greys", "vmin": loudest - 100, "vmax": loudest - 30, "rasterized": True}
    over.specgram(samples_N + 1e-9, NFFT=400, Fs=example.rate, noverlap=240, **how)
    over.set(ylabel="Hz", ylim=(0, 5000))
    for word, start, end in zip(example.words, example.starts, example.starts[1:], strict=False):
        over.axvline(start, color=ACCENT, linewidth=0.8)
        over.text((start + end) / 2, 5050, word, ha="center", va="bottom", fontsize=7)
    paths = np.reshape(example.paths, (len(example.heads), -1))
    for row, path in enumerate(paths):
        below.plot(path, np.full(len(path), row), "|", color=INK, markersize=7)
    for known in example.known:
        below.axvline(known, color=ACCENT, linewidth=0.6, linestyle=":")
    below.set_yticks(range(len(example.heads)), example.heads, fontsize=7)
    below.set(xlabel="seconds", xlim=(0, len(samples_N) / example.rate))
    below.invert_yaxis()
    return figure
