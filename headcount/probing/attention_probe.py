r"""Attention probe: dependency heads from a combination of all attention heads.

$$p(i \text{ is the head of } j) \propto \exp \sum_k \bigl(w_k A^k_{ij} + u_k A^k_{ji}\bigr)$$

With words, the weights of a pair are linear in the vectors of its two words:
$w_k = a_k \cdot v_i + b_k \cdot v_j + c_k$, likewise $u_k$. The root is one more candidate. Its
score is linear in the attention from and to the special tokens before and after the sentence, plus
a constant, which is all that models without special tokens have.

Reference: What Does BERT Look At? (Clark et al., 2019), section 5, https://arxiv.org/abs/1906.04341
Departure: the constants $c_k$ and that of the root are ours. The paper reports accuracies without
labels; here a linear classifier of the arc's label reads $A^k_{ij}$, $A^k_{ji}$ and, with words,
$v_i$ and $v_j$.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from headcount.probing.extraction import NUM_SLOTS, WordMaps
from headcount.probing.treebank import ProbeSentence
from headcount.probing.vectors import WordVectors

MapsOf = Callable[[Sequence[int]], Float[Tensor, "batch query key map"]]
"""Gives the maps of some sentences, padded; special tokens before and after come last."""

_NEVER = -1e9
"""Score of what is no candidate."""


@final
@dataclass(frozen=True)
class Training:
    """How a probe is trained, with Adam."""

    rate: float
    """Learning rate."""
    epochs: int
    """Number of passes over the training sentences."""
    batch: int = 16
    """Number of sentences in a batch."""


ATTENTION = Training(rate=2e-2, epochs=5)
WORDS = Training(rate=2e-3, epochs=12)


@final
@dataclass(frozen=True, eq=False)
class ProbeData:
    """The sentences of one treebank as a probe reads them."""

    sentences: Sequence[ProbeSentence]
    num_maps: int
    """Number of maps: heads, or distances."""
    maps_of: MapsOf
    """Gives their maps."""
    vectors: WordVectors | None = None
    """Word vectors; None for a probe without words."""

    @classmethod
    def of(
        cls, sentences: Sequence[ProbeSentence], maps: WordMaps, vectors: WordVectors | None = None
    ) -> "ProbeData":
        """The data of attention maps."""
        return cls(sentences, maps.num_heads, maps.batch, vectors)

    def batch(self, indices: Sequence[int]) -> "ProbeBatch":
        """Some sentences, padded to the longest."""
        maps_BNNK = self.maps_of(indices)
        sentences = [self.sentences[index] for index in indices]
        longest = maps_BNNK.shape[1] - NUM_SLOTS
        head_BW = torch.full((len(indices), longest), -1)
        for row, sentence in enumerate(sentences):
            head_W = torch.from_numpy(sentence.head_W)
            length = len(head_W)
            head_BW[row, :length] = head_W.masked_fill(head_W == length, longest)
        vectors_BWD = None if self.vectors is None else self.vectors.of(sentences, longest)
        return ProbeBatch(maps_BNNK, vectors_BWD, head_BW)


@final
@dataclass(frozen=True, eq=False)
class ProbeBatch:
    """Some sentences, padded to the longest of them."""

    maps_BNNK: Float[Tensor, "batch query key map"]
    """Maps; the last two places are the special tokens before and after."""
    vectors_BWD: Float[Tensor, "batch word width"] | None
    """Word vectors."""
    head_BW: Int64[Tensor, "batch word"]
    """Index of each word's head; the padded length for the root, -1 for padding."""


@final
class ArcProbe(nn.Module):
    """Scores every word and the root as the head of every word.

    Args:
        num_maps: number of maps.
        width: size of a word vector; 0 for a probe without words.
    """

    def __init__(self, num_maps: int, width: int = 0) -> None:
        super().__init__()
        self.from_dependent = nn.Parameter(torch.zeros(num_maps))
        self.from_head = nn.Parameter(torch.zeros(num_maps))
        self.words = nn.Parameter(torch.zeros(4, width, num_maps))
        """Of A_dh by the vectors of d and of h, then of A_hd by those of d and of h."""
        self.root = nn.Parameter(torch.zeros(2 * NUM_SLOTS, num_maps))
        self.constant = nn.Parameter(torch.zeros(()))

    def forward(self, batch: ProbeBatch) -> Float[Tensor, "batch dependent candidate"]:
        """Scores of all candidates; the last one is the root."""
        maps_BNNK, num_words = batch.maps_BNNK, batch.head_BW.shape[1]
        maps_BWWK = maps_BNNK[:, :num_words, :num_words]
        scores_BWW = maps_BWWK @ self.from_dependent
        scores_BWW = scores_BWW + (maps_BWWK @ self.from_head).transpose(1, 2)
        if batch.vectors_BWD is not None:
            scores_BWW = scores_BWW + self._by_words(maps_BWWK, batch.vectors_BWD)
        is_word_BW = batch.head_BW >= 0
        itself_WW = torch.eye(num_words, dtype=torch.bool)
        scores_BWW = scores_BWW.masked_fill(itself_WW | ~is_word_BW[:, None], _NEVER)
        return torch.cat([scores_BWW, self._root(maps_BNNK, num_words)[..., None]], -1)

    def _by_words(
        self, maps_BWWK: Tensor, vectors_BWD: Tensor
    ) -> Float[Tensor, "batch dependent candidate"]:
        """The part of the scores whose weights are linear in the two words' vectors."""
        own, others, own_back, others_back = torch.einsum("bwd,xdk->xbwk", vectors_BWD, self.words)
        by_query = maps_BWWK @ torch.stack([own, others_back], -1)
        by_key = maps_BWWK.transpose(1, 2) @ torch.stack([own_back, others], -1)
        first, second = (by_query + by_key).unbind(-1)
        return first + second.transpose(1, 2)

    def _root(self, maps_BNNK: Tensor, num_words: int) -> Float[Tensor, "batch dependent"]:
        to_BWSK = maps_BNNK[:, :num_words, num_words:]
        from_BSWK = maps_BNNK[:, num_words:, :num_words]
        score_BW = torch.einsum("bwsk,sk->bw", to_BWSK, self.root[:NUM_SLOTS])
        score_BW = score_BW + torch.einsum("bswk,sk->bw", from_BSWK, self.root[NUM_SLOTS:])
        return score_BW + self.constant


def train_arc_probe(
    data: ProbeData, training: Training, seed: int, after_epoch: Callable[[int], None] = print
) -> ArcProbe:
    """Train a probe by the cross-entropy of each word's head among all candidates."""
    probe = ArcProbe(data.num_maps, 0 if data.vectors is None else data.vectors.width)
    optimizer = torch.optim.Adam(probe.parameters(), training.rate)
    generator = np.random.default_rng(seed)
    for epoch in range(training.epochs):
        for indices in shuffled(data.sentences, training.batch, generator):
            batch = data.batch(indices)
            scores_BWC = probe(batch)
            loss = functional.cross_entropy(
                scores_BWC.flatten(0, 1), batch.head_BW.flatten(), ignore_index=-1
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after_epoch(epoch + 1)
    return probe


def shuffled(
    sentences: Sequence[ProbeSentence], size: int, generator: np.random.Generator
) -> Iterator[list[int]]:
    """Batches in random order; sentences of similar length are together, to spare padding."""
    order = generator.permutation(len(sentences))
    pools = [order[at : at + 20 * size] for at in range(0, len(order), 20 * size)]
    batches = []
    for pool in pools:
        by_length = sorted(pool.tolist(), key=lambda index: len(sentences[index].words))
        batches += [by_length[at : at + size] for at in range(0, len(by_length), size)]
    for number in generator.permutation(len(batches)):
        yield batches[number]


def candidate_scores(
    probe: ArcProbe, data: ProbeData, size: int = 64
) -> Iterator[Float[np.ndarray, "dependent candidate"]]:
    """The scores of every sentence, in order; the last candidate is the root."""
    with torch.inference_mode():
        for at in range(0, len(data.sentences), size):
            indices = range(at, min(at + size, len(data.sentences)))
            scores_BWC = probe(data.batch(indices)).numpy()
            for scores_WC, index in zip(scores_BWC, indices, strict=True):
                length = len(data.sentences[index].words)
                yield scores_WC[:length, [*range(length), -1]]
