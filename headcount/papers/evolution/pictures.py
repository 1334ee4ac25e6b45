r"""Where states lie: pictures of some tokens in a plane, and the states nearest to a state.

Pictures (t-SNE by scikit-learn), layer by layer:

- `words`: occurrences of some words, such as is, are, was, were;
- `position`: occurrences of the first of them, by their position in the sentence;
- `tags`: tokens of the most frequent tags, if the corpus has any.

The tokens are drawn by themselves, so that no word is missing because it is rare.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
figures 8 and 9, https://arxiv.org/abs/1909.01380; Visualizing Data using t-SNE (van der Maaten and
Hinton, 2008), https://jmlr.org/papers/v9/vandermaaten08a.html

What neighbours have in common, for a state q and its k nearest states N(q) by cosine, in the pool
of all others,

$$\mathrm{share}(q) = \frac{1}{k} \sum_{n \in N(q)} [\, a(n) = a(q) \,] \in [0, 1]$$

where a is the token, the token to its left or right, or the tag; and the mean of |position(n) -
position(q)|, in tokens. The control is the same over the entire pool: what any neighbours would
give. The search is exact, in blocks of queries.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
section 6, https://arxiv.org/abs/1909.01380
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float32, Float64, Int64
from sklearn.manifold import TSNE

from headcount.core import CorpusError, amount
from headcount.papers.evolution.mutual_information import position_bins
from headcount.papers.evolution.record import EvolutionOptions, EvolutionPoint, Measurement
from headcount.papers.evolution.subjects import NONE, Occurrences, StateStore, Subject, Tokens

MOST_STATES = 100
"""Largest number of states of each word and of each tag."""

MOST_POSITIONS = 300
"""Largest number of states of the word that is shown by position."""

_MOST_TAGS = 6

WORDS, _POSITION, TAGS = "words", "position", "tags"

_PERPLEXITY = 30.0


@final
@dataclass(frozen=True, eq=False)
class Pictured:
    """The tokens in pictures."""

    occurrences: Occurrences
    """The tokens of all pictures, one after the other."""
    labels: Mapping[str, Sequence[str]]
    """For each picture, what each of its tokens is coloured by."""


def _ids_of_words(subject: Subject, words: Sequence[str]) -> dict[int, str]:
    """The token of each word inside a text; words of several tokens have none."""
    pieces = subject.encoder.single_words(list(words))
    return {ids[0]: word for ids, word in zip(pieces, words, strict=True) if len(ids) == 1}


def pictured(subject: Subject, tokens: Tokens, words: Sequence[str], seed: int) -> Pictured:
    """Draw the tokens in pictures.

    Args:
        subject: the model.
        tokens: the corpus.
        words: the words; those that are not in the corpus are left out.
        seed: seed of the draws.

    Raises:
        CorpusError: if fewer than two of the words are in the corpus as one token.
    """
    draws = np.random.default_rng(seed)

    def drawn(is_one_T: np.ndarray, most: int) -> Int64[np.ndarray, " state"]:
        places = np.flatnonzero(is_one_T & tokens.is_content_T)
        return np.sort(draws.choice(places, min(most, len(places)), replace=False))

    of_word = {
        word: drawn(tokens.ids_T == token, MOST_STATES)
        for token, word in _ids_of_words(subject, words).items()
    }
    of_word = {word: places for word, places in of_word.items() if len(places)}
    if len(of_word) < 2:
        raise CorpusError(
            f"Expected at least 2 of the words {', '.join(words)} in the corpus as single tokens "
            f"of {subject.loaded.name}, got {len(of_word)}. Give other --words."
        )
    first = drawn(tokens.ids_T == tokens.ids_T[next(iter(of_word.values()))[0]], MOST_POSITIONS)
    counts = np.bincount(tokens.tag_T[tokens.tag_T >= 0], minlength=len(tokens.tags))
    frequent = np.argsort(-counts, kind="stable")[:_MOST_TAGS]
    of_tag = {tokens.tags[tag]: drawn(tokens.tag_T == tag, MOST_STATES) for tag in frequent}
    places = np.concatenate([*of_word.values(), first, *of_tag.values()])
    labels = {WORDS: _repeated(of_word), _POSITION: _bins(tokens, first), TAGS: _repeated(of_tag)}
    return Pictured(
        Occurrences.at(tokens, places), {name: each for name, each in labels.items() if each}
    )


def _repeated(groups: Mapping[str, Sequence[Any] | np.ndarray]) -> list[str]:
    return [name for name, members in groups.items() for _ in range(len(members))]


def _bins(tokens: Tokens, places: Int64[np.ndarray, " state"]) -> list[str]:
    position_S = Occurrences.at(tokens, places).position_S
    found = np.full(len(places), "", dtype=object)
    for name, is_in_S in position_bins(position_S):
        found[is_in_S] = name
    return [str(each) for each in found]


def picture_points(
    subject: Subject, store: StateStore, states: Pictured, seed: int
) -> Iterator[EvolutionPoint]:
    """The points of every picture and layer."""
    chosen, start = states.occurrences, 0
    tokenizer = subject.encoder.tokenizer
    for picture, labels in states.labels.items():
        numbers = np.arange(start, start + len(labels))
        start += len(labels)
        names = (
            labels
            if picture == WORDS
            else [
                str(tokenizer.decode([int(chosen.token_S[number])])).strip() for number in numbers
            ]
        )
        perplexity = min(_PERPLEXITY, (len(numbers) - 1) / 3)
        for layer in range(store.shape[0]):
            plane = TSNE(init="pca", perplexity=perplexity, random_state=seed)
            found_S2 = plane.fit_transform(store.layer(layer, numbers))
            for place, (x, y) in enumerate(found_S2):
                yield EvolutionPoint(
                    *subject.named,
                    layer=layer,
                    token=names[place],
                    position=int(chosen.position_S[numbers[place]]),
                    x=float(x),
                    y=float(y),
                    picture=picture,
                    label=labels[place],
                )


BLOCK = 256
"""Number of queries at a time."""


def nearest(
    states_SD: Float32[np.ndarray, "state width"],
    queries_Q: Int64[np.ndarray, " query"],
    k: int,
) -> Int64[np.ndarray, "query k"]:
    """The k states nearest to each query by cosine, without itself, in no particular order."""
    norm_S1 = np.linalg.norm(states_SD, axis=1, keepdims=True)
    unit_SD = states_SD / np.maximum(norm_S1, np.finfo(np.float32).tiny)
    found = []
    for start in range(0, len(queries_Q), BLOCK):
        block_B = queries_Q[start : start + BLOCK]
        cosine_BS = unit_SD[block_B] @ unit_SD.T
        cosine_BS[np.arange(len(block_B)), block_B] = -np.inf
        found.append(np.argpartition(-cosine_BS, k - 1, axis=1)[:, :k])
    return np.concatenate(found)


def neighbour_rows(
    store: StateStore, options: EvolutionOptions, layer: int
) -> Iterator[Measurement]:
    """Shares and distances in one layer with their controls.

    Raises:
        CorpusError: if there are not more states than neighbours.
    """
    chosen, generator = store.occurrences, np.random.default_rng(options.seed)
    size = min(options.pool, len(chosen))
    if size <= options.nearest:
        raise CorpusError(
            f"Expected more than {amount(options.nearest, 'state')} to search the nearest among, "
            f"got {size}. Give a larger corpus, or lower --nearest."
        )
    pool_P = np.sort(generator.choice(len(chosen), size, replace=False))
    queries_Q = np.sort(generator.choice(size, min(options.queries, size), replace=False))
    nearest_QK = nearest(store.layer(layer, pool_P), queries_Q, options.nearest)
    for against, values_S in attributes(chosen).items():
        values_P = values_S[pool_P]
        known_Q = values_P[queries_Q] != NONE
        if not known_Q.any():
            continue
        asked_Q, near_QK = queries_Q[known_Q], nearest_QK[known_Q]
        same_Q = (values_P[near_QK] == values_P[asked_Q][:, None]).mean(1)
        chance_Q = _chance(values_P, asked_Q)
        yield _mean("neighbours", against, same_Q)
        yield _mean("neighbours-chance", against, chance_Q)
    position_P = chosen.position_S[pool_P]
    away_Q = np.abs(position_P[nearest_QK] - position_P[queries_Q][:, None]).mean(1)
    yield _mean("neighbours", "position", away_Q)
    yield _mean("neighbours-chance", "position", _mean_distance(position_P, queries_Q))


def attributes(chosen: Occurrences) -> dict[str, Int64[np.ndarray, " state"]]:
    """What neighbours may have in common, by name."""
    return {
        "token": chosen.token_S,
        "left": chosen.left_S,
        "right": chosen.right_S,
        "tag": chosen.tag_S,
    }


def _chance(
    values_P: Int64[np.ndarray, " pool"], queries_Q: Int64[np.ndarray, " query"]
) -> Float64[np.ndarray, " query"]:
    """Share of all other states with the value of each query."""
    _, place_P, count_V = np.unique(values_P, return_inverse=True, return_counts=True)
    return (count_V[place_P[queries_Q]] - 1) / (len(values_P) - 1)


def _mean_distance(
    position_P: Int64[np.ndarray, " pool"], queries_Q: Int64[np.ndarray, " query"]
) -> Float64[np.ndarray, " query"]:
    """Mean distance in position of each query from all other states."""
    count_N = np.bincount(position_P)
    away_NN = np.abs(np.arange(len(count_N))[:, None] - np.arange(len(count_N)))
    return (away_NN @ count_N)[position_P[queries_Q]] / (len(position_P) - 1)


def _mean(quantity: str, against: str, value_Q: Float64[np.ndarray, " query"]) -> Measurement:
    """The mean over queries with its 95 % interval (1.96 standard errors)."""
    mean = float(value_Q.mean())
    half = 1.96 * float(value_Q.std()) / len(value_Q) ** 0.5
    return Measurement(quantity, against, mean, len(value_Q), mean - half, mean + half)
