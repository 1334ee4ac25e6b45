r"""Ablation: greedily prune the head whose removal hurts least, measured again after each step.

$$h_1, h_2, \ldots: \quad h_n = \operatorname{arg\,min}_h L(\text{without } h_1 \ldots h_{n-1}, h)$$

L is the task's loss or, as in the paper, its score negated; a translation's score takes a beam
search for every head. A step of 0 is the formula: all remaining heads are measured again after
each pruned head, one sweep per pruned head. A step of 0.1, the default, takes at most ten sweeps.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.2 (pruning by
score difference, measured once), https://arxiv.org/abs/1905.10650.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import torch

from headcount.core import Kept, LayerId, Plan, forget
from headcount.importance import Ablation, AblationSetting, Scores, Swept, sweep
from headcount.models import signature
from headcount.pruning.before_after import drop, evaluate_gated
from headcount.pruning.budget import Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.by_score import Stepwise
from headcount.pruning.options import AblationOptions


@final
@dataclass(frozen=True)
class Greedy(AblationOptions, Stepwise):
    """Prunes units in ascending order of the harm that removing each of them alone does."""

    @property
    def uses_metric(self) -> bool:
        """Whether harm is a drop in the task's score."""
        return self.quantity == "score"

    def passes_of_step(self, heads: int) -> float:
        """A pass for each head, from its layer on: half a pass on average."""
        return heads / 2

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """The harm of removing each unit; NaN for heads that can't be pruned or are already."""
        ablations = [Ablation("+".join(map(str, unit)), unit) for unit in left]
        key = _key(context, ablations, self.quantity)
        # A file for each step: an order that goes a step back finds no later step's in its place
        if self.quantity == "score" and context.sample.writes:
            state = context.state and context.state / f"ablation-{len(left)}.json"
            harm = _harm_to_texts(context, ablations, state, key)
        else:
            state = context.state and context.state / f"ablation-{len(left)}.safetensors"
            harm = self._harm(context, _swept(context, ablations, state, key))
        if state is not None:
            forget(state)
        return _by_place(context, left, harm)

    def _harm(self, context: PruningContext, swept: Swept) -> list[float]:
        without = map(swept.evaluation, range(len(swept.ablations)))
        if self.quantity == "score":
            return [drop(context.sample, swept.base, each) for each in without]
        return [each.loss - swept.base.loss for each in without]


def _swept(
    context: PruningContext, ablations: Sequence[Ablation], state: Path | None, key: str
) -> Swept:
    loaded, stage = context.loaded, context.sample.bar(f"ablation of {len(ablations)}")
    ablated = AblationSetting(
        loaded.model, context.sample, loaded.anatomy, max_tokens=context.max_tokens
    )
    return sweep(
        ablated,
        ablations,
        state=state,
        key=key,
        progress=partial(context.progress, stage),
    )


def _harm_to_texts(
    context: PruningContext, ablations: Sequence[Ablation], state: Path | None, key: str
) -> list[float]:
    """The drop in a score of texts (BLEU or chrF) without each unit; scores so far are saved."""
    loaded, task = context.loaded, context.sample
    kept = Kept(state, key, "scores without heads", float)

    def score(ablation: Ablation) -> float:
        plan = Plan.keeping(loaded.heads, set(loaded.heads) - set(ablation.heads))
        return task.score(evaluate_gated(loaded, plan, task, context.max_tokens))

    scores = list[float]()
    for each in kept.results(
        (each.name, partial(score, each)) for each in (Ablation("no ablation", ()), *ablations)
    ):
        context.progress(f"ablation of {len(ablations)}", len(scores), len(ablations))
        scores.append(each)
    return [scores[0] - each for each in scores[1:]]


def _by_place(context: PruningContext, left: Sequence[Unit], harm: Sequence[float]) -> Scores:
    scores: dict[LayerId, torch.Tensor] = {}
    counts = context.loaded.heads.counts
    for unit, value in zip(left, harm, strict=True):
        for head in unit:
            blank = torch.full((counts[head.site][head.layer],), torch.nan).double()
            scores.setdefault(head.layer_id, blank)[head.index] = value
    return scores


def _key(context: PruningContext, ablations: Sequence[Ablation], quantity: str) -> str:
    task = context.sample
    left = hashlib.sha256(" ".join(each.name for each in ablations).encode()).hexdigest()
    return signature(
        context.loaded,
        task.sha256,
        task=task.name,
        n=task.num_examples,
        left=left[:12],
        quantity=quantity,
        metric=task.signature,
    )
