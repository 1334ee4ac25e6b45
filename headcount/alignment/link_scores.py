r"""Scores of links against gold links: error rate, precision, recall, with intervals over pairs.

$$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}, \qquad
\mathrm{precision} = \frac{|A \cap P|}{|A|}, \qquad \mathrm{recall} = \frac{|A \cap S|}{|S|}$$

S are the sure gold links and P the possible ones, S among them.

Links between the words of pairs, as every head of one layer would draw them.

$$M_h(t, s) = \frac{1}{|t|} \sum_{i \in t} \sum_{j \in s} A_h(i, j), \qquad
N_h(t, s) = \frac{1}{|t|} \sum_{i \in t} \sum_{j \in s} A_h(i, j)\,\|f_h(x_j)\|, \qquad
t \to \arg\max_s$$

i runs over the pieces of a target word t, j over those of a source word s, and f as in `norms`. At
the level of a layer, weights are means over its heads, and norms are those of the sum of its heads'
vectors, $\|\sum_h A_h(i, j) f_h(x_j)\|$. In cross-attention the row of a piece is the one in which
it is predicted (`output`) or read (`input`). In self-attention a target word takes its own row
(`target->source`), its column, that is the source word that attends to it most (`target<-source`),
or the sum of both (`target<->source`).

Reference: A Systematic Comparison of Various Statistical Alignment Models (Och & Ney, 2003),
section 4, https://aclanthology.org/J03-1002

Reference: Attention is Not Only a Weight (Kobayashi et al., 2020), section 5, https://arxiv.org/abs/2004.10102
Departure: the published code makes the source's end of sentence a candidate, and drops its links;
here `end_of_source` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from headcount.alignment.result import AlignmentRow
from headcount.core import LayerId
from headcount.corpora import TOKEN_TYPES, Links, PairTokens, padded, present
from headcount.statistics import Bootstrap, Clusters
from headcount.tap import AttentionLayer, Block, OnDevices

QUANTITIES = ("weights", "norms")
"""What links are read from."""
CROSS_DIRECTIONS = ("output", "input")
SELF_DIRECTIONS = ("target->source", "target<-source", "target<->source")


@final
@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some pairs, ready for a model, and the words of their pieces."""

    inputs: dict[str, Int64[Tensor, "batch _"]]
    """Keyword arguments of the model's forward."""
    source_BNV: Float[Tensor, "batch key source"]
    """1 where a token is a piece of a source word."""
    targets_BNW: tuple[Float[Tensor, "batch query target"], ...]
    """1 where a token's row belongs to a target word, for every way of saying which row does."""
    is_source_BV: Bool[Tensor, "batch source"]
    """The source words that a link may join."""

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions in which links can be read."""
        return CROSS_DIRECTIONS if "decoder_input_ids" in self.inputs else SELF_DIRECTIONS

    def to(self, device: torch.device) -> "PairBatch":
        """Copy the batch to another device."""
        return PairBatch(
            {name: tensor.to(device) for name, tensor in self.inputs.items()},
            self.source_BNV.to(device),
            tuple(tensor.to(device) for tensor in self.targets_BNW),
            self.is_source_BV.to(device),
        )


def pair_batch(
    tokens: Sequence[PairTokens], is_source: Sequence[Sequence[bool]], pad_id: int
) -> PairBatch:
    """Put some pairs into a batch.

    Args:
        tokens: the pairs as the model reads them.
        is_source: for every source word of each pair, whether a link may join it.
        pad_id: the id of padding.
    """
    inputs = _inputs([pair.ids for pair in tokens], pad_id, "")
    decoders = [pair.decoder_ids for pair in tokens if pair.decoder_ids is not None]
    if decoders:
        inputs |= _inputs(decoders, pad_id, "decoder_")
    if any(pair.type_ids for pair in tokens):
        types = padded([pair.type_ids or [0] * len(pair.ids) for pair in tokens], 0)
        inputs[TOKEN_TYPES] = torch.from_numpy(types)
    rows = [[pair.input_of for pair in tokens]]
    outputs = [pair.output_of for pair in tokens if pair.output_of is not None]
    return PairBatch(
        inputs,
        _sources(tokens, max(map(len, is_source))),
        tuple(_one_hot(each) for each in ([outputs, *rows] if outputs else rows)),
        torch.from_numpy(padded([list(map(int, each)) for each in is_source], 0)).bool(),
    )


def _inputs(rows: Sequence[list[int]], pad_id: int, prefix: str) -> dict[str, Tensor]:
    return {
        f"{prefix}input_ids": torch.from_numpy(padded(rows, pad_id)),
        f"{prefix}attention_mask": torch.from_numpy(present(rows)).long(),
    }


def _one_hot(words: Sequence[Sequence[int]]) -> Float[Tensor, "batch token word"]:
    word_BN = torch.from_numpy(padded(words, -1))
    num_words = max(1, int(word_BN.max()) + 1)
    return (word_BN[..., None] == torch.arange(num_words)).float()


def _sources(pairs: Sequence[PairTokens], num_words: int) -> Float[Tensor, "batch token word"]:
    """1 where a token is a piece of a source word; merged words have the same pieces."""
    source_BNV = _one_hot([pair.source_of for pair in pairs])
    source_BNV = functional.pad(source_BNV, (0, num_words - source_BNV.shape[-1]))
    for row, pair in enumerate(pairs):
        if pair.merged is not None:
            source_BNV[row, :, : len(pair.merged)] = source_BNV[row][:, pair.merged]
    return source_BNV


LinksOf = dict[tuple[LayerId, str, str], Int64[Tensor, "batch head_or_layer target"]]
"""Links in a batch of pairs, by layer, quantity and direction."""


@final
class LinkFinder:
    """The tap's listener: finds the links that every head draws, and every layer.

    The tap must pass a layer's attention in one block.

    Args:
        model: the tapped model.
        layers: the layers to listen to.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[AttentionLayer]) -> None:
        self._layers = {layer.layer_id for layer in layers}
        self._outputs = {
            layer.layer_id: None if layer.output is None else layer.output_weight(model)
            for layer in layers
        }
        self._copies: OnDevices[PairBatch] | None = None
        self._value_BHKD = torch.empty(0)
        self.links: LinksOf = {}
        """Source word of every target word, by layer, quantity and direction; the last of the
        heads is the layer."""

    def start(self, batch: PairBatch) -> None:
        """Announce the batch of the next forward pass."""
        self._copies, self.links = OnDevices(batch), {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Keep the layer's values; no columns are asked for."""
        self._value_BHKD = value_BHKD

    def block(self, block: Block) -> None:
        """Find the links of all heads of a layer."""
        layer, weights_BHQK = block.layer.layer_id, block.weights_BHQK
        if layer not in self._layers or self._copies is None:
            return
        batch = self._copies.on(weights_BHQK.device)
        assert weights_BHQK.shape[1] == block.layer.num_heads, "a layer must come in one block"
        maps = {"weights": (weights_BHQK, weights_BHQK.mean(1))}
        if (output_HDM := self._outputs[layer]) is not None:
            maps["norms"] = vector_norms(weights_BHQK, self._value_BHKD, output_HDM)
        for quantity, (heads_BHQK, layer_BQK) in maps.items():
            both_BHQK = torch.cat([heads_BHQK, layer_BQK[:, None]], 1)
            for direction, map_BHWV in word_maps(both_BHQK, batch).items():
                if layer.site == "decoder.self" and direction in SELF_DIRECTIONS[1:]:
                    continue  # the source, which comes first, can't see the target
                map_BHWV = map_BHWV.masked_fill(~batch.is_source_BV[:, None, None], -1)
                self.links[layer, quantity, direction] = map_BHWV.max(-1).indices.cpu()

    def end(self, layer: AttentionLayer) -> None:
        """Discard the values."""
        self._value_BHKD = torch.empty(0)


def word_maps(
    map_BHQK: Float[Tensor, "batch head query key"], batch: PairBatch
) -> dict[str, Float[Tensor, "batch head target source"]]:
    """The map between target words and source words in every direction."""
    source_B1KV = batch.source_BNV[:, None].to(map_BHQK)
    if len(batch.targets_BNW) == 1:
        target_B1QW = batch.targets_BNW[0][:, None].to(map_BHQK)
        by_row = _mean(target_B1QW) @ (map_BHQK @ source_B1KV)
        by_column = (_mean(source_B1KV) @ (map_BHQK @ target_B1QW)).transpose(-1, -2)
        return dict(zip(SELF_DIRECTIONS, (by_row, by_column, by_row + by_column), strict=True))
    keys_BHQV = map_BHQK @ source_B1KV
    rows = (_mean(each[:, None].to(map_BHQK)) @ keys_BHQV for each in batch.targets_BNW)
    return dict(zip(CROSS_DIRECTIONS, rows, strict=True))


def _mean(pieces_B1NW: Tensor) -> Tensor:
    """The matrix that takes the mean over each word's pieces, [batch, 1, word, token]."""
    return (pieces_B1NW / pieces_B1NW.sum(-2, keepdim=True).clamp_min(1)).transpose(-1, -2)


def vector_norms(
    weights_BHQK: Float[Tensor, "batch head query key"],
    value_BHKD: Float[Tensor, "batch head key dim"],
    output_HDM: Float[Tensor, "head dim hidden"],
) -> tuple[Float[Tensor, "batch head query key"], Float[Tensor, "batch query key"]]:
    r"""Norms of the heads' vectors A f(x), and of their sum over heads.

    $\|\sum_h A_h f_h\|^2 = \sum_{h,g} A_h A_g f_h \cdot f_g$, so that no vector per query and key
    is needed.
    """
    vector_BKHM = torch.einsum("bhkd,hdm->bkhm", value_BHKD, output_HDM.to(value_BHKD))
    product_BKHH = vector_BKHM @ vector_BKHM.transpose(-1, -2)
    norm_BHK = product_BKHH.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt().transpose(1, 2)
    weights_BKHQ = weights_BHQK.permute(0, 3, 1, 2)
    squared_BKQ = (weights_BKHQ * (product_BKHH @ weights_BKHQ)).sum(2)
    return weights_BHQK * norm_BHK[:, :, None], squared_BKQ.clamp_min(0).sqrt().transpose(1, 2)


class Place(NamedTuple):
    """What a row of the table is about."""

    head: str
    """Name of the head, layer or aligner."""
    level: str
    quantity: str
    direction: str


@final
@dataclass(frozen=True, eq=False)
class GoldCounts:
    """Numbers of links of every pair that no aligner changes."""

    sure_P: Int[np.ndarray, " pair"]
    """Number of sure links."""
    cases_P: Int[np.ndarray, " pair"]
    """Number of target words with gold links."""

    @classmethod
    def of(cls, gold: Sequence[Links], takes_part: Sequence[Sequence[bool]]) -> "GoldCounts":
        """The counts of some pairs.

        Args:
            gold: the links of every pair.
            takes_part: for every target word of each pair, whether it takes part.
        """
        linked = [
            sum(takes[target] for target in {target for _, target in links.possible})
            for links, takes in zip(gold, takes_part, strict=True)
        ]
        return cls(np.array([len(links.sure) for links in gold]), np.array(linked))


@final
@dataclass(frozen=True, eq=False)
class Found:
    """Links that one aligner draws in every pair."""

    links_P: Int[np.ndarray, " pair"]
    sure_P: Int[np.ndarray, " pair"]
    """Number of them that are sure."""
    possible_P: Int[np.ndarray, " pair"]
    """Number of them that are possible."""


def gold_grid(
    gold: Sequence[Links], takes_part: Sequence[Sequence[bool]], num_source: int
) -> Bool[np.ndarray, "kind pair target source"]:
    """The sure links and the possible ones of some pairs, without words that take no part."""
    num_targets = max(1, *map(len, takes_part))
    grid_2PWV = np.zeros((2, len(gold), num_targets, num_source), bool)
    for pair, (links, takes) in enumerate(zip(gold, takes_part, strict=True)):
        for kind, some in enumerate((links.sure, links.possible)):
            for source, target in some:
                grid_2PWV[kind, pair, target, source] = takes[target]
    return grid_2PWV


def share_pieces(
    gold_2WV: Bool[np.ndarray, "kind target source"], merged: Sequence[int] | None
) -> None:
    """Make a link to one of some merged source words a link to all of them, in place.

    Args:
        gold_2WV: the links of one pair.
        merged: number of the merged word that each source word is part of; None if none is.
    """
    if merged is not None:
        place_V = np.array(merged)
        its_2WV = gold_2WV[..., : len(place_V)]
        by_place_VV = place_V[:, None] == place_V
        its_2WV[:] = its_2WV.astype(int) @ by_place_VV.astype(int) > 0


def score(
    found: Mapping[Place, Found], gold: GoldCounts, samples: int, seed: int
) -> list[AlignmentRow]:
    """The rows of the table, in order.

    Args:
        found: links of every head, layer or other aligner.
        gold: numbers of gold links.
        samples: number of bootstrap samples of pairs.
        seed: seed of the samples.
    """
    drawn = Bootstrap(len(gold.sure_P), samples, seed)
    rows = []
    for place, links in found.items():
        shared_P, all_P = links.sure_P + links.possible_P, links.links_P + gold.sure_P
        aer = drawn.interval(
            float(error_rate(shared_P.sum(keepdims=True), all_P.sum(keepdims=True))[0]),
            error_rate(drawn.drawn_sums(shared_P), drawn.drawn_sums(all_P)),
            int(all_P.sum()),
            Clusters.of(all_P - shared_P, all_P, shares=True),
            shares=True,
        )
        rows.append(
            AlignmentRow(
                **place._asdict(),
                aer=aer.value,
                aer_low=aer.low,
                aer_high=aer.high,
                precision=_ratio(links.possible_P, links.links_P),
                recall=_ratio(links.sure_P, gold.sure_P),
                accuracy=_ratio(links.possible_P, gold.cases_P),
            )
        )
    return rows


def error_rate(
    shared: Shaped[np.ndarray, " any"], total: Shaped[np.ndarray, " any"]
) -> Float[np.ndarray, " any"]:
    """1 - shared / total; 1 where there is no link at all."""
    return 1 - shared / np.maximum(total, 1)


def _ratio(part_P: Int[np.ndarray, " pair"], whole_P: Int[np.ndarray, " pair"]) -> float:
    return float(part_P.sum() / max(1, whole_P.sum()))
