"""Matryoshka attribution: one score a head, so that the best k heads of any k predict alike.

Gates, numbers of heads and Adam's rate are those of `importance/matryoshka_score.py`. A head whose
gate is shut outputs what heads outside a circuit output (circuits.py). The loss is the squared
distance of faithfulness from 1, so a circuit that predicts more than the model does is no better.
Each half of the prompts learns the order of the heads for the other. Several learners, which draw
other k, share each batch; their scores are averaged.

A step reads four prompts in one batch, padded behind their ends where a model is causal. Each of
them draws its k from another quarter of the range.

Reference: Matryoshka attribution (2026), https://arxiv.org/abs/2609.25518
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import LayerId, Progress, check_free_memory, paced
from headcount.explanation.changes import Outputs
from headcount.explanation.circuit_rows import SIGNED
from headcount.explanation.circuits import Ends, Ranked
from headcount.explanation.mlps import heard_units
from headcount.explanation.plan import Plan
from headcount.explanation.runs import Row, last_logits, logits_of
from headcount.importance import NESTED_RATE, drawn_sizes, frozen, gates_of_size
from headcount.models import Loaded
from headcount.tap import AttentionLayer, evaluating, input_device, without_cache

NAME = "matryoshka"
AT_ONCE = 4
"""Number of prompts in a step."""


def learned(end: Ends, progress: Progress) -> list[Ranked]:
    """The order of the heads that either half of the prompts learns for the other."""
    plan, num = end.plan, len(end.plan.cases)
    if not plan.options.learning:
        return []
    orders = []
    for half in (1, 0):
        score_H = learn(end, [*range(half, num, 2)], half, progress)
        orders.append((-score_H).argsort(kind="stable"))
    return [Ranked(NAME, SIGNED, [(orders[0], orders[1])], True)]


def learn(
    end: Ends, numbers: Sequence[int], half: int, progress: Progress
) -> Float[np.ndarray, " head"]:
    """Scores of all heads, learned on some prompts."""
    plan, options = end.plan, end.plan.options
    random = np.random.default_rng((options.seed, half))
    prompts = [Prompted.of(end, n) for n in numbers]
    gain = float(np.mean([end.whole_N[n] - end.nothing_N[n] for n in numbers]))
    mixed, total = Mixed(plan, options.learners), len(plan.units)
    largest = AT_ONCE * max(each.size for each in prompts)
    check_free_memory(options.learners * (24 * total + largest), f"{options.learners:,} learners")
    score_LH = torch.zeros(options.learners, total, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([score_LH], lr=NESTED_RATE)
    model = plan.loaded.model
    with evaluating(model), frozen(model), torch.enable_grad():
        for step in paced(range(options.learning), options.learning, "learning steps"):
            drawn = [prompts[n] for n in random.permutation(len(prompts))[:AT_ONCE]]
            size_LP = drawn_sizes(random, (options.learners, len(drawn)), total)
            adam.zero_grad()
            gate_PLH = torch.stack(
                [gates_of_size(score_LH, each) for each in torch.from_numpy(size_LP.T)]
            )
            whole_P1 = torch.tensor([each.whole for each in drawn])[:, None]
            loss = (((whole_P1 - mixed.left(drawn, gate_PLH)) / gain) ** 2).mean()
            loss.backward()
            adam.step()
            progress(f"learning, half {2 - half}", step + 1, options.learning)
    return score_LH.detach().mean(0).numpy()


@final
@dataclass(frozen=True, eq=False)
class Prompted:
    """A prompt, and what takes the place of heads' outputs in each of its rows."""

    rows: Sequence[Row]
    instead: Sequence[Outputs]
    whole: float

    @property
    def size(self) -> int:
        """Bytes of the outputs that a learner mixes, at least."""
        return sum(each.nbytes for outputs in self.instead for each in outputs.values())

    @classmethod
    def of(cls, end: Ends, n: int) -> "Prompted":
        """Prompt n."""
        runs = end.plan.runs(n)
        effect = end.others.of(n)[0]
        found = [effect.given(runs, row) or {} for row in range(runs.num_rows)]
        return cls(end.plan.cases[n].rows, [*map(_own, found)], float(end.whole_N[n]))


@final
class Mixed:
    """Runs in which every head is in part as it is.

    Args:
        plan: the plan.
        learners: number of runs of each prompt.
    """

    def __init__(self, plan: Plan, learners: int) -> None:
        self._loaded, self._learners, self._layers = plan.loaded, learners, _places(plan)
        self._is_causal = {*plan.loaded.heads.counts} == {"decoder.self"}

    def left(
        self, prompts: Sequence[Prompted], gate_PLH: Float[Tensor, "prompt learner head"]
    ) -> Float[Tensor, "prompt learner"]:
        """What is predicted of each prompt with heads in part as they are."""
        todo = [
            (number, row, instead)
            for number, each in enumerate(prompts)
            for row, instead in zip(each.rows, each.instead, strict=True)
        ]
        can_join = self._is_causal and all(row.last and not row.beside for _, row, _ in todo)
        left = [torch.zeros(self._learners, dtype=torch.float64)] * len(prompts)
        for batch in [todo] if can_join else [[each] for each in todo]:
            numbers, rows, instead = zip(*batch, strict=True)
            found = self._read(rows, instead, gate_PLH[[*numbers]])
            for number, value_L in zip(numbers, found, strict=True):
                left[number] = left[number] + value_L.cpu()
        return torch.stack(left)

    def _read(
        self,
        rows: Sequence[Row],
        instead: Sequence[Outputs],
        gate_RLH: Float[Tensor, "row learner head"],
    ) -> Iterator[Float[Tensor, " learner"]]:
        """What is read of rows in one batch, each with one copy a learner."""
        length, copies = max(len(row.ids) for row in rows), self._learners

        def mix(layer: AttentionLayer, output_CQHD: Tensor) -> Tensor:
            num = output_CQHD.shape[1]
            there = [_padded(each[layer.layer_id], num) for each in instead]
            there_CQHD = torch.cat([each.expand(copies, -1, -1, -1) for each in there])
            gate_C1H1 = gate_RLH[..., self._layers[layer.layer_id]].flatten(0, 1)[:, None, :, None]
            there_CQHD, gate_C1H1 = there_CQHD.to(output_CQHD), gate_C1H1.to(output_CQHD)
            return there_CQHD + gate_C1H1 * (output_CQHD - there_CQHD)

        padding = [length - len(row.ids) for row in rows]
        padded = [
            replace(row, ids=row.ids + row.ids[-1:] * more)
            for row, more in zip(rows, padding, strict=True)
        ]
        with heard_units(self._loaded, rows[0].mlps, mix):
            logits = _logits(self._loaded, padded, copies, max(padding))
        for number, (row, more) in enumerate(zip(rows, padding, strict=True)):
            here = logits[number * copies :][:copies]
            log_LR = row.log_probabilities(here[:, : here.shape[1] - more] if more else here)
            yield log_LR @ row.signs(log_LR)


def _logits(loaded: Loaded, rows: Sequence[Row], copies: int, more: int) -> Tensor:
    """The logits of copies of rows of one length, of some more tokens than are read."""
    if len(rows) == 1:
        return last_logits(loaded, rows[0], copies)
    last = max(row.last for row in rows)
    ids = torch.tensor([row.ids for row in rows]).repeat_interleave(copies, 0)
    knows = "logits_to_keep" in signature(loaded.model.forward).parameters
    keep = {"logits_to_keep": last + more} if knows else {}
    ids = ids.to(input_device(loaded.model))
    return logits_of(loaded, input_ids=ids, **without_cache(loaded.model), **keep)


def _padded(output_QHD: Float[Tensor, "query head dim"], num: int) -> Tensor:
    """Outputs at some tokens, and zeros behind them; one token's stand for all."""
    if len(output_QHD) in (1, num):
        return output_QHD.expand(num, -1, -1)
    return torch.cat(
        [output_QHD, output_QHD.new_zeros(num - len(output_QHD), *output_QHD.shape[1:])]
    )


def _own(outputs: Outputs) -> Outputs:
    """Copies that autograd can use, as outputs of inference mode can't be."""
    return {layer: each.clone() for layer, each in outputs.items()}


def _places(plan: Plan) -> dict[LayerId, slice]:
    """The places of each layer's heads among all heads."""

    def found() -> Iterator[tuple[LayerId, slice]]:
        heads = [unit.layer_id for unit in plan.units]
        for layer in dict.fromkeys(heads):
            start = heads.index(layer)
            yield layer, slice(start, start + heads.count(layer))

    return dict(found())
