r"""Runs: a prediction with the outputs of some heads replaced, many heads in one forward pass.

$$\mathrm{effect}_h = m - m(o_h \leftarrow o'_h)$$

m is what is read off the logits (cases.py), o_h the head's output at all tokens, before the output
projection, and o'_h what takes its place: zero, the head's mean output, or its output in another
prompt at the tokens of the same place. Of a knockout, the head keeps its output but gives no
weight to some keys (tap/blocking.py). A batch has a row for every replacement. Where layers are
blocks of a list, a batch begins at the lowest one that it changes: what the blocks below return is
kept from the run without replacements.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import signature
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headcount.core import Head, LayerId
from headcount.explanation.cases import Look, Row
from headcount.models import Loaded
from headcount.tap import (
    AttentionLayer,
    Tap,
    block_of,
    evaluating,
    heard,
    input_device,
    intercepted,
    replaced,
    without_cache,
)

TOKENS, DEVICE_TOKENS = 512, 8192
"""Number of tokens in a batch of replacements, on a CPU and on a GPU."""
TOLERANCE = 1e-3
"""Largest difference of a prediction that skips blocks from one that does not."""

Outputs = Mapping[LayerId, Float[Tensor, "_ _ _"]]
"""The outputs [query, head, dim] of every head; one query stands for all."""


@final
@dataclass(frozen=True, eq=False)
class Change:
    """What is changed in some heads: what they give, or where they look."""

    heads: Sequence[Head]
    outputs: Outputs | None
    """What takes the place of their outputs; None knocks out their look."""


@final
class Run:
    """One row as it is, and with replacements.

    Args:
        loaded: the model.
        row: the row.
    """

    def __init__(self, loaded: Loaded, row: Row) -> None:
        self._loaded, self._row = loaded, row
        self.outputs: dict[LayerId, Tensor] = {}
        """The output of every head at each query."""
        self._blocks, self._returned = _blocks(loaded), list[Any]()

        def keep(layer: AttentionLayer, output_BQHD: Tensor) -> None:
            self.outputs[layer.layer_id] = output_BQHD[0].clone()

        with (
            evaluating(loaded.model),
            torch.inference_mode(),
            heard(loaded.model, loaded.anatomy, head_outputs=keep),
            intercepted(self._blocks, after=lambda module, output: self._returned.append(output)),
        ):
            log_1R = row.log_probabilities(last_logits(loaded, row))
        signs_R = row.signs(log_1R)
        self.log_probability = float(log_1R[0, signs_R > 0].sum())
        """Log-probability of the target; 0 in a row of its rival alone."""
        self.value = float((log_1R @ signs_R)[0])
        """What is read off the logits."""
        if not self._can_skip():
            self._blocks = ()

    def _can_skip(self) -> bool:
        """Whether the top block needs nothing from those below but what they return."""
        try:
            found = self._batch([Change((), {})], len(self._blocks) - 1)[0]
        except Exception:  # what it lacks is its own affair
            return False
        return abs(float(found) - self.value) <= TOLERANCE

    def values(self, changes: Sequence[Change]) -> Float[np.ndarray, " change"]:
        """What is read off the logits with each of some replacements."""
        low = [min((head.layer for head in each.heads), default=0) for each in changes]
        order, found = np.argsort(low, kind="stable"), np.zeros(len(changes))
        most = TOKENS if input_device(self._loaded.model).type == "cpu" else DEVICE_TOKENS
        size = max(1, most // (len(self._row.ids) + len(self._row.decoder_ids or ())))
        for first in range(0, len(order), size):
            part = order[first : first + size]
            found[part] = self._batch([changes[n] for n in part], low[part[0]])
        return found

    def _batch(self, changes: Sequence[Change], lowest: int) -> Float[np.ndarray, " change"]:
        """The same for one batch, which changes nothing below a layer."""
        model, anatomy = self._loaded.model, self._loaded.anatomy
        with ExitStack() as stack:
            for context in (evaluating(model), torch.inference_mode()):
                stack.enter_context(context)
            stack.enter_context(Tap(model, anatomy, blocked=self._blocked(changes)))
            stack.enter_context(heard(model, anatomy, head_outputs=_Replacing(changes)))
            for block, output in zip(self._blocks[:lowest], self._returned, strict=False):
                stack.enter_context(replaced(block, _copies(output, len(changes))))
            log_NR = self._row.log_probabilities(last_logits(self._loaded, self._row, len(changes)))
        return (log_NR @ self._row.signs(log_NR)).cpu().numpy()

    def _blocked(self, changes: Sequence[Change]) -> dict[LayerId, Bool[Tensor, "_ _ _ _"]]:
        """The scores that are masked in each row of a batch, where looks are knocked out."""
        look, found = self._row.look, dict[LayerId, Tensor]()
        for row, change in enumerate(changes):
            for head in change.heads if change.outputs is None and look else ():
                assert look is not None
                if head.site != look.site:
                    continue
                if head.layer_id not in found:
                    num = self._loaded.heads.counts[head.site][head.layer]
                    sizes = (len(changes), num, *self._sizes(look))
                    found[head.layer_id] = torch.zeros(sizes, dtype=torch.bool)
                queries = torch.tensor(look.queries or (0,))[:, None]
                found[head.layer_id][row, head.index, queries, torch.tensor(look.keys)] = True
        return found

    def _sizes(self, look: Look) -> tuple[int, int]:
        """Numbers of queries, 1 if all are meant, and of keys."""
        queries = len((look.site != "encoder.self" and self._row.decoder_ids) or self._row.ids)
        return queries if look.queries else 1, len(self._row.ids)


def last_logits(loaded: Loaded, row: Row, num: int = 1) -> Float[Tensor, "copy ..."]:
    """The logits of as many copies of a row, of no more tokens than are read where models can."""
    model, last = loaded.model, row.last
    knows = "logits_to_keep" in signature(model.forward).parameters
    more = without_cache(model) | ({"logits_to_keep": last} if last and knows else {})
    return model(**row.inputs(loaded, num), **more).logits


def aligned(row: Row, outputs: Outputs) -> Outputs:
    """Outputs of heads in the same row of the other prompt, each at the place of a row's token."""
    return {
        layer: output_QHD
        if row.decoder_ids is not None and layer.site != "encoder.self"
        else output_QHD[list(row.in_other)]
        for layer, output_QHD in outputs.items()
    }


@final
class _Replacing:
    """Replaces in each row of a batch the outputs of some heads."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._outputs = {id(each.outputs): each.outputs for each in changes}
        self._heads = dict[LayerId, dict[int, tuple[list[int], list[int]]]]()
        """The rows and numbers of a layer's heads that get each of the outputs."""
        for row, change in enumerate(changes):
            for head in change.heads if change.outputs is not None else ():
                here = self._heads.setdefault(head.layer_id, {})
                rows, heads = here.setdefault(id(change.outputs), ([], []))
                rows.append(row)
                heads.append(head.index)

    def __call__(self, layer: AttentionLayer, output_RQHD: Tensor) -> Tensor | None:
        if layer.layer_id not in self._heads:
            return None
        new = output_RQHD.clone()
        for key, (rows, heads) in self._heads[layer.layer_id].items():
            outputs = self._outputs[key]
            assert outputs is not None
            new[rows, :, heads] = outputs[layer.layer_id][:, heads].transpose(0, 1).to(new)
        return new


def _blocks(loaded: Loaded) -> tuple[nn.Module, ...]:
    """The block of every layer, where each layer is one block; otherwise none."""
    model, layers = loaded.model, loaded.anatomy.layers
    paths = [block_of(model, loaded.anatomy, layer.module) for layer in layers]
    is_stack = [layer.layer for layer in layers] == [*range(len(layers))]
    if not is_stack or loaded.anatomy.dead or len({*paths}) < len(paths) or None in paths:
        return ()
    return tuple(model.get_submodule(path or "") for path in paths)


def _copies(output: Any, num: int) -> Any:
    """What a block returned for one row, in as many copies."""
    if isinstance(output, tuple | list):
        return type(output)(_copies(each, num) for each in output)
    is_row = isinstance(output, Tensor) and output.ndim and len(output) == 1
    return output.expand(num, *output.shape[1:]) if is_row else output
