"""Losses and scores of tasks, by definition, one example at a time.

References: Jelinek et al. 1977 (perplexity); Reimers and Gurevych 2019, section 3, for the mean of
token states and its cosine, https://arxiv.org/abs/1908.10084
"""

import math
from collections.abc import Sequence

import numpy as np


def surprise(logits: np.ndarray, right: int) -> float:
    """Minus the logarithm of the right answer's probability."""
    largest = max(float(logit) for logit in logits)
    total = 0.0
    for logit in logits:
        total += math.exp(float(logit) - largest)
    return math.log(total) - (float(logits[right]) - largest)


def next_tokens(logits: np.ndarray, ids: Sequence[int], first: int = 1) -> tuple[float, int]:
    """Surprise at every token from place `first` on, predicted from the position before it."""
    total = 0.0
    for position in range(first, len(ids)):
        total += surprise(logits[position - 1], ids[position])
    return total, len(ids) - first


def pieces(
    ids: Sequence[int], length: int, start: Sequence[int] = ()
) -> list[tuple[list[int], int]]:
    """Pieces of a text, and the place of the first token that is predicted in each.

    Every piece begins as the text does, then with the last token of the piece before.
    """
    piece, first, found = list(ids[:1]), 1, []
    for token in ids[1:]:
        if len(piece) == length:
            found.append((piece, first))
            piece, first = [*start, piece[-1]], len(start) + 1
        piece = [*piece, token]
    if len(piece) > first:
        found.append((piece, first))
    return found


def masked_tokens(logits: np.ndarray, labels: Sequence[int]) -> tuple[float, int]:
    """Surprise at the tokens that were masked; the others have the label -100."""
    total, count = 0.0, 0
    for position, label in enumerate(labels):
        if label != -100:
            total += surprise(logits[position], label)
            count += 1
    return total, count


def target_tokens(logits: np.ndarray, target: Sequence[int]) -> tuple[float, int]:
    """Surprise at every target token, predicted from the position that produces it."""
    total = 0.0
    for position, token in enumerate(target):
        total += surprise(logits[position], token)
    return total, len(target)


def cosine_of_means(first: np.ndarray, second: np.ndarray) -> float:
    """Cosine of the means of two sentences' token states."""
    means = []
    for states in (first, second):
        mean = [0.0] * states.shape[1]
        for state in states:
            for place, number in enumerate(state):
                mean[place] += float(number) / len(states)
        means.append(mean)
    product = sum(a * b for a, b in zip(*means, strict=True))
    lengths = [math.sqrt(sum(number * number for number in mean)) for mean in means]
    return product / (lengths[0] * lengths[1])


def perplexity(losses: Sequence[float], counts: Sequence[int]) -> float:
    """The exponential of the mean surprise at a token."""
    return math.exp(sum(losses) / sum(counts))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation of the ranks; equal numbers share the mean of their ranks."""
    sides = []
    for numbers in (first, second):
        ranks = []
        for number in numbers:
            below = sum(1 for other in numbers if other < number)
            equal = sum(1 for other in numbers if other == number)
            ranks.append(below + (equal + 1) / 2)
        mean = sum(ranks) / len(ranks)
        sides.append([rank - mean for rank in ranks])
    product = sum(a * b for a, b in zip(*sides, strict=True))
    return product / math.sqrt(math.prod(sum(a * a for a in side) for side in sides))


def macro_f1(right: Sequence[int], predicted: Sequence[int]) -> float:
    """Mean of F1 over the classes that are right or predicted for some word."""
    found = []
    for label in set(right) | set(predicted):
        hits = wrong = missed = 0
        for gold, guess in zip(right, predicted, strict=True):
            hits += gold == guess == label
            wrong += guess == label != gold
            missed += gold == label != guess
        found.append(2 * hits / (2 * hits + wrong + missed))
    return sum(found) / len(found)


def continuation(logits: np.ndarray, ids: Sequence[int], num_context: int) -> float:
    """Logarithm of the probability of the tokens after a context, each after all before it."""
    total = 0.0
    for position in range(num_context, len(ids)):
        total -= surprise(logits[position - 1], ids[position])
    return total
