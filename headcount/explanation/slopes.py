r"""Slopes: derivatives of what is predicted at heads' outputs, which estimate what replacing loses.

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

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import LayerId
from headcount.explanation.changes import At, Outputs
from headcount.explanation.runs import Row, last_logits
from headcount.importance import Lrp, frozen, unfused
from headcount.models import Loaded
from headcount.tap import AttentionLayer, StateId, Tap, evaluating, heard

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
        with heard(model, anatomy, head_outputs=hear, hidden_states=enter if states else None):
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
        heard(model, loaded.anatomy, head_outputs=hear),
    ):
        read_1R = row.logits(last_logits(loaded, row))
        start = (read_1R @ row.signs(read_1R))[0]
        rules.check(start)
        return _slopes(start, outputs)


def at_tokens(slopes: Outputs, at: At | None) -> Outputs:
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
