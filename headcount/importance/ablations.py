r"""Ablation: the measured drop in quality without a head.

$$\Delta_h = L(\text{without } h) - L, \qquad \text{or} \quad \Delta_h = S - S(\text{without } h)$$

L is the task's mean loss and S its score, with its sign flipped where lower is better, so a head
that helps has a positive delta. Ablations are every head alone, whole layers, whole sites, and all
heads of a layer but one. A head's output is replaced by zero, by its mean, or by its output under
uniform attention.

Cross-fitting: the best of several ablations, measured on examples that did not choose it.

The best of many ablations looks better than it is on the examples that chose it. So the examples
are split into two halves by a seed. Each half chooses, and the choice is measured on the other
half. The measured halves together are one evaluation of all examples.

References: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 3, https://arxiv.org/abs/1905.10650;
Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), section 4.4, https://arxiv.org/abs/1908.08593

Reference: the split of Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 3.3,
    https://arxiv.org/abs/1905.10650, which chooses on other data; halves that change places:
    Chernozhukov et al. (2018), section 1, https://arxiv.org/abs/1608.00060
"""  # noqa: E501

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, Head, Heads, added, check_choice, falling
from headcount.importance.ablation_sweep import Ablation, AblationSetting, sweep
from headcount.importance.choices import DeltaOf, Instead
from headcount.importance.gradients import Scores, by_layer
from headcount.importance.query_means import QueryListener, QuerySums
from headcount.tap import Anatomy, AnyModel, AttentionLayer, Block, Replacement, examined, visible
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True, eq=False)
class CrossFit:
    """The best of several ablations."""

    best: int
    """Number of the ablation that does best on all examples."""
    halves: tuple[int, int]
    """Numbers of those that do best on each half."""
    evaluation: Evaluation
    """The results on every example under the choice of the half that it is not in."""


def halves(num_examples: int, seed: int) -> tuple[Int[np.ndarray, " half"], ...]:
    """Numbers of the examples of two halves, drawn by a seed, in the order of the data."""
    order_N = np.random.default_rng(seed).permutation(num_examples)
    return tuple(np.sort(order_N[start::2]) for start in (0, 1))


def cross_fit(
    task: Task, choices: Sequence[Evaluation], quantity: DeltaOf = "loss", seed: int = 0
) -> CrossFit:
    """Choose the best ablation on each half of the examples, and measure it on the other half.

    Args:
        task: Task with two examples or more, which defines the score and its direction.
        choices: Evaluations under the ablations to choose from.
        quantity: Whether the lowest loss or the best score is best.
        seed: Seed of the split.
    """
    check_choice("a quantity", quantity, DeltaOf)
    num = len(choices[0].loss_N)
    assert num > 1, "one example can't choose and measure"

    def chosen(index_S: Int[np.ndarray, " some"]) -> int:
        if quantity == "loss":
            worth = [-float(each.loss_N[index_S].sum()) for each in choices]
        else:
            sign = 1 if task.higher_is_better else -1
            worth = [sign * task.score(each, index_S) for each in choices]
        # A rank correlation of equal numbers does not exist
        return int(falling(np.nan_to_num(worth, nan=-np.inf))[0])

    both = halves(num, seed)
    one, other = (chosen(index_S) for index_S in both)
    is_first_N = np.isin(np.arange(num), both[0])
    first, second = choices[other], choices[one]

    def mixed(name: str) -> np.ndarray:
        one, other = getattr(first, name), getattr(second, name)
        return np.where(is_first_N.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    evaluation = Evaluation(mixed("loss_N"), first.count_N, mixed("outcome_N"))
    return CrossFit(chosen(np.arange(num)), (one, other), evaluation)


def uniform(
    layer: AttentionLayer, value_BHKD: Tensor, mask: Tensor | None
) -> Float[Tensor, "batch query head dim"]:
    """Every head's output if it attended equally to all keys it may see."""
    if mask is None:
        return value_BHKD.mean(2)[:, None]
    share = visible(mask).to(value_BHKD)
    share = share / share.sum(-1, keepdim=True).clamp_min(1)
    return (share @ value_BHKD).transpose(1, 2)


def mean(
    model: AnyModel, task: Task, anatomy: Anatomy | None = None, max_tokens: int = MAX_TOKENS
) -> Replacement:
    """Each head's mean output over the queries of a task's data, without padding."""
    model, anatomy = examined(model, anatomy)
    sums = _MeanOutput().over(task, model, anatomy, max_tokens)
    means = {place: each.value() for place, each in sums.items()}
    return lambda layer, value, mask: means[layer.layer_id].to(value)


class _MeanOutput(QueryListener):
    """Sums every head's output over a batch's queries that are not padding."""

    def __init__(self) -> None:
        super().__init__()
        self._value: Tensor | None = None
        self._total_HD = self._is_query_BQ = torch.empty(0)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Store the values until the layer ends."""
        assert self.batch is not None
        self._value = value_BHKD
        shape = (len(value_BHKD), num_queries)
        self._is_query_BQ = self.batch.is_query(layer.site, shape).to(value_BHKD.device)
        size = (layer.num_heads, layer.head_dim)
        self._total_HD = value_BHKD.new_zeros(size, dtype=torch.float64)

    def block(self, block: Block) -> None:
        """Add the block's outputs."""
        assert self._value is not None
        output_BHQD = block.weights_BHQK @ self._value[block.rows, block.heads]
        is_query = self._is_query_BQ[block.rows, None, block.queries, None]
        self._total_HD[block.heads] += (output_BHQD * is_query).sum((0, 2), dtype=torch.float64)

    def end(self, layer: AttentionLayer) -> None:
        """Keep the layer's sums, and drop the values."""
        part = QuerySums(self._total_HD, int(self._is_query_BQ.sum()))
        self.sums, self._value = added(self.sums, {layer.layer_id: part}), None


def single_heads(heads: Heads) -> list[Ablation]:
    """Ablations of every head alone, in the order of `heads`.

    >>> [ablation.name for ablation in single_heads(Heads({"encoder.self": (1, 2)}))]
    ['enc.0.0', 'enc.1.0', 'enc.1.1']
    """
    return [Ablation(str(head), (head,)) for head in heads]


def whole_layers(heads: Heads) -> list[Ablation]:
    """Ablations of all heads of each layer.

    >>> [ablation.name for ablation in whole_layers(Heads({"decoder.cross": (1, 2)}))]
    ['cross.0', 'cross.1']
    """
    return [Ablation(name, tuple(each), "layer") for name, each in _by_layer(heads).items()]


def whole_sites(heads: Heads) -> list[Ablation]:
    """Ablations of all heads of each site that has heads.

    >>> [ablation.name for ablation in whole_sites(Heads({"decoder.cross": (1, 2)}))]
    ['decoder.cross']
    """
    sites = {head.site for head in heads}
    return [
        Ablation(site, tuple(head for head in heads if head.site == site), "site")
        for site in heads.counts
        if site in sites
    ]


def all_but_one(heads: Heads) -> list[Ablation]:
    """Ablations of all heads of a layer but one, for every head of layers with several heads.

    >>> [ablation.name for ablation in all_but_one(Heads({"encoder.self": (1, 2)}))]
    ['enc.1 but enc.1.0', 'enc.1 but enc.1.1']
    """
    return [
        Ablation(
            f"{name} but {kept}", tuple(head for head in each if head != kept), "all_but_one", kept
        )
        for name, each in _by_layer(heads).items()
        if len(each) > 1
        for kept in each
    ]


def replacement(
    instead: Instead,
    model: PreTrainedModel,
    task: Task,
    anatomy: Anatomy,
    max_tokens: int = MAX_TOKENS,
) -> Replacement | None:
    """The replacement of a name; `mean` runs over the task's data once."""
    check_choice("a replacement", instead, Instead)
    if instead == "mean":
        return mean(model, task, anatomy, max_tokens)
    return uniform if instead == "uniform" else None


def ablation(
    model: AnyModel,
    task: Task,
    instead: Instead = "zero",
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Scores:
    """The rise of the task's loss without each head: higher = more important.

    Args:
        model: Model to ablate.
        task: Task that defines the loss.
        instead: Replacement for the head's output.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
        progress: Callback that receives the number of finished examples and the total.

    Returns:
        One delta per head, by site and layer, in the unit of the loss.
    """
    model, anatomy = examined(model, anatomy)
    heads = anatomy.heads
    stand_in = replacement(instead, model, task, anatomy, max_tokens)
    setting = AblationSetting(model, task, anatomy, stand_in, max_tokens)
    swept = sweep(setting, single_heads(heads), progress=progress)
    losses = [swept.evaluation(number).loss for number in range(len(heads))]
    return by_layer(heads, torch.tensor(losses, dtype=torch.float64) - swept.base.loss)


def _by_layer(heads: Heads) -> dict[str, list[Head]]:
    layers: dict[str, list[Head]] = {}
    for head in heads:
        layers.setdefault(str(head).rpartition(".")[0], []).append(head)
    return layers
