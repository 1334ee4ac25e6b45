"""Sensitivity: numbers by head, layer and kind of token, with intervals, from sums of gradients.

The gradients are described in `attention_gradient`. Intervals are by a bootstrap over examples, in
which all numbers use the same draws.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    Head,
    InputError,
    LayerId,
    Progress,
    Stopwatch,
    check_seed,
    name_of,
    silent,
)
from headcount.importance.attention_gradient import (
    OTHER,
    KindSums,
    attention_gradients,
    token_kinds,
)
from headcount.models import Loaded, as_loaded, check_has_heads, signature
from headcount.results import KINDS, NoOp, Sensitivity, SensitivityRecord, SensitivityRow
from headcount.statistics import Bootstrap, Estimate, few_clusters, rank_correlations
from headcount.tasks import Task


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
    check_seed(seed)
    if samples < 1:
        raise InputError(f"Expected at least 1 resample, got samples={samples}. Give 1000.")
    check_has_heads(loaded)
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
    for metric in ("gradient", "attention"):
        numbers_EN, cases_EN = parts[metric]
        found = bootstrap.ratios(numbers_EN, cases_EN)
        yield from _named(place, names, metric, found)
    yield from _named(place, names, "ratio", _ratios(*parts["gradient"], bootstrap))


def _named(
    place: LayerId, names: list[str], metric: str, found: list[Estimate]
) -> Iterator[SensitivityRow]:
    kinds = [(name, kind) for name in names for kind in KINDS]
    for (name, kind), one in zip(kinds, found, strict=True):
        yield SensitivityRow(place.site, place.layer, name, kind, metric, *one)


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
            np.count_nonzero(cases_EN, axis=0).tolist(),
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
            yield NoOp(
                site=site,
                kind=name,
                spearman=one.value,
                low=one.low,
                high=one.high,
                heads=one.cases,
            )
