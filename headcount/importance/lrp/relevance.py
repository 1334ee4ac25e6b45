r"""Relevance: the part of the top-1 logit that flows through a head.

$$R_h = \sum_{q, d} o_{h,q,d} \, G_{h,q,d} = g_h \frac{\partial\, \mathrm{logit}}{\partial g_h},
\qquad \mathrm{relevance}(h) = \frac{1}{T} \sum_t \frac{R_h(t)}{\sum_{h'} |R_{h'}(t)|}$$

o is the head's output, G its gradient under the rules of layer-wise relevance propagation, and g_h
its gate at 1; h' runs over the heads of the layer and t over the T target steps. The range is
[-1, 1]: a positive head supports the model's answer, a negative one opposes it. Under `alpha_beta`
it is a share in [0, 1]: support and opposition count alike (rules.py). One forward and one
backward pass give all heads of a batch. LRP is covered by patents of its inventors (see propagation.py).

Relevance of tokens: the part of a logit that comes from each token of the input.

$$R_n = \sum_d x_{n,d} \, \frac{\partial\, \mathrm{logit}}{\partial x_{n,d}}\Big|_{\text{rules}}$$

x is the hidden state that enters the first layer, the sum of all of a token's embeddings (word,
position, type); earlier operations work on each token alone. The unit is that of the logit: the
relevance of all tokens of encoder and decoder adds up to the logit, except for the part that biases
take. Under `alpha_beta` it is a share of the logit and adds up to 1. LRP is covered by patents of
its inventors (see propagation.py).

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
Departure: a layer is divided by the sum of absolute values, since the plain sum can be about 0. The
    steps of an example start together (their logits are summed; gradients are linear, shares almost)
    and are normalised together, weighted by their number. `per_step=True` is the paper's average,
    with one backward pass per step. `STARTS` says where relevance starts.

Reference: Visualizing and Understanding Neural Machine Translation (Ding et al., 2017), section 3, https://aclanthology.org/P17-1106
Departure: a token's relevance is that of its hidden state, so it includes that of its position.
"""  # noqa: E501

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, LayerId, UnsuitedError, added, spread
from headcount.importance.choices import Rules
from headcount.importance.gradients import open_gates
from headcount.importance.lrp.propagation import Lrp, unfused
from headcount.models import batch_tokens
from headcount.tap import (
    Anatomy,
    AnyModel,
    StateId,
    Tap,
    check_not_split,
    examined,
    heard,
    input_device,
)
from headcount.tasks import (
    IGNORED,
    CausalLanguageModelling,
    Choice,
    Classification,
    ImageClassification,
    MaskedLanguageModelling,
    Regression,
    Search,
    Similarity,
    Task,
    TaskBatch,
    TokenClassification,
    Translation,
    asked_logits,
)


@final
@dataclass(frozen=True, eq=False)
class Starts:
    """The numbers that relevance starts at."""

    value_ES: Float[Tensor, "example step"]
    """Numbers from which relevance flows back."""
    is_step_ES: Bool[Tensor, "example step"]
    """Whether each number counts; examples have different numbers of steps."""


Start = Callable[[PreTrainedModel, TaskBatch], Starts]
"""Function that runs a model on a batch and returns the starts of relevance."""


def start_of(task: Task) -> Start:
    """The function that starts relevance for a task.

    Raises:
        UnsuitedError: If the kind of task is unknown.
    """
    if type(task) not in STARTS:
        known = ", ".join(kind.__name__ for kind in STARTS)
        raise UnsuitedError(
            f"Expected a task out of {known}, which define where relevance starts, got "
            f"{type(task).__name__}. Pass a function that runs the model on a batch to "
            "relevance(..., start=...)."
        )
    return STARTS[type(task)](task)


def top_logits(
    logits_ESV: Float[Tensor, "example step class"], is_step_ES: Bool[Tensor, "example step"]
) -> Starts:
    """Starts at the largest logit of every step."""
    return Starts(logits_ESV.max(-1).values, is_step_ES)


def _labelled(model: PreTrainedModel, batch: TaskBatch, **more: bool) -> Starts:
    """Starts at tokens with a label: masked tokens, next tokens, or tokens of a translation."""
    logits_ENV = model(**batch.inputs, **more).logits
    return top_logits(logits_ENV, batch.labels["labels"] != IGNORED)


def _foreseen(model: PreTrainedModel, batch: TaskBatch) -> Starts:
    """The same starts for models with a cache, which is switched off."""
    return _labelled(model, batch, use_cache=False)


def _class(model: PreTrainedModel, batch: TaskBatch) -> Starts:
    logits_EC = model(**batch.inputs).logits
    return top_logits(logits_EC[:, None], torch.ones_like(logits_EC[:, :1], dtype=torch.bool))


def _chosen(task: Choice, model: PreTrainedModel, batch: TaskBatch) -> Starts:
    """Starts at the logits of the tokens of the chosen choice."""
    output = task.output(model, batch)
    logits_PV, is_token_ECT = asked_logits(output.logits, batch)
    tokens_P1 = batch.labels["tokens"][is_token_ECT][:, None]
    blank_ECT = logits_PV.new_zeros(is_token_ECT.shape)
    value_ECT = blank_ECT.masked_scatter(is_token_ECT, logits_PV.gather(1, tokens_P1)[:, 0])
    chosen_E = task.scores(output, batch).detach().argmax(1)
    examples = torch.arange(len(chosen_E), device=chosen_E.device)
    return Starts(value_ECT[examples, chosen_E], is_token_ECT[examples, chosen_E])


def _cosine(task: Similarity | Search, model: PreTrainedModel, batch: TaskBatch) -> Starts:
    """Starts at the cosine of each pair; lengths are constants, and each sentence takes half."""
    hidden_RNW = model.base_model(**batch.inputs).last_hidden_state
    pooled_RW = task.embedding.pooled(hidden_RNW, batch.inputs["attention_mask"])
    unit_RW = pooled_RW / pooled_RW.detach().norm(dim=-1, keepdim=True)
    unit_ETW = unit_RW[batch.example_R.argsort(stable=True)].unflatten(0, (batch.num_examples, -1))
    unit_EPW = unit_ETW[:, :2]  # of a search, the query and the passage that answers it
    halves_E = (unit_EPW * unit_EPW.detach().flip(1)).sum((1, 2)) / 2
    return Starts(halves_E[:, None], torch.ones_like(halves_E[:, None], dtype=torch.bool))


STARTS: Mapping[type[Task], Callable[..., Start]] = {
    Classification: lambda task: _class,
    ImageClassification: lambda task: _class,
    Regression: lambda task: _class,
    TokenClassification: lambda task: _labelled,
    Choice: lambda task: partial(_chosen, task),
    CausalLanguageModelling: lambda task: _foreseen,
    MaskedLanguageModelling: lambda task: _labelled,
    Translation: lambda task: _foreseen,
    Similarity: lambda task: partial(_cosine, task),
    Search: lambda task: partial(_cosine, task),
}


WHOLE = 2**62
"""Number of weights in a block: all of a layer, since the backward pass needs them anyway."""


@final
@dataclass(frozen=True, eq=False)
class Relevance:
    """Relevance of every head on a task."""

    scores: Mapping[LayerId, Float64[Tensor, " head"]]
    """Scores by site and layer, in [-1, 1]; absolute values add up to at most 1 in a layer."""
    num_steps: int
    """Number of target steps that relevance started at."""
    rules: str
    """Name of the rule set."""


def relevance(
    model: AnyModel,
    task: Task,
    rules: Rules = "voita2019",
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
    start: Start | None = None,
    per_step: bool = False,
) -> Relevance:
    """Relevance of every head.

    Args:
        model: Model to score.
        task: Task that provides the examples; its labels only mark the predicted tokens.
        rules: `voita2019`, `attnlrp` or `alpha_beta`.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
        start: Function that starts relevance; chosen by the kind of task if None.
        per_step: Whether to normalise every target step on its own, with a backward pass for each.

    Raises:
        ModelError: If the model uses an operation without a rule; the message names it.
        InputError: If the rule set is unknown, or it is unknown where relevance starts.
    """
    (model, anatomy), start = examined(model, anatomy), start or start_of(task)
    check_not_split(model, "relevance")
    sums: dict[LayerId, Tensor] = {}
    num_steps = 0

    def of_batch(batch: TaskBatch) -> list[tuple[Tensor, dict[LayerId, Tensor]]]:
        there = batch.to(input_device(model))
        return [*_of_batch(model, anatomy, there, rules=rules, start=start, per_step=per_step)]

    batches = task.batches(batch_tokens(model, max_tokens, anatomy))
    for steps in spread(of_batch, batches, "batches"):
        for weight_E, parts in steps:
            for place, part_EH in parts.items():
                summed_H = (_normalised(part_EH) * weight_E[:, None]).sum(0)
                sums = added(sums, {place: summed_H})
            num_steps += int(weight_E.sum())
    return Relevance({place: sum_H / num_steps for place, sum_H in sums.items()}, num_steps, rules)


def _of_batch(
    model: PreTrainedModel,
    anatomy: Anatomy,
    batch: TaskBatch,
    rules: str,
    start: Start,
    per_step: bool,
) -> Iterator[tuple[Tensor, dict[LayerId, Tensor]]]:
    """Relevance of every example and head, with the number of steps it covers."""
    gates = open_gates(model, anatomy, lambda layer: (batch.num_examples,))
    leaves = list(gates.values())
    with torch.enable_grad():
        spread = {place: gate_EH[batch.example_R] for place, gate_EH in gates.items()}
    with (
        Tap(model, anatomy, unfused(rules), gates=spread, block=WHOLE),
        Lrp(model, rules, leaves) as lrp,
    ):
        starts = start(model, batch)
    lrp.check(starts.value_ES)
    with torch.enable_grad():
        steps = _columns(starts) if per_step else [starts]
        sums = [step.value_ES.where(step.is_step_ES, 0).sum() for step in steps]
    for number, (step, summed) in enumerate(zip(steps, sums, strict=True), 1):
        parts = lrp.relevance(summed, leaves, again=number < len(steps))
        weight_E = step.is_step_ES.sum(1)
        yield weight_E.cpu(), dict(zip(gates, (part.double().cpu() for part in parts), strict=True))


def _columns(starts: Starts) -> list[Starts]:
    count = starts.value_ES.shape[1]
    return [
        Starts(starts.value_ES[:, [step]], starts.is_step_ES[:, [step]]) for step in range(count)
    ]


def _normalised(relevance_EH: Tensor) -> Tensor:
    """Relevance divided by the sum of absolute values over the heads; zeros stay zeros."""
    size_E1 = relevance_EH.abs().sum(1, keepdim=True)
    return relevance_EH / size_E1.clamp_min(torch.finfo(torch.float64).tiny)


@torch.enable_grad()
def token_relevance(
    model: AnyModel,
    inputs: Mapping[str, Tensor],
    start: Callable[[Any], Tensor],
    rules: Rules = "voita2019",
    anatomy: Anatomy | None = None,
) -> dict[str, Float[Tensor, "row token"]]:
    """Relevance of the tokens of each row.

    Args:
        model: Any transformers model.
        inputs: Inputs of its forward.
        start: Function from the model's output to one number for each row, or their sum, e.g.
            `lambda output: output.logits[:, -1].amax(-1)`.
        rules: `voita2019`, `attnlrp` or `alpha_beta`.
        anatomy: Result of `examine(model)`; examined now if None.

    Returns:
        Relevance by side: `encoder`, `decoder`, or both.

    Raises:
        ModelError: If the model uses an operation without a rule; the message names it.
    """
    (model, anatomy), entering = examined(model, anatomy), _Entering()
    with (
        Tap(model, anatomy, unfused(rules), block=WHOLE),
        Lrp(model, rules) as lrp,
        heard(model, anatomy, hidden_states=entering),
    ):
        starts = start(model(**inputs))
    lrp.check(starts)
    parts = lrp.relevance(starts.sum(), list(entering.leaves.values()))
    return {side: part.sum(-1) for side, part in zip(entering.leaves, parts, strict=True)}


class _Entering:
    """Cuts the graph where hidden states enter the first block of each side."""

    def __init__(self) -> None:
        self.leaves: dict[str, Tensor] = {}
        """The states by side, as leaves set by the forward."""

    def __call__(
        self, state: StateId, hidden_RNW: Float[Tensor, "row token width"]
    ) -> Float[Tensor, "row token width"] | None:
        """Replace the states that enter a first block by a leaf."""
        if state.depth > 0:
            return None
        self.leaves[state.side] = hidden_RNW.detach().requires_grad_()
        return self.leaves[state.side]
