"""Test cases for measures: attention with its tokens, for the textbook and as sums.

An `Example` is one sentence without padding; many of them make a `Case`, whose sums come from the
package. The attention is made up (every shape a head can have, hundreds of maps) or a tiny model's.
All sizes differ and all flags are random, so that a measure that uses the wrong one is caught.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headcount.corpora import NO_HALF, Arcs, Batch, Sentence, Tokens
from headcount.measures import AttentionReducer, Moments, Sides, Sums
from headcount.measures.reductions import Attention
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import run
from headcount.tap import AttentionLayer, Block, Reduction
from headcount.tap.kernel_blocks import fill
from tests import tiny
from tests.examined import examined_double, softmax_in_double
from tests.textbook import patterns, rare

RELATIONS = ("amod", "nsubj:pass", "obj")
BASELINES = (1, -2, -1)
"""Most frequent offset of each relation, as a census would say."""
NUM_IDS = 61
COUNTS = {token: (7 * token) % 11 for token in range(5, 50)}
"""Counts of the tokens: many are equal, some are 0."""
TOP = 25
"""Number of most frequent tokens, which are not rare."""
NUM_HEADS, HEAD_DIM, WIDTH = 7, 3, 5
STYLES = ("random", "sharp", "column", "diagonal", "both", "block", "tied")
"""Styles of attention of the seven heads."""


@dataclass(frozen=True, eq=False)
class Side:
    """The tokens of one sentence: one entry of each list per token."""

    ids: list[int]
    is_special: list[bool]
    is_sep: list[bool]
    is_punct: list[bool]
    word_of: list[int]
    unit_of: list[int]
    """Unit of each token within the sentence."""
    is_second: list[bool]
    """Whether that unit is in the second half of the corpus."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Example:
    """One sentence with one layer's attention on it; `queries is keys` in self-attention."""

    A: np.ndarray
    """[head, query, key]"""
    v: np.ndarray
    """[head, key, dim]"""
    W_O: np.ndarray
    """[head, dim, width]"""
    queries: Side
    keys: Side
    heads: list[int]
    """Head of each word, -1 for the root; empty if words do not matter."""
    relations: list[str]
    number: list[int] | None = None
    """Number in `word_of` of each word of the tree, where some share pieces."""


@dataclass(frozen=True)
class Case:
    """Examples, and the package's sums over all of them."""

    examples: Sequence[Example]
    sums: dict[type[Sums], Sums]

    def textbook(self, **arguments: Callable[[Example], Any]) -> list[dict[str, Any]]:
        """The sentences as a textbook function takes them."""
        return [
            {name: get(example) for name, get in arguments.items()} for example in self.examples
        ]

    def assert_values(self, measure: type[Sums], expected: Mapping[str, Sequence[float]]) -> None:
        """Assert that the package's numbers equal the textbook's, NaN included."""
        values = self.sums[measure].value()
        assert tuple(values) == tuple(expected)
        for name, numbers in expected.items():
            slow = torch.tensor(numbers, dtype=torch.float64)
            torch.testing.assert_close(
                values[name].double(), slow, rtol=1e-8, atol=1e-10, equal_nan=True, msg=name
            )


# ------------------------------------------------------------------ tokens


def random_side(rng: np.random.Generator, length: int, given: list[int] | None = None) -> Side:
    """Special tokens anywhere, separators among them, punctuation elsewhere; words in pieces."""
    special = rng.random(length) < 0.3
    special[length // 2] |= length > 6
    sep = special & (rng.random(length) < 0.6)
    sep[length // 2] |= length > 6
    punct = ~special & (rng.random(length) < 0.3)
    ids: list[int] = given or rng.integers(5, NUM_IDS, length).tolist()
    words, word, left = [], -1, 0
    for is_special in special:
        if not is_special and left == 0:
            # Powers of 2, so that averages of equal weights stay equal; some words have no piece
            word += 1 + (word >= 0 and rng.random() < 0.15)
            left = int(rng.choice([1, 1, 2, 4]))
        left -= not is_special
        words.append(-1 if is_special else word)
    unit_of = [min(token // 5, 2) if length > 10 else 0 for token in range(length)]
    is_second = [(sum(ids) + unit) % 3 > 0 for unit in unit_of]
    return Side(ids, special.tolist(), sep.tolist(), punct.tolist(), words, unit_of, is_second)


def random_tree(rng: np.random.Generator, side: Side) -> tuple[list[int], list[str]]:
    """Random heads: any word but the word itself, or the root."""
    num_words = max(side.word_of, default=-1) + 1
    heads = [int(rng.integers(-1, num_words)) for _ in range(num_words)]
    heads = [-1 if head == word else head for word, head in enumerate(heads)]
    return heads, rng.choice(RELATIONS, num_words).tolist()


def tokens(sides: Sequence[Side], length: int | None = None) -> Tokens:
    """The sides as the package takes them, padded on the right."""
    length = length or max(1, max(map(len, sides)))

    def padded(rows: list[list], fill: int | bool) -> Tensor:
        return torch.tensor([row + [fill] * (length - len(row)) for row in rows])

    rarest = [rare.rarest(side.ids, side.is_special, COUNTS, TOP) for side in sides]
    units = accumulate((max(side.unit_of, default=-1) + 1 for side in sides), initial=0)
    unit_of = [[n + unit for unit in side.unit_of] for n, side in zip(units, sides, strict=False)]
    rare_ids = {token for token in range(NUM_IDS) if rare.rank(token, COUNTS) >= TOP}
    return Tokens(
        padded([side.ids for side in sides], 0),
        padded([[True] * len(side) for side in sides], False),
        padded([[not special for special in side.is_special] for side in sides], False),
        padded([side.is_sep for side in sides], False),
        padded([side.is_punct for side in sides], False),
        padded([side.word_of for side in sides], -1),
        torch.tensor([(found + [-1, -1])[:2] for found in rarest]),
        padded([[COUNTS.get(token, 0) for token in side.ids] for side in sides], 0),
        padded([[token in rare_ids for token in side.ids] for side in sides], False),
        padded(unit_of, -1),
        padded([[int(each) for each in side.is_second] for side in sides], NO_HALF),
        torch.ones(len(sides), dtype=torch.long),
    )


def moments_of(moments: Moments, kind: int, column: int) -> tuple[Tensor, ...]:
    """Sums over units of x squared, x n and n squared, and the number of units."""
    closed = moments.closed()
    own = closed.squares[kind, column], closed.products[kind, column]
    return *own, closed.cases_squares[kind], closed.units[kind]


def arcs(trees: Sequence[tuple[list[int], list[str]]]) -> Arcs:
    """The arcs of a batch, roots left out."""
    found = [
        (row, dependent, head, RELATIONS.index(relation))
        for row, (heads, relations) in enumerate(trees)
        for dependent, (head, relation) in enumerate(zip(heads, relations, strict=True))
        if head >= 0
    ]
    columns = torch.tensor(found, dtype=torch.long).reshape(-1, 4).T
    num_roots = sum(head < 0 for heads, _ in trees for head in heads)
    sentence, dependent, head, relation = columns.unbind()
    is_baseline = head - dependent == torch.tensor(BASELINES)[relation]
    return Arcs(sentence, dependent, head, relation, is_baseline, len(RELATIONS), num_roots)


# ------------------------------------------------------------------ attention that is made up


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def random_map(
    rng: np.random.Generator, style: str, num_queries: int, num_keys: int, segments: list[int]
) -> np.ndarray:
    """A map [query, key] of one of the `STYLES`, never quite pure."""
    noise = _softmax(rng.normal(size=(num_queries, num_keys)))
    query, key = np.indices((num_queries, num_keys))
    at_column = (key == rng.integers(num_keys)).astype(float)
    offset = rng.integers(-2, 3)
    at_diagonal = (key == np.clip(query + offset, 0, num_keys - 1)).astype(float)
    match style:
        case "random":
            return noise
        case "sharp":
            return _softmax(8 * rng.normal(size=(num_queries, num_keys)))
        case "column":
            shape = at_column
        case "diagonal":
            shape = at_diagonal
        case "both":
            shape = (at_column + at_diagonal) / 2
        case "block":
            segment_of = np.array(segments)
            own = segment_of[query % num_keys] == segment_of[key]
            shape = own / own.sum(-1, keepdims=True)
        case _:  # multiples of 1/32: many are equal, many are 0
            return rng.multinomial(32, [1 / num_keys] * num_keys, num_queries) / 32
    strength = rng.uniform(0.3, 0.95)
    return strength * shape + (1 - strength) * noise


def random_example(
    rng: np.random.Generator, num_queries: int, num_keys: int | None, W_O: np.ndarray
) -> Example:
    """A random example; self-attention if `num_keys` is None."""
    queries = random_side(rng, num_queries)
    keys = queries if num_keys is None else random_side(rng, num_keys)
    segments = (
        patterns.segments(keys.is_sep, keys.is_special) if keys is queries else [0] * len(keys)
    )
    A = [random_map(rng, style, num_queries, len(keys), segments) for style in STYLES]
    v = rng.normal(size=(NUM_HEADS, len(keys), HEAD_DIM))
    tree = random_tree(rng, queries) if keys is queries else ([], [])
    return Example(np.stack(A), v, W_O, queries, keys, *tree)


def attend(
    examples: Sequence[Example],
    split: tuple[int, int, int] = (100, 100, 100),
    padding: int = 0,
    norms_known: bool = True,
    needs: Collection[Reduction] = tuple(Reduction),
    is_measured: Sequence[Sequence[bool]] | None = None,
) -> Attention:
    """The package's sums over sentences in one batch, in blocks of rows, heads and queries.

    `padding` tokens are added to the keys if these are another sequence. Queries that are not
    measured are context.
    """
    queries = tokens([example.queries for example in examples])
    is_self = examples[0].queries is examples[0].keys
    longest = max(len(example.keys) for example in examples) + padding
    keys = queries if is_self else tokens([example.keys for example in examples], longest)
    rng = np.random.default_rng(len(examples))
    batch, num_queries, num_keys = len(examples), queries.ids_BN.shape[1], keys.ids_BN.shape[1]
    A = np.zeros((batch, NUM_HEADS, num_queries, num_keys))
    v = rng.normal(size=(batch, NUM_HEADS, num_keys, HEAD_DIM))
    for row, example in enumerate(examples):
        _, length, width = example.A.shape
        A[row, :, :length, :width] = example.A
        v[row, :, :width] = example.v
        if width:  # padding queries attend to something too
            shape = (NUM_HEADS, num_queries - length, width)
            A[row, :, length:, :width] = _softmax(rng.normal(size=shape))
    weights, values = torch.tensor(A), torch.tensor(v)
    W_O = torch.tensor(examples[0].W_O)
    site = "encoder.self" if is_self else "decoder.cross"
    layer = AttentionLayer(
        site, 2, "here", 0, NUM_HEADS, NUM_HEADS, HEAD_DIM, "there", has_learned_sink=True
    )
    trees = arcs([(example.heads, example.relations) for example in examples]) if is_self else None
    roots = torch.linalg.cholesky(W_O @ W_O.transpose(1, 2)) if norms_known else None
    sides = Sides(queries, keys, trees)
    if is_measured is not None:
        flags = [[*row, *[False] * (num_queries - len(row))] for row in is_measured]
        sides = Sides(queries.only(torch.tensor(flags)), keys, trees, with_context=queries)
    reducer = AttentionReducer(layer, sides, roots, values, set(needs))
    return reduced(reducer, weights, split)


def reduced(reducer: AttentionReducer, weights: Tensor, split: tuple[int, int, int]) -> Attention:
    """Feed a reducer as the tap does: slices may end beyond the end, blocks are the reducer's."""
    batch, num_heads, num_queries, _ = weights.shape
    rows, heads, queries = split
    for row in range(0, batch, rows):
        for head in range(0, num_heads, heads):
            for query in range(0, num_queries, queries):
                cut = (
                    slice(row, row + rows),
                    slice(head, head + heads),
                    slice(query, query + queries),
                )
                columns = reducer.statistics.columns_BHKC
                masses = weights[cut][..., :0]
                if columns is not None:
                    masses = weights[cut] @ columns[cut[:2]]
                feed(reducer, Block(reducer.layer, *cut, weights[cut].clone(), masses))
    return reducer.attention()


def feed(reducer: AttentionReducer, block: Block) -> None:
    """Pass a block on as the tap does, whose kernel fills in the statistics first."""
    fill(reducer.statistics, block)
    reducer.block(block)


def made_up(
    seed: int, lengths: Sequence[Sequence[int]], key_lengths: Sequence[Sequence[int]] | None
):
    """Batches of examples of the given lengths."""
    rng = np.random.default_rng(seed)
    W_O = rng.normal(size=(NUM_HEADS, HEAD_DIM, WIDTH))
    return [
        [
            random_example(rng, length, None if key_lengths is None else key_lengths[b][row], W_O)
            for row, length in enumerate(of_batch)
        ]
        for b, of_batch in enumerate(lengths)
    ]


SELF_LENGTHS = ((13, 7, 2, 11), (17,), (1, 3), (5, 5, 19, 4, 8), (23, 2), (9, 14, 6))
CROSS_LENGTHS = ((3, 11, 7), (13, 1, 2), (5,), (17, 8))
CROSS_KEY_LENGTHS = ((13, 5, 2), (1, 6, 19), (11,), (4, 7))
LONG_LENGTHS, LONG_KEY_LENGTHS = ((5, 3), (2,)), ((263, 331), (320,))


@cache
def batches(name: str) -> list[list[Example]]:
    """Made-up batches: `self`, `cross`, and `long` with hundreds of keys."""
    match name:
        case "self":
            return made_up(11, SELF_LENGTHS, None)
        case "cross":
            return made_up(13, CROSS_LENGTHS, CROSS_KEY_LENGTHS)
        case _:
            return made_up(17, LONG_LENGTHS, LONG_KEY_LENGTHS)


def _made_up_case(name: str) -> list[Case]:
    attentions = [attend(batch, split=(2, 3, 4)) for batch in batches(name)]
    examples = [example for batch in batches(name) for example in batch]
    sums = {
        measure: reduce(lambda a, b: a + b, map(measure.of, attentions))
        for measure in MEASURES
        if measure.applies(attentions[0])
    }
    return [Case(examples, sums)]


# ------------------------------------------------------------------ attention of tiny models


@dataclass(frozen=True)
class Names:
    """Modules that values come from and go to, by model and site; {} is the layer."""

    value: str
    output: str


MODELS: dict[str, dict[str, Names]] = {
    "bert": {
        "encoder.self": Names(
            "bert.encoder.layer.{}.attention.self.value",
            "bert.encoder.layer.{}.attention.output.dense",
        )
    },
    "gpt2": {"decoder.self": Names("transformer.h.{}.attn.c_attn", "transformer.h.{}.attn.c_proj")},
    "llama": {
        "decoder.self": Names(
            "model.layers.{}.self_attn.v_proj", "model.layers.{}.self_attn.o_proj"
        )
    },
    "marian": {
        site: Names(f"model.{where}.v_proj", f"model.{where}.out_proj")
        for site, where in (
            ("encoder.self", "encoder.layers.{}.self_attn"),
            ("decoder.self", "decoder.layers.{}.self_attn"),
            ("decoder.cross", "decoder.layers.{}.encoder_attn"),
        )
    },
}
MODEL_LENGTHS = ((7, 4, 2), (11, 3), (5,))


def _model_case(name: str) -> list[Case]:
    model, anatomy = examined_double(name)
    rng = np.random.default_rng(3)
    examples: dict[tuple[str, int], list[Example]] = {}
    given: list[Batch] = []
    for seed, lengths in enumerate(MODEL_LENGTHS):
        inputs = tiny.inputs(model, lengths, seed=seed)
        sources = _sides(rng, inputs["input_ids"], lengths)
        targets = sources
        if model.config.is_encoder_decoder:
            targets = _sides(rng, inputs["decoder_input_ids"], tiny.target_lengths(lengths))
        trees = [random_tree(rng, side) for side in sources]
        given.append(
            Batch(
                inputs,
                tokens(sources),
                None if targets is sources else tokens(targets),
                arcs(trees),
                tuple(Sentence("") for _ in lengths),
            )
        )
        for site, layer, maps, values in _stock(name, inputs):
            query_sides = sources if site == "encoder.self" else targets
            key_sides = targets if site == "decoder.self" else sources
            W_O = _output_weight(name, site, layer, values)
            for row, (queries, keys) in enumerate(zip(query_sides, key_sides, strict=True)):
                A = maps[row, :, : len(queries), : len(keys)].numpy()
                tree = trees[row] if queries is sources[row] and keys is queries else ([], [])
                v = values[row, :, : len(keys)].numpy()
                example = Example(A, v, W_O, queries, keys, *tree)
                examples.setdefault((site, layer), []).append(example)
    totals = run(model, anatomy, given, MEASURES)
    return [
        Case(of_place, {m: sums for (m, where), sums in totals.sums.items() if where == place})
        for place, of_place in examples.items()
    ]


def _sides(rng: np.random.Generator, ids_BN: Tensor, lengths: Sequence[int]) -> list[Side]:
    rows = zip(ids_BN.tolist(), lengths, strict=True)
    return [random_side(rng, length, ids[:length]) for ids, length in rows]


def _stock(name: str, inputs: dict[str, Tensor]) -> Iterator[tuple[str, int, Tensor, Tensor]]:
    """Site, layer, maps and values [B, H, K, D] of every layer of the stock model."""
    model, anatomy = examined_double(name)
    given: dict[str, Tensor] = {}
    paths = [
        names.value.format(layer)
        for site, names in MODELS[name].items()
        for layer in range(len(anatomy.heads.counts[site]))
    ]
    handles = [
        model.get_submodule(path).register_forward_hook(
            lambda module, args, output, path=path: given.update({path: output})
        )
        for path in paths
    ]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    with softmax_in_double():
        maps = tiny.attention_maps(model, inputs)
    for site, layers in maps.items():
        for layer, weights in enumerate(layers):
            value_BND = given[MODELS[name][site].value.format(layer)]
            if name == "gpt2":  # queries, keys and values in one
                value_BND = value_BND.chunk(3, -1)[2]
            size = {"bert": 11, "gpt2": 11, "llama": 10, "marian": 5}[name]
            size = 11 if (name, site) == ("marian", "encoder.self") else size
            value_BHND = value_BND.unflatten(-1, (-1, size)).transpose(1, 2)
            shared = weights.shape[1] // value_BHND.shape[1]
            yield site, layer, weights, value_BHND.repeat_interleave(shared, 1)


def _output_weight(name: str, site: str, layer: int, values: Tensor) -> np.ndarray:
    path = MODELS[name][site].output.format(layer)
    weight = examined_double(name)[0].get_submodule(path).weight
    assert isinstance(weight, Tensor)
    rows = weight.detach() if name == "gpt2" else weight.detach().T
    return rows.unflatten(0, (values.shape[1], values.shape[3])).numpy()


@cache
def cases(name: str) -> list[Case]:
    """One case, or one for each layer of a model."""
    return _model_case(name) if name in MODELS else _made_up_case(name)


CASES = ("self", "cross", "long", *MODELS)
