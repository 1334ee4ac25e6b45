"""Size and power of the tests of roles, on texts of different lengths, few and many.

    python benchmarks/text_lengths.py
    python benchmarks/text_lengths.py --model MODEL --text NOVEL.txt
    python benchmarks/text_lengths.py --model MODEL --text NOVEL.txt --pieces 71

A head gives the first token a weight that varies from query to query around its mean. *Size* is the
share of tests with p < 0.05 where the null is that mean: 0.05 if the test holds, less if it is
conservative. *Power* is the share where the head is planted to give s of the rest of its weight to
the first token as well, so that its strength is s.

Without a model, weights are lognormal (log-sd 1) around 0.1, and the Gaussian behind them is
autoregressive, so that means of 32 tokens correlate with the next as the row says. One quarter of
its variance is shared by all queries of each of many texts. With a model, many texts are drawn,
with replacement, from paragraphs that its heads have read. Few texts have weights whose
distribution is that of each head in the first --words of the text, read in one piece, and so is the
correlation of their normal scores at every lag that they have (0 at longer ones); a Gaussian
process makes as many such texts as needed.

Texts that a model can't read at once are read in windows, whose first tokens differ. With --pieces,
texts of 2,000 tokens and more are joined from pieces of the text that were read one by one, drawn
with replacement; the null is each head's mean at the tested places of a piece.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

from headcount import Corpus, load, measure
from headcount.corpora import EARLY, LEAST_UNITS, SECOND_HALF
from headcount.corpora.halves import Segments, num_missing, shared
from headcount.measures import Moments, Sums
from headcount.measures.reductions import Attention
from headcount.statistics import ClusteredRates
from headcount.tap import Reduction

Draw = Callable[[int, np.random.Generator], np.ndarray]
"""Weights of a text with some number of tokens."""

PLANTED = (0.0, 0.05, 0.5)
"""Strengths: none (the share of p < 0.05 is the size), that of a tendency, that of a sink."""
SCALE = 0.1 / np.exp(0.5)
"""Median of the weights without a model; none exceeds 1."""
MEAN = float(SCALE * np.exp(0.5) * norm.cdf(-np.log(SCALE) - 1) + norm.sf(-np.log(SCALE)))
"""Their mean."""
PIECE = 1700
"""Number of words of a piece, which has 2,000 tokens or more."""
STRICT = 0.05 / 1000
"""What the smallest of a thousand p-values must be below, by Holm's correction."""


@dataclass(frozen=True)
class Series(Sums):
    """Collects the weight on the first token of every measured query, text by text."""

    columns = ()
    needs = frozenset({Reduction.FIRST})
    nothing: torch.Tensor
    found = dict[int, list[np.ndarray]]()

    @classmethod
    def of(cls, attention: Attention) -> "Series":
        """Keep the weights; there is nothing to add."""
        is_query_BQ = attention.queries.is_token_BN
        for row, is_query_Q in enumerate(is_query_BQ):
            unit = int(attention.queries.unit_BN[row, 0])
            first_HQ = attention.first_BHQ[row][:, is_query_Q].float().numpy()
            cls.found.setdefault(unit, []).append(first_HQ)
        return cls(torch.zeros(1))

    def value(self) -> dict[str, Any]:
        """Nothing."""
        return {}


def rate_of(texts: list[np.ndarray], is_many: bool) -> ClusteredRates | None:
    """The rate in the tested half; None if nothing is tested.

    Args:
        texts: weights of the queries of each text.
        is_many: whether the texts are those of the second half, each of which is a unit.
    """
    if is_many:
        units = [text[EARLY:] for text in texts if len(text) > EARLY]
    else:
        lengths = [len(text) for text in texts]
        if num_missing(lengths):
            return None
        units, first = [], 0
        for text, count in zip(texts, shared(lengths), strict=True):
            if count:
                placed = Segments(first, count, len(text)).units(np.arange(len(text)), len(text))
                numbers = placed.unit_N[placed.half_N == SECOND_HALF]
                own = text[placed.half_N == SECOND_HALF]
                units += [own[numbers == number] for number in np.unique(numbers)]
            first += count
    if len(units) < LEAST_UNITS:
        return None
    sums = torch.tensor([[[float(unit.sum())]] for unit in units], dtype=torch.float64)
    cases = torch.tensor([[len(unit)] for unit in units])
    moments = Moments.of_closed(sums, cases)
    return moments.rates(sums.sum(0)[0].numpy(), int(cases.sum()), 0)


def rejected(
    draw: Draw, mean: float, lengths: list[int], is_many: bool, times: int, seed: int
) -> list[tuple[float, float]] | None:
    """For each planted strength the share of p below 0.05, and below `STRICT`."""
    rng, p = np.random.default_rng(seed), []
    for _ in range(times):
        texts = [draw(length, rng) for length in lengths]
        row = []
        for strength in PLANTED:
            rates = rate_of([text + strength * (1 - text) for text in texts], is_many)
            if rates is None:
                return None
            row.append(rates.p_above(mean)[0])
        p.append(row)
    below = [(np.array(p) < limit).mean(0) for limit in (0.05, STRICT)]
    return [*zip(*below, strict=True)]


def autoregressive(correlation: float, shared_variance: float) -> Draw:
    """Lognormal weights with mean 0.1, of which all of a text share some variance."""
    phi = _phi(correlation)

    def draw(length: int, rng: np.random.Generator) -> np.ndarray:
        noise = rng.normal(size=length) * np.sqrt(1 - phi**2)
        z = lfilter([1.0], [1.0, -phi], noise, zi=np.array([phi * rng.normal()]))[0]
        z = np.sqrt(1 - shared_variance) * z + np.sqrt(shared_variance) * rng.normal()
        return np.minimum(SCALE * np.exp(z), 1)

    return draw


def _phi(correlation: float) -> float:
    """The coefficient with which means of 32 tokens correlate with the next 32 as wished."""
    if correlation == 0:
        return 0.0

    def of(phi: float) -> float:
        lags = np.arange(1, 32)
        within = 32 + 2 * ((32 - lags) * phi**lags).sum()
        return (phi ** np.abs(32 + np.arange(32)[:, None] - np.arange(32))).sum() / within

    grid = np.linspace(0, 0.9999, 20001)[1:]
    return float(min(grid, key=lambda phi: abs(of(phi) - correlation)))


def like(series: np.ndarray) -> Draw:
    """Texts with the distribution of a series and the correlation of its normal scores."""
    z = norm.ppf((rankdata(series) - 0.5) / len(series))
    ordered = np.sort(series)

    @cache
    def power_of(length: int) -> np.ndarray:
        """The spectrum of a circle that holds the text twice, and with it all lags."""
        return np.abs(np.fft.rfft(z, 2 * max(len(z), length))) ** 2 / len(z)

    def draw(length: int, rng: np.random.Generator) -> np.ndarray:
        power = power_of(length)
        size = len(power)
        noise = (rng.normal(size=size) + 1j * rng.normal(size=size)) / np.sqrt(2)
        made = np.fft.irfft(np.sqrt(power) * noise, 2 * (size - 1))[:length]
        made *= np.sqrt(2 * (size - 1)) / np.sqrt(power.mean())
        place = np.clip((norm.cdf(made) * len(ordered)).astype(int), 0, len(ordered) - 1)
        return ordered[place]

    return draw


def layouts(most: int) -> Iterator[tuple[str, list[int], bool]]:
    """Name, lengths of the texts (of many, of the tested half), and whether these are many."""
    for length in (20, 128, 129, 2000, 20000):
        if length <= most:
            for number in (10, 100) if length < 20000 else (10,):
                yield f"{2 * number} texts of {length:,}", [length] * number, True
    for lengths in ([128] * 12, [2000], [4000], [20000], [10000, 6000, 129], [2000] * 5):
        name = f"{len(lengths)} x {lengths[0]:,}" if len({*lengths}) == 1 else "10,000, 6,000, 129"
        yield name, lengths, False


def row(name: str, weights: str, found: list[tuple[float, float]] | None) -> None:
    """Print one row of the table."""
    cells = ["not tested", "", ""]
    if found is not None:
        (size, _), (weak, _), (_, strong) = found
        cells = [f"{size:.3f}", f"{weak:.2f}", f"{strong:.2f}"]
    print(f"| {name} | {weights} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--heads", type=int, default=20, help="number of heads, spread evenly")
    parser.add_argument("--words", type=int, default=3400, help="words of the text in one piece")
    parser.add_argument("--pieces", type=int, help="number of pieces that long texts are made of")
    args = parser.parse_args()
    print("| texts | weights | size | power, 0.05 | power, 0.5, corrected |\n|---|---|---|---|---|")
    if args.model and args.pieces:
        of_pieces(args.model, args.text, args.pieces, args.heads, args.times)
        return
    if args.model:
        of_model(args.model, args.text, args.words, args.heads, args.times)
        return
    for correlation in (0.0, 0.3, 0.6):
        for name, lengths, is_many in layouts(20000):
            draw = autoregressive(correlation, 0.25 if is_many else 0.0)
            times = max(200, min(args.times, 20_000_000 // sum(lengths)))
            found = rejected(draw, MEAN, lengths, is_many, times, seed=len(lengths))
            row(name, f"correlation {correlation}", found)


def of_model(name: str, path: Path, words: int, num_heads: int, times: int) -> None:
    """The rows of a trained model."""
    loaded = load(name)
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", path.read_text("utf8"))]
    long = sorted((each for each in paragraphs if len(each.split()) > 110), key=hash_free)[:300]
    whole = " ".join(paragraphs)
    for kind, corpus in (("many", long), ("few", [" ".join(whole.split()[:words])])):
        Series.found.clear()
        measure(loaded, Corpus.from_sentences(corpus), [Series])
        texts = [_heads(parts, num_heads) for parts in Series.found.values()]
        for title, lengths, is_many in layouts(129):
            if is_many == (kind == "many"):
                row(title, name.split("/")[-1], _of_heads(texts, lengths, is_many, times))


def of_pieces(name: str, path: Path, num_pieces: int, num_heads: int, times: int) -> None:
    """The rows of long texts of a trained model, which are read piece by piece."""
    loaded, words = load(name), path.read_text("utf8").split()
    cut = [" ".join(words[n * PIECE : (n + 1) * PIECE]) for n in range(num_pieces)]
    Series.found.clear()
    measure(loaded, Corpus.from_sentences(cut), [Series])
    texts = [_heads(parts, num_heads) for _, parts in sorted(Series.found.items())]
    pieces_HPQ = np.stack([text[:, : min(each.shape[1] for each in texts)] for text in texts], 1)
    means_HP = pieces_HPQ.mean(2)
    near = [np.corrcoef(each[:-1], each[1:])[0, 1] for each in means_HP]
    print(
        f"{len(texts)} pieces of {pieces_HPQ.shape[2]:,} tokens; the means of neighbours correlate "
        f"by {np.mean(near):.2f}",
        flush=True,
    )
    for title, lengths, is_many in layouts(20000):
        if max(lengths) >= 2000:
            draws = [
                (_joined(each), _rate([np.resize(each.mean(0), n) for n in lengths], is_many))
                for each in pieces_HPQ
            ]
            row(title, name.split("/")[-1], _over_heads(draws, lengths, is_many, times))


def _rate(texts: list[np.ndarray], is_many: bool) -> float:
    """The rate in the tested half; NaN if nothing is tested."""
    rates = rate_of(texts, is_many)
    return float("nan") if rates is None else float(rates.rate_H[0])


def _joined(pieces_PQ: np.ndarray) -> Draw:
    """A text of pieces drawn with replacement, the last one cut."""

    def draw(length: int, rng: np.random.Generator) -> np.ndarray:
        number = -(-length // pieces_PQ.shape[1])
        return pieces_PQ[rng.integers(len(pieces_PQ), size=number)].reshape(-1)[:length]

    return draw


def hash_free(text: str) -> tuple[int, str]:
    """An order that does not depend on the place in the text."""
    return sum(map(ord, text)) % 1009, text


def _heads(parts: list[np.ndarray], num_heads: int) -> np.ndarray:
    """Weights of some heads in one text, [head, query]; parts are layer by layer."""
    every = np.concatenate(parts)
    return every[np.linspace(0, len(every) - 1, num_heads).astype(int)]


def _of_heads(
    texts: list[np.ndarray], lengths: list[int], is_many: bool, times: int
) -> list[tuple[float, float]] | None:
    """The row of a trained model's texts."""
    draws = list[tuple[Draw, float]]()
    for head in range(len(texts[0])):
        if is_many:
            pool = [text[head][: lengths[0]] for text in texts if text.shape[1] >= lengths[0]]
            cases = np.concatenate([text[EARLY:] for text in pool])
            draws.append((_from(pool), float(cases.mean())))
        else:
            draws.append((like(texts[0][head]), float(texts[0][head].mean())))
    return _over_heads(draws, lengths, is_many, times)


def _over_heads(
    draws: list[tuple[Draw, float]], lengths: list[int], is_many: bool, times: int
) -> list[tuple[float, float]] | None:
    """Means over heads, each with what draws its texts and its null."""
    number = max(20, times // len(draws))
    found = [
        rejected(draw, null, lengths, is_many, number, seed=head)
        for head, (draw, null) in enumerate(draws)
    ]
    rows = [each for each in found if each is not None]
    if len(rows) < len(found):
        return None
    return [(float(a), float(b)) for a, b in np.mean(rows, 0)]


def _from(pool: list[np.ndarray]) -> Draw:
    """A text of a pool, drawn at random."""
    return lambda length, rng: pool[rng.integers(len(pool))]


if __name__ == "__main__":
    main()
