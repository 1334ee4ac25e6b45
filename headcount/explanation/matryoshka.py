r"""Matryoshka attribution: one score a head, learned so that the best k heads of any k predict alike.

Each step draws a number k of heads, log-uniformly from 1 to N, and opens gates that add up to k,

$$z_h = \sigma\Big(\frac{s_h - \tau}{T}\Big), \qquad \sum_h z_h = k$$

with T = .5 and tau by bisection, through which the gradient flows. A head then outputs z o + (1 - z) o',
o what it computes from what reaches it, o' what heads outside a circuit output (circuits.py). The loss
is the squared distance of faithfulness from 1, so a circuit that predicts more than the model does
is no better; Adam follows its gradient at rate .05. Each half of the prompts learns the order of the
heads for the other. Several learners, which draw other k, share each batch; their scores are averaged.

Reference: Matryoshka attribution (2026), https://arxiv.org/abs/2609.25518
Departure: k is drawn log-uniformly, which sharpens small circuits, and the loss is a distance of
    faithfulness, not of distributions.
"""  # noqa: E501

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import LayerId, Progress, check_memory, paced
from headcount.explanation.changes import Outputs
from headcount.explanation.circuit_rows import SIGNED
from headcount.explanation.circuits import Ends, Ranked
from headcount.explanation.plan import Plan
from headcount.explanation.runs import Row, last_logits
from headcount.importance import frozen
from headcount.tap import AttentionLayer, evaluating, heard

NAME = "matryoshka"
TEMPERATURE, RATE = 0.5, 0.05
AT_ONCE = 4
"""Number of prompts in a step."""


def learned(end: Ends, progress: Progress) -> list[Ranked]:
    """The order of the heads that either half of the prompts learns for the other."""
    plan, num = end.plan, len(end.plan.cases)
    if not plan.options.steps:
        return []
    orders = []
    for half in (1, 0):
        score_H = _learn(end, [*range(half, num, 2)], half, progress)
        orders.append((-score_H).argsort(kind="stable"))
    return [Ranked(NAME, SIGNED, [(orders[0], orders[1])], True)]


def _learn(
    end: Ends, numbers: Sequence[int], half: int, progress: Progress
) -> Float[np.ndarray, " head"]:
    """Scores of all heads, learned on some prompts."""
    plan, options = end.plan, end.plan.options
    random = np.random.default_rng((options.seed, half))
    prompts = [_Prompt.of(end, n) for n in numbers]
    gain = float(np.mean([end.whole_N[n] - end.nothing_N[n] for n in numbers]))
    layers, total = _places(plan), len([*plan.loaded.heads])
    largest = max(each.size for each in prompts)
    check_memory(options.learners * (24 * total + largest), f"{options.learners:,} learners")
    score_LH = torch.zeros(options.learners, total, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([score_LH], lr=RATE)
    model = plan.loaded.model
    with evaluating(model), frozen(model), torch.enable_grad():
        for step in paced(range(options.steps), options.steps, "learning steps"):
            size_L = np.exp(random.uniform(0, math.log(total), options.learners))
            drawn = random.permutation(len(prompts))[:AT_ONCE]
            adam.zero_grad()
            for number in drawn:
                gate_LH = gates(score_LH, torch.from_numpy(size_L))
                left_L = prompts[number].left(plan, gate_LH, layers)
                loss = (((prompts[number].whole - left_L) / gain) ** 2).mean() / len(drawn)
                loss.backward()
            adam.step()
            progress(f"learning, half {2 - half}", step + 1, options.steps)
    return score_LH.detach().mean(0).numpy()


def gates(
    score_LH: Float[Tensor, "learner head"], size_L: Float[Tensor, " learner"]
) -> Float[Tensor, "learner head"]:
    """Gates between 0 and 1 that add up to a size, open first where scores are high."""
    found_LH = score_LH.detach()
    reach = TEMPERATURE * (math.log(found_LH.shape[1]) + 10)
    low_L1, high_L1 = found_LH.amin(1, True) - reach, found_LH.amax(1, True) + reach
    for _ in range(60):
        middle_L1 = (low_L1 + high_L1) / 2
        is_open = ((found_LH - middle_L1) / TEMPERATURE).sigmoid().sum(1, True) > size_L[:, None]
        low_L1, high_L1 = middle_L1.where(is_open, low_L1), high_L1.where(is_open, middle_L1)
    open_LH = ((found_LH - low_L1) / TEMPERATURE).sigmoid()
    slope_LH = open_LH * (1 - open_LH)
    share_LH = slope_LH / slope_LH.sum(1, True).clamp_min(torch.finfo(torch.float64).tiny)
    moved_L1 = (share_LH * (score_LH - found_LH)).sum(1, True)  # 0, with the slope of tau
    return ((score_LH - low_L1 - moved_L1) / TEMPERATURE).sigmoid()


@final
@dataclass(frozen=True, eq=False)
class _Prompt:
    """A prompt, and what takes the place of heads' outputs in each of its rows."""

    rows: Sequence[Row]
    instead: Sequence[Outputs]
    whole: float

    @property
    def size(self) -> int:
        """Bytes of the outputs that a learner mixes, at least."""
        return sum(each.nbytes for outputs in self.instead for each in outputs.values())

    @classmethod
    def of(cls, end: Ends, n: int) -> "_Prompt":
        """Prompt n."""
        runs = end.plan.runs(end.plan.cases[n])
        effect = end.others.of(n)[0]
        found = [effect.given(runs, row) or {} for row in range(runs.num_rows)]
        return cls(end.plan.cases[n].rows, [*map(_own, found)], float(end.whole_N[n]))

    def left(
        self, plan: Plan, gate_LH: Float[Tensor, "learner head"], layers: Mapping[LayerId, slice]
    ) -> Float[Tensor, " learner"]:
        """What is predicted with heads in part as they are."""
        total_L = torch.zeros(len(gate_LH), dtype=torch.float64)
        for row, instead in zip(self.rows, self.instead, strict=True):

            def mix(
                layer: AttentionLayer, output_LQHD: Tensor, instead: Outputs = instead
            ) -> Tensor:
                there_QHD = instead[layer.layer_id].to(output_LQHD)
                gate_L1H1 = gate_LH[:, None, layers[layer.layer_id], None].to(output_LQHD)
                return there_QHD + gate_L1H1 * (output_LQHD - there_QHD)

            with heard(plan.loaded.model, plan.loaded.anatomy, head_outputs=mix):
                log_LR = row.log_probabilities(last_logits(plan.loaded, row, len(gate_LH)))
            total_L = total_L + (log_LR @ row.signs(log_LR)).cpu()
        return total_L


def _own(outputs: Outputs) -> Outputs:
    """Copies that autograd can use, as outputs of inference mode can't be."""
    return {layer: each.clone() for layer, each in outputs.items()}


def _places(plan: Plan) -> dict[LayerId, slice]:
    """The places of each layer's heads among all heads."""

    def found() -> Iterator[tuple[LayerId, slice]]:
        heads = [head.layer_id for head in plan.loaded.heads]
        for layer in dict.fromkeys(heads):
            start = heads.index(layer)
            yield layer, slice(start, start + heads.count(layer))

    return dict(found())
