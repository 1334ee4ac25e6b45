"""Recordings to look at and listen to: spectrogram, words, and the path of every chosen head."""

import io

import numpy as np
from matplotlib.figure import Figure

from headcount.core import ACCENT, INK, new_figure
from headcount.wordtimes.result import ExampleRow

WIDTH, HEIGHT = 9.0, 3.6
"""Size of a figure in inches."""


def draw(example: ExampleRow) -> Figure:
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
