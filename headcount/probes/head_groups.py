r"""Groups of heads at small distances, a map of them, and a test of the layers.

Groups come from complete linkage: no two heads of a group are further apart than a given distance.
The map places the heads in two dimensions so that distances there are as near as possible to the
measured ones (metric multidimensional scaling).

The test asks whether two heads of one layer are nearer than two heads of different layers:

$$\Delta = \overline{d}_{\text{different layers}} - \overline{d}_{\text{same layer}}, \qquad
p = \frac{1 + |\{\pi : \Delta_\pi \ge \Delta\}|}{1 + |\Pi|}$$

over random permutations $\pi$ of the heads, which keep the sizes of the layers.

Grouped maps: the attention between words, or between mentions, of all heads of some layers.

Reference: What Does BERT Look At? (Clark et al., 2019), section 6, https://arxiv.org/abs/1906.04341
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import MDS
from torch import Tensor

from headcount.results import HeadPlace, LayerTest
from headcount.statistics import p_at_least
from headcount.tap import AttentionLayer, Block


@final
class GroupedMaps:
    """Adds up attention between groups of tokens, block by block of the tap.

    Weights are summed over the keys of a group and averaged over its queries.

    Args:
        layers: the layers that are heard; their heads follow each other.
    """

    def __init__(self, layers: Sequence[AttentionLayer]) -> None:
        starts = np.cumsum([0, *(layer.num_heads for layer in layers)]).tolist()
        self._start = {layer.layer_id: at for layer, at in zip(layers, starts[:-1], strict=True)}
        self._num_heads = starts[-1]
        self.maps_BHGG = torch.empty(0)
        """The maps of the batch of the last forward pass."""

    def start(self, sums_BGN: Float[Tensor, "batch group token"]) -> None:
        """Announce the batch of the next forward pass, with 1 where a token is in a group."""
        self._sums_BNG = sums_BGN.transpose(1, 2)
        self.means_BGN = sums_BGN / sums_BGN.sum(-1, keepdim=True).clamp_min(1)
        """The same divided by the number of the group's tokens."""
        batch, groups, _ = sums_BGN.shape
        self.maps_BHGG = sums_BGN.new_zeros(batch, self._num_heads, groups, groups)

    def block(self, block: Block) -> None:
        """Add a block."""
        if (start := self._start.get(block.layer.layer_id)) is None:
            return
        weights_BHQK = block.weights_BHQK.to(self.maps_BHGG.device, torch.float)
        means_BGQ = self.means_BGN[block.rows, :, block.queries]
        map_BHGG = means_BGQ[:, None] @ (weights_BHQK @ self._sums_BNG[block.rows, None])
        start += block.heads.start or 0
        self.maps_BHGG[block.rows, start : start + map_BHGG.shape[1]] += map_BHGG


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
    p = p_at_least(other - same, np.array([o - s for s, o in drawn]))
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
