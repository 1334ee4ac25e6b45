r"""Sensitivity: numbers by head, layer and kind of token, with intervals, from sums of gradients.

Intervals are by a bootstrap over examples, in
which all numbers use the same draws.

Gradient of attention: how much the loss reacts to a head's attention on a kind of token.

$$\frac{\partial L(x)}{\partial A_{ij}} = \Big\langle \frac{\partial L(x)}{\partial o_i}, v_j
\Big\rangle, \qquad
s_c(h) = \frac{\sum_x \sum_i \sum_{j \in c} |\partial L(x) / \partial A_{ij}|}{\sum_x \sum_i
\sum_{j \in c} 1}$$

L(x) is the summed loss of one example in the task's unit (nats), A the weights after the softmax,
o_i the head's output for query i and v_j its value for key j. i and j run over all tokens that are
not padding, in causal attention with j <= i. c is a kind of token: the first one, separators,
punctuation, the rest. Where a head looks at separators a lot while the loss hardly reacts to it,
that attention is a no-op.

Reference: What Does BERT Look At? (Clark et al., 2019), section 3.2, https://arxiv.org/abs/1906.04341
Departure: punctuation is every token of Unicode category P; the paper counts periods and commas.
The first token is a kind of its own, so that causal models, which lack separators, are covered.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    Count,
    Head,
    InputError,
    LayerId,
    ModelError,
    Progress,
    Seed,
    Stopwatch,
    check_value,
    name_of,
    silent,
    spread,
)
from headcount.corpora import Encoder
from headcount.importance.gradients import frozen, open_gates, slopes
from headcount.importance.sensitivity_result import (
    KINDS,
    NoOp,
    Sensitivity,
    SensitivityRecord,
    SensitivityRow,
)
from headcount.models import Loaded, as_loaded, batch_tokens, check_has_heads, signature
from headcount.statistics import Bootstrap, Clusters, Estimate, few_clusters, rank_correlations
from headcount.tap import (
    Anatomy,
    AnyModel,
    AttentionLayer,
    Block,
    Tap,
    evaluating,
    examined,
    heard,
    input_device,
    on_gradient,
)
from headcount.tasks import Task, TaskBatch, check_examples_fit

SEPARATOR, FIRST, PUNCTUATION, OTHER = range(len(KINDS))


KindsOf = Callable[[TaskBatch, str], Float[Tensor, "row token kind"]]
"""Says for the tokens that attend to themselves at a site of what kind each is: 1 for its kind."""


@final
class KindSums:
    """Sums of one layer, for every example, head and kind of token.

    Args:
        num_examples: number of examples of the task, or of a batch.
        num_heads: number of heads of the layer.
    """

    def __init__(self, num_examples: int, num_heads: int) -> None:
        shape = (num_examples, num_heads, len(KINDS))
        self.gradient_EHC = torch.zeros(shape, dtype=torch.float64)
        """Sum of |dL/dA| over the pairs of a query and a key of the kind."""
        self.attention_EHC = torch.zeros(shape, dtype=torch.float64)
        """Sum of the weights on the kind, over queries."""
        self.pairs_EC = torch.zeros(num_examples, len(KINDS), dtype=torch.float64)
        """Number of pairs of a query and a key of the kind that it sees."""
        self.queries_E = torch.zeros(num_examples, dtype=torch.float64)
        """Number of queries."""

    @classmethod
    def of(cls, num_examples: int, anatomy: Anatomy) -> "dict[LayerId, KindSums]":
        """Sums of 0 of every layer."""
        return {layer.layer_id: cls(num_examples, layer.num_heads) for layer in anatomy.layers}

    def put(self, index_E: Int64[Tensor, " some"], part: "KindSums") -> None:
        """Put the sums of some examples, by their numbers, into their places."""
        for name, numbers in vars(part).items():
            vars(self)[name][index_E] = numbers


def attention_gradients(
    model: AnyModel,
    task: Task,
    kinds: "KindsOf",
    *,
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
    done: Callable[[int], None] = lambda number: None,
) -> tuple[dict[LayerId, KindSums], float]:
    """The sums of |dL/dA| and of weights by kind of token, by layer, and the mean loss.

    One backward pass per batch serves all heads. No gradient of an attention map outlives its
    layer: it is a product of the output's gradient with the values, made while gradients flow.

    Args:
        model: any model of text that the tap supports.
        task: task that defines the loss.
        kinds: says what kind each token of a batch is, for a site's keys; see `token_kinds`.
        anatomy: the result of `examine(model)`; examined now if None.
        max_tokens: number of padded tokens in a batch.
        done: called with the number of examples so far.

    Raises:
        InputError: if the task has no examples.
        ModelError: if a gradient is not finite.
    """
    model, anatomy = examined(model, anatomy)
    sums, loss, terms, number = KindSums.of(task.num_examples, anatomy), 0.0, 0, 0

    def of_batch(batch: TaskBatch) -> tuple[Tensor, dict[LayerId, KindSums], float, int]:
        batch, parts = batch.to(input_device(model)), KindSums.of(batch.num_examples, anatomy)
        found = _backward(model, task, anatomy, _Reacting(batch, kinds, parts))
        return batch.index_E.cpu(), parts, *found

    batches = task.batches(batch_tokens(model, max_tokens, anatomy))
    with evaluating(model), frozen(model):
        for index_E, parts, added, count in spread(of_batch, batches, "batches"):
            for place, part in parts.items():
                sums[place].put(index_E, part)
            loss, terms, number = loss + added, terms + count, number + len(index_E)
            done(number)
    if not terms:
        raise InputError(f"Expected at least one example in the task {task.name}, got none.")
    _check_finite(sums)
    return sums, loss / terms


@torch.enable_grad()
def _backward(
    model: PreTrainedModel, task: Task, anatomy: Anatomy, reacting: "_Reacting"
) -> tuple[float, int]:
    """Run a batch forward and backward; returns its summed loss and the number of terms."""
    # Graphs begin at the gates, since parameters are frozen
    gates = open_gates(model, anatomy, lambda layer: ())
    with Tap(model, anatomy, reacting, gates), heard(model, anatomy, reacting.hear):
        losses = task.losses(model, reacting.batch)
        slopes(losses.loss_E.sum(), list(gates.values()))
    return float(losses.loss_E.sum().detach()), int(losses.count_E.sum())


@final
class _Reacting:
    """The tap's listener: keeps values until the gradients of the heads' outputs arrive."""

    def __init__(self, batch: TaskBatch, kinds: KindsOf, sums: dict[LayerId, KindSums]) -> None:
        self.batch, self._sums = batch, sums
        source = kinds(batch, "encoder.self")
        self._kinds = {"encoder.self": source, "decoder.cross": source}
        self._kinds["decoder.self"] = kinds(batch, "decoder.self")
        self._values: dict[LayerId, Tensor] = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Tensor:
        """Keep a layer's values; returns a column for each kind of key."""
        self._values[layer.layer_id] = value_BHKD.detach()
        is_kind_BKC = self._of_keys(layer)
        return is_kind_BKC[:, None].expand(-1, value_BHKD.shape[1], -1, -1).to(value_BHKD)

    def block(self, block: Block) -> None:
        """Add a block's weights on each kind."""
        is_query_BQ = self._is_query(block.layer)[block.rows, block.queries]
        is_query_BQ = is_query_BQ.to(block.masses_BHQC.device)
        mass_BHC = (block.masses_BHQC.detach() * is_query_BQ[:, None, :, None]).sum(2)
        into = self._sums[block.layer.layer_id].attention_EHC
        index = self._examples()[block.rows]
        into[:, block.heads].index_add_(0, index, mass_BHC.double().cpu())

    def end(self, layer: AttentionLayer) -> None:
        """Count the layer's queries and the pairs of a query and a key."""
        sums, index = self._sums[layer.layer_id], self._examples()
        is_query_BQ = self._is_query(layer)
        sums.queries_E.index_add_(0, index, is_query_BQ.sum(1).double().cpu())
        seen_BQK = _seen(is_query_BQ, len(self._of_keys(layer)[0]), layer)
        pairs_BC = (seen_BQK.double() @ self._of_keys(layer).double()).sum(1)
        sums.pairs_EC.index_add_(0, index, pairs_BC.cpu())

    def hear(self, layer: AttentionLayer, output_BQHD: Tensor) -> None:
        """Ask for the gradient of the heads' outputs."""
        on_gradient(output_BQHD, partial(self._reduce, layer))

    def _reduce(self, layer: AttentionLayer, slope_BQHD: Tensor) -> None:
        """Add |dL/dA| of a layer, once its outputs' gradient is known."""
        value_BHKD = self._values.pop(layer.layer_id)
        where = value_BHKD.device
        seen_BQK = _seen(self._is_query(layer).to(where), value_BHKD.shape[2], layer)
        slope_BHQD = slope_BQHD.detach().transpose(1, 2).to(value_BHKD)
        size_BHQK = (slope_BHQD @ value_BHKD.transpose(2, 3)).abs_().mul_(seen_BQK[:, None])
        size_BHK = size_BHQK.sum(2, dtype=torch.float64)
        size_BHC = size_BHK @ self._of_keys(layer).to(where).double()
        into = self._sums[layer.layer_id].gradient_EHC
        into.index_add_(0, self._examples(), size_BHC.cpu())

    def _of_keys(self, layer: AttentionLayer) -> Float[Tensor, "row key kind"]:
        return self._kinds[layer.site]

    def _is_query(self, layer: AttentionLayer) -> Tensor:
        return self.batch.is_query(layer.site)

    def _examples(self) -> Int64[Tensor, " row"]:
        """The number of each row's example in the batch."""
        return self.batch.example_R.cpu()


def _seen(is_query_BQ: Tensor, num_keys: int, layer: AttentionLayer) -> Float[Tensor, "row q k"]:
    """1 where a query that counts sees a key, padded keys included."""
    seen_BQK = is_query_BQ[:, :, None].expand(-1, -1, num_keys).float()
    return seen_BQK.tril() if layer.site == "decoder.self" else seen_BQK


def token_kinds(encoder: Encoder, batch: TaskBatch, site: str) -> Float[Tensor, "row token kind"]:
    """1 for the kind of each token that is attended to at a site, in the order of `KINDS`.

    A token is the first of its row, else a separator, else punctuation, else other. Padding has no
    kind.

    Raises:
        ModelError: if the model does not read tokens.
    """
    decodes = site != "encoder.self" and "decoder_input_ids" in batch.inputs
    ids_RN = batch.inputs.get("decoder_input_ids" if decodes else "input_ids")
    if ids_RN is None:
        raise ModelError(
            f"Expected a model that reads tokens, got one that reads {', '.join(batch.inputs)}. "
            "Give a model and a task of text."
        )
    is_token_RN = batch.is_query(site, (ids_RN.shape[0], ids_RN.shape[1]))
    table = encoder.target_punctuation if decodes else encoder.source_punctuation
    special = torch.tensor(encoder.tokenizer.all_special_ids, device=ids_RN.device)
    separators = torch.tensor(encoder.sep_ids, device=ids_RN.device, dtype=torch.long)
    is_special_RN = torch.isin(ids_RN, special)
    is_first_RN = is_token_RN & (is_token_RN.cumsum(1) == 1)
    is_sep_RN = torch.isin(ids_RN, separators) & is_special_RN & ~is_first_RN
    found_RN = torch.from_numpy(table(ids_RN.cpu().numpy())).to(ids_RN.device)
    is_punct_RN = found_RN & ~is_special_RN & ~is_first_RN
    rest_RN = ~(is_sep_RN | is_first_RN | is_punct_RN)
    kinds_RNC = torch.stack([is_sep_RN, is_first_RN, is_punct_RN, rest_RN], -1)
    return (kinds_RNC & is_token_RN[..., None]).float()


def _check_finite(sums: dict[LayerId, KindSums]) -> None:
    for (site, layer), each in sums.items():
        total_H: Float64[Tensor, " head"] = each.gradient_EHC.sum((0, 2))
        if not total_H.isfinite().all():
            raise ModelError(
                f"Expected finite gradients for all heads, but layer {layer} of {site} gave NaN or "
                "infinity. Check the model's parameters, or load it in float32."
            )


def sensitivity(
    loaded: Loaded | PreTrainedModel,
    task: Task,
    *,
    max_tokens: int = MAX_TOKENS,
    samples: int = 1000,
    seed: int = 0,
    progress: Progress = silent,
) -> Sensitivity:
    """Measure how the loss reacts to attention on separators, first tokens, punctuation, the rest.

    Args:
        loaded: the model with its tokenizer.
        task: task that defines the loss.
        max_tokens: number of padded tokens in a batch.
        samples: number of resamples of the examples.
        seed: seed of the resamples.
        progress: called with the number of examples done.

    Raises:
        InputError: if the task has no examples, or there are no samples.
        ModelError: if the model does not read tokens, or a gradient is not finite.
    """
    loaded = as_loaded(loaded)
    check_value("seed", seed, Seed)
    check_value("samples", samples, Count)
    check_has_heads(loaded)
    check_examples_fit(loaded, task, max_tokens)
    watch, total = Stopwatch(), task.num_examples
    sums, loss = attention_gradients(
        loaded.model,
        task,
        partial(token_kinds, loaded.encoder()),
        anatomy=loaded.anatomy,
        max_tokens=max_tokens,
        done=lambda number: progress("gradients", number, total),
    )
    watch.lap("gradients")
    bootstrap = Bootstrap(total, samples, seed)
    rows = [row for place, each in sums.items() for row in _rows(place, each, bootstrap)]
    signed = {"task": task.name, "n": total, "samples": samples, "seed": seed}
    record = SensitivityRecord(
        signature=signature(loaded, task.sha256, **signed),
        model=name_of(loaded.name),
        task=task.name,
        examples=total,
        loss=loss,
        no_ops=tuple(no_ops(sums, bootstrap)),
        warnings=(*task.warnings(), *few_clusters(total, "example")),
        timings=watch.lap("intervals"),
    )
    return Sensitivity(record, tuple(rows))


def _rows(place: LayerId, sums: KindSums, bootstrap: Bootstrap) -> Iterator[SensitivityRow]:
    """The rows of a layer's mean, then those of its heads."""
    parts = _by_metric(sums)
    num_heads = sums.gradient_EHC.shape[1]
    names = ["all", *(str(Head(*place, index)) for index in range(num_heads))]
    found = {metric: bootstrap.ratios(*each) for metric, each in parts.items()}
    found["ratio"] = _ratios(*parts["gradient"], bootstrap)
    for metric, each in found.items():
        for (name, kind), one in zip(product(names, KINDS), each, strict=True):
            yield SensitivityRow(*place, name, kind, metric, *one)


def _by_metric(
    sums: KindSums,
) -> Mapping[str, tuple[Float[np.ndarray, "example number"], Float[np.ndarray, "example number"]]]:
    """For each metric, sums and cases of every example: the layer's, then each head's, by kind."""
    num_examples, num_heads, num_kinds = sums.gradient_EHC.shape
    cases = {
        "gradient": sums.pairs_EC.numpy(),
        "attention": np.repeat(sums.queries_E.numpy()[:, None], num_kinds, 1),
    }
    found = {}
    for metric, numbers in (("gradient", sums.gradient_EHC), ("attention", sums.attention_EHC)):
        numbers_EHC, cases_EC = numbers.numpy(), cases[metric]
        # The layer's mean is that over heads, so its cases are those of all of them
        with_layer = np.concatenate([numbers_EHC.sum(1, keepdims=True), numbers_EHC], 1)
        weight_H = np.array([num_heads, *[1] * num_heads], dtype=np.float64)
        cases_EHC = weight_H[:, None] * cases_EC[:, None]
        shape = (num_examples, -1)
        found[metric] = with_layer.reshape(shape), cases_EHC.reshape(shape)
    return found


def _ratios(
    sums_EN: Float[np.ndarray, "example number"],
    cases_EN: Float[np.ndarray, "example number"],
    bootstrap: Bootstrap,
) -> list[Estimate]:
    """The mean gradient for each kind as a share of that for other tokens."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value_MC = (sums_EN.sum(0) / cases_EN.sum(0)).reshape(-1, len(KINDS))
        drawn_RMC = bootstrap.drawn_ratios(sums_EN, cases_EN)
        drawn_RMC = drawn_RMC.reshape(len(drawn_RMC), *value_MC.shape)
        value_MC = value_MC / value_MC[:, OTHER, None]
        drawn_RMC = drawn_RMC / drawn_RMC[..., OTHER, None]
    drawn_RN = drawn_RMC.reshape(len(drawn_RMC), -1)
    return [
        bootstrap.interval(*each)
        for each in zip(
            value_MC.ravel(),
            drawn_RN.T,
            cases_EN.sum(0),
            map(Clusters.alike, np.count_nonzero(cases_EN, axis=0).tolist()),
            strict=True,
        )
    ]


def no_ops(sums: Mapping[LayerId, KindSums], bootstrap: Bootstrap) -> Iterator[NoOp]:
    """For every site and special kind, whether attention and reaction are opposed over heads."""
    for site in dict.fromkeys(place.site for place in sums):
        parts = [_by_metric(each) for place, each in sums.items() if place.site == site]
        skip = len(KINDS)  # the layer's mean comes first
        gradient, attention = (
            [np.concatenate([part[metric][i][:, skip:] for part in parts], 1) for i in (0, 1)]
            for metric in ("gradient", "attention")
        )
        for kind, name in enumerate(KINDS[:OTHER]):
            if not gradient[1][:, kind].sum():
                continue
            of_kind, of_other = (
                tuple(each[:, index :: len(KINDS)] for each in gradient) for index in (kind, OTHER)
            )
            looks = tuple(each[:, kind :: len(KINDS)] for each in attention)
            drawn_R = rank_correlations(
                bootstrap.drawn_ratios(*looks),
                bootstrap.drawn_ratios(*of_kind) / bootstrap.drawn_ratios(*of_other),
            )
            means = [each[0].sum(0) / each[1].sum(0) for each in (looks, of_kind, of_other)]
            value = rank_correlations(means[0][None], (means[1] / means[2])[None])[0]
            one = bootstrap.interval(value, drawn_R, len(means[0])).within(-1.0, 1.0)
            yield NoOp(site, name, *one)
