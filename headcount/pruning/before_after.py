"""Before and after: two models' numbers on a data set, with intervals, also slice by slice."""

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np
from jaxtyping import Int

from headcount.compaction import plan_gated
from headcount.core import MAX_TOKENS, Plan
from headcount.importance import score_deltas
from headcount.models import Loaded
from headcount.results import DataSetChange, MetricChange, SliceChange
from headcount.statistics import few_examples, loss_deltas
from headcount.tap import Anatomy
from headcount.tasks import Evaluation, Task, evaluate


def evaluate_gated(
    loaded: Loaded,
    plan: Plan,
    task: Task,
    max_tokens: int = MAX_TOKENS,
    texts: bool = True,
    anatomy: Anatomy | None = None,
) -> Evaluation:
    """A task's losses and outcomes, with the pruned heads gated to 0.

    Args:
        loaded: the dense model.
        plan: which heads are kept.
        task: the task to evaluate on.
        max_tokens: largest number of padded tokens in a batch.
        texts: also generate texts, in tasks such as translation.
        anatomy: a known anatomy, so that copies of a model are not each examined.
    """
    anatomy = anatomy or loaded.anatomy
    with plan_gated(loaded.model, anatomy, plan):
        return evaluate(loaded.model, task, max_tokens, texts)


def drop(task: Task, before: Evaluation, after: Evaluation) -> float:
    """The drop of the score, in its own unit; positive means worse."""
    sign = 1 if task.higher_is_better else -1
    return sign * (task.score(before) - task.score(after))


Slices = Mapping[str, Int[np.ndarray, " some"]]
"""Indices of the examples in every slice, by its name."""


def changes(
    task: Task,
    before: Evaluation,
    after: Evaluation,
    parts: Slices | None = None,
    seed: int = 0,
) -> DataSetChange:
    """Changes of score and loss with 95 % intervals and p, and the same by slice.

    Args:
        task: the data set.
        before: evaluation of the first model.
        after: evaluation of the second model.
        parts: indices of the examples in every slice, by its name.
        seed: seed of the resamples.
    """

    def over(index_S: Int[np.ndarray, " some"]) -> SliceChange:
        """The changes over some examples."""
        dropped = score_deltas(task, [after], before, seed=seed, index_N=index_S)[0]
        before_S, after_S = (each.loss_N[index_S] for each in (before, after))
        count_S = before.count_N[index_S]
        risen = loss_deltas(after_S[None], before_S, count_S, 1000, seed)[0]
        scores = (task.score(before, index_S), task.score(after, index_S))
        first, second = (float(each_S.sum() / count_S.sum()) for each_S in (before_S, after_S))
        return SliceChange(
            len(index_S),
            MetricChange(task.metric, task.higher_is_better, *scores, *dropped),
            MetricChange("loss", False, first, second, *risen),
        )

    whole = over(np.arange(task.num_examples))
    found = {name: over(index_S) for name, index_S in (parts or {}).items()}
    return DataSetChange(whole.examples, whole.score, whole.loss, found)


def few_in(tasks: Mapping[str, Task]) -> tuple[str, ...]:
    """A warning for each data set that is too small for exact intervals."""
    each = (few_examples(task.num_examples, f"{name} example") for name, task in tasks.items())
    return tuple(chain.from_iterable(each))


def slices(task: Task, known: Task, max_tokens: int = MAX_TOKENS) -> Slices:
    """Indices of the examples in every slice, by its name; empty for models that take no text.

    Args:
        task: the data set to divide.
        known: the data used to choose heads, whose tokens are counted too.
        max_tokens: largest number of padded tokens in a batch.
    """
    batches = [*_tokens(task, max_tokens)]
    if not batches:
        return {}
    index_T, id_T = np.concatenate(batches, 1)
    count_V = np.bincount(id_T)
    for _, id_B in _tokens(known, max_tokens):
        more_V = np.bincount(id_B, minlength=len(count_V))
        count_V = np.pad(count_V, (0, len(more_V) - len(count_V))) + more_V
    length_N = np.bincount(index_T, minlength=task.num_examples)
    rarest_N = np.full(task.num_examples, count_V.max())
    np.minimum.at(rarest_N, index_T, count_V[id_T])
    names = ("short", "medium", "long"), ("rarest tokens", "rarer tokens", "least rare tokens")
    found = {}
    for three, number_N in zip(names, (length_N, rarest_N), strict=True):
        if number_N.min() == number_N.max():
            continue
        for name, part in zip(
            three, np.array_split(np.argsort(number_N, kind="stable"), 3), strict=True
        ):
            if len(part):
                found[f"{name} ({number_N[part].min():,} to {number_N[part].max():,})"] = part
    return found


def _tokens(task: Task, max_tokens: int) -> Iterator[Int[np.ndarray, "2 token"]]:
    """Every token's example and id, batch by batch; for pairs, the tokens of both texts."""
    for batch in task.batches(max_tokens):
        if "input_ids" not in batch.inputs:
            return
        is_token_RN = batch.inputs["attention_mask"].bool()
        index_R = batch.index_E[batch.example_R]
        index_T = index_R.repeat_interleave(is_token_RN.sum(1))
        yield np.stack([index_T, batch.inputs["input_ids"][is_token_RN]])
