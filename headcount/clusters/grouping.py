r"""Clusters: which heads look at the same places.

Distances between all heads of a site are Jensen-Shannon divergences (see below). They give a
map in two dimensions, a hierarchy, groups, and a test whether heads of one layer are near each
other.

Groups come from complete linkage: no two heads of a group are further apart than a given distance.
The map places the heads in two dimensions so that distances there are as near as possible to the
measured ones (metric multidimensional scaling).

The test asks whether two heads of one layer are nearer than two heads of different layers:

$$\Delta = \overline{d}_{\text{different layers}} - \overline{d}_{\text{same layer}}, \qquad
p = \frac{1 + |\{\pi : \Delta_\pi \ge \Delta\}|}{1 + |\Pi|}$$

over random permutations $\pi$ of the heads, which keep the sizes of the layers.

Jensen-Shannon divergence between the attention of all heads, added up block by block.

$$\mathrm{JS}(A_i, A_j) = \sum_q H\!\left(\tfrac{p_i + p_j}{2}\right) - \tfrac{1}{2} H(p_i) -
\tfrac{1}{2} H(p_j), \qquad p = 0.999\,A(q, \cdot) + 0.001 / n$$

in nats, over all queries q of a text, special tokens included; n is the number of its tokens that
can be attended to, and H the entropy. Its mean over queries lies between 0 and $\ln 2$.

Reference: What Does BERT Look At? (Clark et al., 2019), section 6, https://arxiv.org/abs/1906.04341
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64, Int
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import MDS
from torch import Tensor
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.clusters.result import ClusterOptions, Clusters, ClustersRecord, HeadPlace, LayerTest
from headcount.core import (
    Heads,
    LayerId,
    ModelError,
    Progress,
    Stopwatch,
    amount,
    name_of,
    paced,
    silent,
    spread,
)
from headcount.corpora import Batch, Batches, Census, Corpus, Encoder, take_census
from headcount.models import Loaded, as_loaded, check_has_heads, check_memory, signature
from headcount.statistics import p_at_least
from headcount.tap import Block, FunctionListener, Tap, evaluating, input_device, without_cache

SMOOTHING = 0.001
"""Share of the uniform distribution that is mixed in."""

_CHUNK = 4096
"""Number of weights of each head that are compared at a time; they stay in the cache."""


@final
@dataclass
class Divergence:
    """Sums over queries for the heads of one site, which add."""

    num_heads: int
    mixed_HH: Float64[Tensor, "head head"] = field(init=False)
    """Sum of $-(p_i + p_j) \\ln(p_i + p_j)$ over queries and keys, above the diagonal."""
    alone_H: Float64[Tensor, " head"] = field(init=False)
    """Sum over queries of each head's entropy."""
    num_queries: int = 0

    def __post_init__(self) -> None:
        self.mixed_HH = torch.zeros(self.num_heads, self.num_heads, dtype=torch.float64)
        self.alone_H = torch.zeros(self.num_heads, dtype=torch.float64)

    def add(
        self,
        weights_HBQK: Float[Tensor, "head batch query key"],
        is_query_BQ: Bool[Tensor, "batch query"],
        is_key_BK: Bool[Tensor, "batch key"],
    ) -> None:
        """Add the queries of some texts.

        Args:
            weights_HBQK: the weights of all heads of the site.
            is_query_BQ: which queries count.
            is_key_BK: which keys there are.
        """
        num_keys_B1K = is_key_BK.sum(1)[:, None, None].expand(-1, 1, is_key_BK.shape[1])
        counts_BQK = is_query_BQ[:, :, None] & is_key_BK[:, None]
        uniform_M = (SMOOTHING / num_keys_B1K).expand(counts_BQK.shape)[counts_BQK]
        self.num_queries += int(is_query_BQ.sum())
        places_M = counts_BQK.flatten().nonzero().squeeze(1)
        flat_HN = weights_HBQK.flatten(1)
        buffers = torch.empty(2, self.num_heads, _CHUNK, dtype=flat_HN.dtype, device=flat_HN.device)
        for start in range(0, len(places_M), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            p_HM = flat_HN[:, places_M[chunk]].mul_(1 - SMOOTHING).add_(uniform_M[chunk])
            self.alone_H -= (p_HM * p_HM.log()).sum(1).double().cpu()
            both, logs = buffers[:, :, : p_HM.shape[1]]
            for head in range(self.num_heads - 1):
                later = slice(head + 1, None)
                torch.add(p_HM[later], p_HM[head], out=both[later])
                torch.log(both[later], out=logs[later])
                self.mixed_HH[head, later] -= both[later].mul_(logs[later]).sum(1).double().cpu()

    def __add__(self, other: "Divergence") -> "Divergence":
        both = Divergence(self.num_heads, num_queries=self.num_queries + other.num_queries)
        both.mixed_HH = self.mixed_HH + other.mixed_HH
        both.alone_H = self.alone_H + other.alone_H
        return both

    def mean(self) -> Float64[Tensor, "head head"]:
        """Mean divergence over queries between every two heads, in nats."""
        # -y/2 ln(y/2) = (-y ln y + y ln 2) / 2, and y adds up to 2 over the keys of a query
        upper_HH = self.mixed_HH / 2 + self.num_queries * log(2)
        upper_HH = (upper_HH - (self.alone_H[:, None] + self.alone_H) / 2).triu(1).clamp_min(0)
        return (upper_HH + upper_HH.T) / max(1, self.num_queries)


FEW = 30
"""Number of sentences below which a warning says that distances are rough."""


def cluster(
    model: Loaded | PreTrainedModel,
    corpus: Corpus,
    options: ClusterOptions | None = None,
    progress: Progress = silent,
    tokenizer: Tokenizer | None = None,
) -> Clusters:
    """Measure the distances between all heads of each site, and group heads that are near.

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        corpus: what to measure on; encoder-decoders need parallel text.
        options: how to run.
        progress: called with the stage and the number of sentences done.
        tokenizer: the tokenizer of a plain model.

    Raises:
        CorpusError: if the corpus can't be read.
        ModelError: if the model's attention can't be observed.
    """
    loaded, options = as_loaded(model, tokenizer), options or ClusterOptions()
    check_has_heads(loaded)
    watch = Stopwatch()
    encoder = loaded.encoder(windows=options.windows, window=options.window)
    census = take_census(corpus, encoder)
    longest = census.longest
    # Several short texts are compared at once; a text that is too long for that is cut
    most = max(1, min(options.max_tokens, options.max_weights // (len(loaded.heads) * longest)))
    check_memory(loaded, longest, census.num_rows, most)
    work = Batches(corpus, encoder, census, max_tokens=most, pool=options.pool).units()
    sums = _sums(loaded, work, options, lambda n: progress("comparing", n, census.num_rows))
    watch.lap("measure")
    distances = {site: each.mean().numpy() for site, each in sums.items()}
    grids = {site: [head for head in loaded.heads if head.site == site] for site in sums}
    names = {site: list(map(str, heads)) for site, heads in grids.items()}
    places, drawn = list[HeadPlace](), (options.permutations, options.seed)
    for site, each in distances.items():
        first = 1 + max((place.group for place in places), default=-1)
        places += arrange(names[site], each, options.within, options.seed, first)
    tests = [
        layer_test(site, [head.layer for head in grids[site]], each, *drawn)
        for site, each in distances.items()
    ]
    record = ClustersRecord(
        signature=_signature(loaded, corpus, census, encoder, options),
        model=name_of(loaded.name),
        corpora=corpus.names,
        sentences=census.counts.sentences,
        queries={site: each.num_queries for site, each in sums.items()},
        truncated=census.counts.truncated,
        within=options.within,
        tests=tuple(tests),
        warnings=(*census.warnings(encoder.max_length), *_rough(census.counts.sentences)),
        timings=watch.lap("arrange"),
    )
    return Clusters(record, tuple(places), _frame(names, distances))


def _signature(
    loaded: Loaded, corpus: Corpus, census: Census, encoder: Encoder, options: ClusterOptions
) -> str:
    """Everything that the numbers depend on."""
    return signature(
        loaded,
        census.sha256,
        **corpus.signed,
        n=census.counts.sentences,
        max_length=encoder.max_length,
        windows=encoder.windows or None,
        within=options.within,
        permutations=options.permutations,
        seed=options.seed,
    )


def _rough(num_sentences: int) -> list[str]:
    """A warning if the distances are of few sentences."""
    if num_sentences >= FEW:
        return []
    return [
        f"distances are means over {amount(num_sentences, 'sentence')}: below {FEW}, other text "
        "can give quite other groups. p is of shuffled layers and says nothing about other text"
    ]


def _frame(
    names: Mapping[str, Sequence[str]], distances: Mapping[str, Float[np.ndarray, "head head"]]
) -> pd.DataFrame:
    rows = [
        (names[site][a], names[site][b], float(each[a, b]))
        for site, each in distances.items()
        for a in range(len(each))
        for b in range(a + 1, len(each))
    ]
    return pd.DataFrame(rows, columns=["head_a", "head_b", "distance"])


def _sums(
    loaded: Loaded,
    work: Iterable[Iterable[Batch]],
    options: ClusterOptions,
    done: Callable[[int], None],
) -> dict[str, Divergence]:
    """The divergences of every site, over the batches of all units."""
    model, counts = loaded.model, loaded.heads.counts
    sizes = {site: sum(each) for site, each in counts.items() if sum(each) > 1}
    if not sizes:
        raise ModelError(
            f"Expected a site with at least two heads, got {loaded.name} with none. There is "
            "nothing to compare."
        )
    num_sentences, body = 0, model.base_model
    more = without_cache(body)

    def of_unit(batches: Iterable[Batch]) -> dict[str, Divergence]:
        nonlocal num_sentences
        sums = {site: Divergence(size) for site, size in sizes.items()}
        keeper = _Keeper(loaded.heads, sums)
        with Tap(model, loaded.anatomy, FunctionListener(keeper.block)):
            for batch in batches:
                there = batch.to(input_device(model))
                for queries in _stripes(there, len(loaded.heads), options.max_weights):
                    keeper.start(there, queries)
                    body(**there.inputs, **more)
                    keeper.compare()
                num_sentences += len(batch.sentences)
                done(num_sentences)
        return sums

    sums = {site: Divergence(size) for site, size in sizes.items()}
    with evaluating(model), torch.inference_mode():
        for part in spread(of_unit, work, "parts of the corpus"):
            sums = {site: each + part[site] for site, each in sums.items()}
    return sums


def _stripes(batch: Batch, num_heads: int, max_weights: int) -> Iterator[slice]:
    """Cuts of the queries, so that the weights of all heads at once are at most so many."""
    sides = [batch.source.ids_BN, *([] if batch.target is None else [batch.target.ids_BN])]
    longest = max(side.shape[1] for side in sides)
    step = max(1, max_weights // (num_heads * len(batch.sentences) * longest))
    for start in range(0, longest, step):
        yield slice(start, min(start + step, longest))


@final
class _Keeper:
    """Keeps some queries' weights of all heads, from the tap's blocks, which are then compared."""

    def __init__(self, heads: Heads, sums: Mapping[str, Divergence]) -> None:
        self._sums, self._first = sums, dict[LayerId, int]()
        for site in sums:
            first = 0
            for layer, count in enumerate(heads.counts[site]):
                self._first[LayerId(site, layer)] = first
                first += count
        self._kept: dict[str, Tensor] = {}

    def start(self, batch: Batch, queries: slice) -> None:
        """Announce the batch of the next forward pass, and which of its queries to keep."""
        self._batch, self._queries, self._kept = batch, queries, {}

    def block(self, block: Block) -> None:
        """Keep the queries of a block that are to be compared."""
        site, weights = block.layer.site, block.weights_BHQK
        if site not in self._sums:
            return
        start = block.queries.start or 0
        first = max(self._queries.start, start)
        last = min(self._queries.stop, start + weights.shape[2])
        if first >= last:
            return
        num_heads = self._sums[site].num_heads
        if site not in self._kept:
            size = (num_heads, len(self._batch.sentences), self._queries.stop - self._queries.start)
            where = self._batch.source.ids_BN.device
            self._kept[site] = weights.new_zeros(*size, weights.shape[3], device=where)
        offset = self._first[block.layer.layer_id] + (block.heads.start or 0)
        heads = slice(offset, offset + weights.shape[1])
        queries = slice(first - self._queries.start, last - self._queries.start)
        part = weights[:, :, first - start : last - start].transpose(0, 1)
        kept = self._kept[site]
        kept[heads, block.rows, queries] = part.to(kept.device)

    def compare(self) -> None:
        """Add the divergences between the heads of each site."""
        source = self._batch.source
        target = self._batch.target or source
        for site, weights_HBQK in self._kept.items():
            query_side = source if site == "encoder.self" else target
            key_side = target if site == "decoder.self" else source
            is_query_BN = query_side.is_token_BN
            if self._batch.is_measured_BN is not None:
                is_query_BN = is_query_BN & self._batch.is_measured_BN
            is_query_BQ = is_query_BN[:, self._queries]
            size = is_query_BQ.shape[1]
            self._sums[site].add(weights_HBQK[:, :, :size], is_query_BQ, key_side.is_token_BN)
        self._kept = {}


def arrange(
    heads: Sequence[str],
    distance_HH: Float[np.ndarray, "head head"],
    within: float,
    seed: int,
    first_group: int = 0,
) -> list[HeadPlace]:
    """The group of every head, its place in the hierarchy, and its place on the map.

    Args:
        heads: names of the heads of a site.
        distance_HH: distances between them.
        within: largest distance between two heads of a group.
        seed: seed of the map.
        first_group: number of the first group.
    """
    tree = linkage(squareform(distance_HH, checks=False), "complete", optimal_ordering=True)
    leaves = leaves_list(tree)
    group_H = fcluster(tree, within, "distance")
    in_order = list(dict.fromkeys(group_H[leaves].tolist()))
    order_H = np.argsort(leaves)
    xy_H2 = scaled(distance_HH, seed)
    return [
        HeadPlace(head, first_group + in_order.index(group), order, *xy)
        for head, group, order, xy in zip(
            heads, group_H.tolist(), order_H.tolist(), xy_H2.tolist(), strict=True
        )
    ]


def scaled(distance_HH: Float[np.ndarray, "head head"], seed: int) -> Float[np.ndarray, "head 2"]:
    """Coordinates by metric multidimensional scaling, from the classical solution."""
    scaling = MDS(
        n_components=2,
        metric="precomputed",
        n_init=1,
        init="classical_mds",
        random_state=seed,
    )
    return np.asarray(scaling.fit_transform(distance_HH))


def layer_test(
    site: str,
    layer_H: Sequence[int],
    distance_HH: Float[np.ndarray, "head head"],
    permutations: int,
    seed: int,
) -> LayerTest:
    """Test whether heads of one layer are nearer to each other than to other heads.

    Args:
        site: site of the heads.
        layer_H: layer of each head.
        distance_HH: distances between them.
        permutations: number of random permutations.
        seed: seed of the permutations.
    """
    layers, rng = np.asarray(layer_H), np.random.default_rng(seed)
    same, other = _means(layers, distance_HH)
    drawn = (_means(rng.permutation(layers), distance_HH) for _ in range(permutations))
    apart = paced((o - s for s, o in drawn), permutations, "permutations", held=True)
    p = p_at_least(other - same, np.array([*apart]))
    p = float("nan") if np.isnan(other - same) else p
    return LayerTest(site, same, other, p, permutations)


def _means(
    layer_H: Int[np.ndarray, " head"], distance_HH: Float[np.ndarray, "head head"]
) -> tuple[float, float]:
    """Mean distance within layers and between layers; NaN where there is no such pair."""
    upper = np.triu_indices(len(layer_H), 1)
    is_same, distance = layer_H[upper[0]] == layer_H[upper[1]], distance_HH[upper]
    same, other = distance[is_same], distance[~is_same]
    return (
        float(same.mean()) if len(same) else float("nan"),
        float(other.mean()) if len(other) else float("nan"),
    )
