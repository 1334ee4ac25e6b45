r"""Runs of a prompt and of its second one: what heads output, and what replacing that does.

Slopes, derivatives of what is predicted at heads' outputs, estimate what replacing loses:

$$\mathrm{estimate}_h = \sum_{q,d} s_{h,q,d} \, (o_{h,q,d} - o'_{h,q,d})$$

o is the head's output, and o' what takes its place: nothing (gradient x output), or its output in
the second prompt. s is the gradient of m (runs.py) at o (attribution patching); or its mean over
runs in which embeddings go from the second prompt's to the first's, e' + (k / K) (e - e') for k = 1
to K (integrated gradients); or the derivative under LRP's rules `relp` (RelP), for which m is a
difference of logits.

References: Learning Important Features Through Propagating Activation Differences (Shrikumar et
    al., 2017), section 2, https://arxiv.org/abs/1704.02685; AtP* (Kramar et al., 2024), section 2,
    https://arxiv.org/abs/2403.00745; Have Faith in Faithfulness (Hanna et al., 2024), section 3,
    https://arxiv.org/abs/2403.17806; RelP (2025), section 3, https://arxiv.org/abs/2508.21258
Departure: heads, not edges; integrated gradients are of log-probabilities.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import Head, InputError, LayerId, added, amount
from headcount.explanation.attribution import Attribution, attribute
from headcount.explanation.changes import At, Change, Outputs
from headcount.explanation.mlps import heard_units
from headcount.explanation.runs import Case, Row, Run, aligned, last_logits
from headcount.importance import Lrp, frozen, unfused
from headcount.models import Loaded
from headcount.tap import AttentionLayer, StateId, Tap, evaluating, heard, without_cache


@final
class PromptRuns:
    """The runs of a prompt, with and without its second one.

    Args:
        loaded: the model.
        case: the prompt.
        means: mean outputs of all heads; None if none is replaced by its mean.
    """

    def __init__(self, loaded: Loaded, case: Case, means: Outputs | None) -> None:
        self._loaded, self._case, self.means = loaded, case, means
        self.clean = [Run(loaded, row) for row in case.rows]
        """A run of each row of the prompt, as it is."""
        self.corrupt = [Run(loaded, row) for row in case.corrupt or ()]
        """A run of each row of the second prompt; none without one."""
        self.value = sum(run.value for run in self.clean)
        """What is predicted, in nats."""
        self.second = sum(run.value for run in self.corrupt) if self.corrupt else float("nan")
        """The same in the second prompt; NaN without one."""
        self.log_probability = self.clean[0].log_probability
        """Log-probability of the target."""

    @property
    def num_rows(self) -> int:
        """Number of rows of tokens that are read."""
        return len(self.clean)

    def of_second(self, row: int) -> Outputs:
        """Outputs of heads in the second prompt, at the places of the tokens of a row.

        Raises:
            InputError: if there is none.
        """
        if not self.corrupt:
            raise InputError(
                "Expected a second prompt, got none. Write needs = frozenset({'second'}) in the "
                "effect."
            )
        return aligned(self._case.rows[row], self.corrupt[row].outputs)

    def of_first(self, row: int) -> Outputs:
        """Outputs of heads in the prompt, at the places of the tokens of its second one's row."""
        assert self._case.corrupt is not None
        return aligned(self._case.corrupt[row], self.clean[row].outputs)

    def differences(self) -> list[Outputs]:
        """Outputs of heads less those in the second prompt, by row."""
        pairs = [(run.outputs, self.of_second(row)) for row, run in enumerate(self.clean)]
        return [
            {layer: each - there[layer] for layer, each in here.items()} for here, there in pairs
        ]

    @cached_property
    def slopes(self) -> list[Outputs]:
        """The gradient of what is predicted at the outputs of heads, by row."""
        return [gradients(self._loaded, row) for row in self._case.rows]

    def integrated(self, steps: int) -> list[Outputs]:
        """The mean of these slopes on the way from the second prompt's embeddings, by row."""
        assert self._case.corrupt is not None
        pairs = zip(self._case.rows, self._case.corrupt, strict=True)
        return [integrated(self._loaded, row, other, steps) for row, other in pairs]

    def relevances(self) -> list[Outputs]:
        """The same under LRP's rules, by row."""
        return [relevances(self._loaded, row) for row in self._case.rows]

    def along(
        self, directions: Sequence[Outputs], slopes: Sequence[Outputs] | None = None
    ) -> Attribution:
        """Slopes at the outputs of heads, by default the gradient, times directions, by row."""
        heads = dict[LayerId, Float[np.ndarray, " _"]]()
        triples = zip(self._case.rows, slopes or self.slopes, directions, strict=True)
        for row, slope, direction in triples:
            heads = added(heads, products(_at_tokens(slope, row.at), direction))
        return Attribution(heads)

    def attribution(self) -> Attribution | None:
        """Direct attribution to heads and to other parts; None if it is not exact."""
        total = Attribution({}, {}, 0.0)
        for row in self._case.rows:
            found = attribute(self._loaded, row)
            if found is None:
                return None
            total += found
        return total

    def changed(
        self,
        sets: Sequence[Sequence[Head]],
        outputs: Sequence[Outputs | None],
        second: bool = False,
    ) -> tuple[float, Float[np.ndarray, " set"]]:
        """What is predicted, and what is if each of some sets of heads is replaced.

        Args:
            sets: sets of heads.
            outputs: what takes the place of their outputs in each row; None blocks their looks.
            second: whether they are replaced in the second prompt.
        """
        runs, rows = self.clean, self._case.rows
        if second:
            assert self._case.corrupt is not None
            runs, rows = self.corrupt, self._case.corrupt
        after_S = np.zeros(len(sets))
        for run, row, each in zip(runs, rows, outputs, strict=True):
            after_S += run.values([Change(heads, each, row.at) for heads in sets])
        return self.second if second else self.value, after_S


def known(loaded: Loaded, cases: Sequence[Case]) -> tuple[list[Case], str]:
    """The prompts of which the model prefers the target to its rival.

    Returns:
        These, and how many were left out, as a warning; empty if none were.

    Raises:
        InputError: for a prompt without a rival, or if there is no such prompt.
    """
    without = next((case.prompt for case in cases if case.prompt.against is None), None)
    if without is not None:
        raise InputError(
            f"{without.origin}: expected a rival, to which the target must be preferred, got none. "
            "Give one, or leave --known out."
        )
    found = [case for case in cases if sum(Run(loaded, row).value for row in case.rows) > 0]
    if not found:
        raise InputError(
            f"Expected prompts of which {loaded.name} prefers the target to its rival, got "
            f"{amount(len(cases), 'prompt')} of which it prefers the rival. Give others, or leave "
            "--known out."
        )
    left = len(cases) - len(found)
    said = (
        f"{left} of {amount(len(cases), 'prompt')} left out (--known), since the model prefers the "
        "rival there"
    )
    return found, said if left else ""


def mean_outputs(loaded: Loaded, rows: Sequence[Row]) -> Outputs:
    """The mean output of every head over all tokens of some rows."""
    sums, counts = dict[LayerId, Tensor](), dict[LayerId, int]()

    def add(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        here_QHD = output_BQHD[0].double()
        sums[layer.layer_id] = sums.get(layer.layer_id, 0) + here_QHD.sum(0, keepdim=True)
        counts[layer.layer_id] = counts.get(layer.layer_id, 0) + len(here_QHD)

    body = loaded.model.base_model
    with evaluating(loaded.model), torch.inference_mode():
        with heard_units(loaded, rows[0].mlps, add):
            for row in rows:
                body(**row.inputs(loaded), **without_cache(body))
    return {layer: sum_1HD / counts[layer] for layer, sum_1HD in sums.items()}


States = Mapping[str, Float[Tensor, "step token width"]]
"""What enters the first block of each side of the model."""


def gradients(loaded: Loaded, row: Row, states: States | None = None) -> Outputs:
    """The gradient of what is read of a row, at the output of every head.

    Args:
        loaded: the model.
        row: the row.
        states: what enters the first blocks in a number of runs, over which the mean is taken.
    """
    outputs, hear = _leaves()
    states = states or {}
    num = max((len(each) for each in states.values()), default=1)

    def enter(state: StateId, hidden_BTW: Tensor) -> Tensor | None:
        return states.get(state.side) if state.depth == 0 else None

    model, anatomy = loaded.model, loaded.anatomy
    with evaluating(model), frozen(model), torch.enable_grad():
        entering = heard(model, anatomy, hidden_states=enter if states else None)
        with heard_units(loaded, row.mlps, hear), entering:
            log_NR = row.log_probabilities(last_logits(loaded, row, num))
        return _slopes((log_NR @ row.signs(log_NR)).sum() / num, outputs)


def integrated(loaded: Loaded, row: Row, other: Row, steps: int) -> Outputs:
    """The mean gradient on the way from the embeddings of the other prompt to those of a row."""
    first, second = (_embeddings(loaded, each) for each in (row, other))
    share_K11 = (torch.arange(1, steps + 1) / steps)[:, None, None]
    states = dict[str, Tensor]()
    for side, here_1TW in first.items():
        is_same = row.decoder_ids is not None and side == "decoder"
        there_1TW = second[side] if is_same else second[side][:, list(row.in_other)]
        states[side] = there_1TW + share_K11.to(here_1TW) * (here_1TW - there_1TW)
    return gradients(loaded, row, states)


def relevances(loaded: Loaded, row: Row) -> Outputs:
    """The derivative of the logits that are read of a row, under the rules of RelP.

    Raises:
        UnsuitedError: for a model with an operation that has no rule; names it.
    """
    (outputs, hear), model = _leaves(), loaded.model
    with (
        Lrp(model, "relp") as rules,
        Tap(model, loaded.anatomy, unfused("relp"), block=2**62),
        heard_units(loaded, row.mlps, hear),
    ):
        read_1R = row.logits(last_logits(loaded, row))
        start = (read_1R @ row.signs(read_1R))[0]
        rules.check(start)
        return _slopes(start, outputs)


def _at_tokens(slopes: Outputs, at: At | None) -> Outputs:
    """Slopes at some tokens, and 0 at all others."""
    if at is None:
        return slopes
    found = {layer: torch.zeros_like(slope) for layer, slope in slopes.items()}
    for layer, slope in slopes.items():
        if layer.site in at.sites:
            found[layer][list(at.places)] = slope[list(at.places)]
    return found


def products(slopes: Outputs, outputs: Outputs) -> dict[LayerId, Float[np.ndarray, " _"]]:
    """Slopes at every head's output times something, summed over tokens."""
    return {
        layer: (slope.double() * outputs[layer].double()).sum((0, 2)).cpu().numpy()
        for layer, slope in slopes.items()
    }


def _leaves() -> tuple[dict[LayerId, Tensor], Callable[[AttentionLayer, Tensor], Tensor]]:
    """Outputs of heads as they are heard, each one that a gradient can be taken at."""
    outputs = dict[LayerId, Tensor]()

    def hear(layer: AttentionLayer, output_BQHD: Tensor) -> Tensor:
        wants = output_BQHD.requires_grad
        leaf = output_BQHD if wants else output_BQHD.detach().requires_grad_()
        outputs[layer.layer_id] = leaf
        return leaf

    return outputs, hear


def _slopes(start: Tensor, outputs: Mapping[LayerId, Tensor]) -> Outputs:
    """The derivative at each output, added over runs."""
    found = torch.autograd.grad(start, [*outputs.values()], allow_unused=True)
    return {
        layer: torch.zeros_like(output[0]) if slope is None else slope.sum(0)
        for (layer, output), slope in zip(outputs.items(), found, strict=True)
    }


def _embeddings(loaded: Loaded, row: Row) -> States:
    """What enters the first block of each side."""
    found = dict[str, Tensor]()

    def keep(state: StateId, hidden_BTW: Tensor) -> None:
        if state.depth == 0:
            found[state.side] = hidden_BTW.detach().clone()

    with ExitStack() as stack:
        for context in (evaluating(loaded.model), torch.no_grad()):
            stack.enter_context(context)
        stack.enter_context(heard(loaded.model, loaded.anatomy, hidden_states=keep))
        last_logits(loaded, row)
    return found
