r"""Runs: a prompt as the model reads it, and its prediction with the outputs of heads replaced.

What is read off the logits of some rows of tokens is a sum over targets,

$$m = \sum_i c_i \log P(t_i), \qquad c_i = 1 \text{ for the target}, -1 \text{ for its rival}$$

in nats: of one token and its rival, the difference of their logits; of several tokens, of their
joint log-probabilities; without a rival, the log-probability. A causal model continues a prompt, an
encoder-decoder answers a source, a masked model fills one [MASK], a classifier gives a label.

$$\mathrm{effect}_h = m - m(o_h \leftarrow o'_h)$$

o_h is the head's output at all tokens, before the output projection, and o'_h what takes its place:
zero, the head's mean output, or its output in another prompt at the tokens of the same place. Of a
knockout, the head keeps its output but gives no weight to some keys (tap/blocking.py). A batch has
a row for every replacement. Where layers are blocks of a list, a batch begins at the lowest one
that it changes: what the blocks below return is kept from the run without replacements. A causal
model begins at the first token that is changed: keys and values of those before are kept in a
cache.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from headcount.core import LayerId
from headcount.corpora import LabelledTokens
from headcount.explanation.changes import At, Beginning, Change, Look, Outputs, Replacing
from headcount.explanation.mlps import heard_units
from headcount.explanation.prompts import Prompt
from headcount.models import Loaded
from headcount.tap import (
    AttentionLayer,
    Tap,
    block_of,
    evaluating,
    input_device,
    intercepted,
    replaced,
    without_cache,
)


@final
@dataclass(frozen=True)
class Reading:
    """One number that is read off the logits."""

    place: int | None
    """Its token's place, counted from the end; None for a classifier."""
    token: int
    """The token or the label."""
    sign: float
    """1 for the target, -1 for its rival."""


@final
@dataclass(frozen=True)
class Row:
    """One row of tokens that the model reads, and what is read off its logits."""

    ids: tuple[int, ...]
    """Tokens of the text; of an encoder-decoder, of the source."""
    decoder_ids: tuple[int, ...] | None
    """Tokens that the decoder of an encoder-decoder reads."""
    readings: tuple[Reading, ...]
    in_other: tuple[int, ...] = ()
    """For each token of the text, its place in the same row of the other prompt, if there is one;
    a decoder reads the same tokens for both."""
    look: Look | None = None
    """Which looks are knocked out; None where the prompt lacks the word to be looked at."""
    at: At | None = None
    """The tokens at which heads are replaced; None stands for all."""
    mlps: tuple[AttentionLayer, ...] = field(default=(), compare=False)
    """MLPs that are units beside heads."""
    beside: Mapping[str, Tensor] | None = field(default=None, compare=False)
    """Further arguments of the model, its pictures; None for a text alone."""

    @property
    def last(self) -> int:
        """Number of tokens at the end whose logits are read."""
        return max(-(each.place or 0) for each in self.readings)

    @property
    def length(self) -> int:
        """Number of tokens, of both sides."""
        return len(self.ids) + len(self.decoder_ids or ())

    def inputs(self, loaded: Loaded, num: int = 1, start: int = 0) -> dict[str, Tensor]:
        """The inputs of the model, from a token on, in as many copies."""
        rows = {"input_ids": self.ids[start:], "decoder_input_ids": self.decoder_ids}
        device = input_device(loaded.model)
        found = {
            name: torch.tensor([ids], device=device).expand(num, -1)
            for name, ids in rows.items()
            if ids is not None
        }
        more = self.beside or {}
        return found | {name: torch.cat([each] * num).to(device) for name, each in more.items()}

    def logits(self, logits: Float[Tensor, "row ..."]) -> Float64[Tensor, "row reading"]:
        """The logits that are read."""
        read = [_at(logits, each.place)[:, each.token].double() for each in self.readings]
        return torch.stack(read, 1)

    def log_probabilities(self, logits: Float[Tensor, "row ..."]) -> Float64[Tensor, "row reading"]:
        """Log-probabilities of what is read."""
        norms = [_at(logits, each.place).double().logsumexp(-1) for each in self.readings]
        return self.logits(logits) - torch.stack(norms, 1)

    def value(self, logits: Float[Tensor, "row ..."]) -> Float64[Tensor, " row"]:
        """The sum over targets less that over rivals, without the norms that cancel."""
        read_NR = self.logits(logits)
        value_N, places = read_NR @ self.signs(read_NR), [each.place for each in self.readings]
        for place in dict.fromkeys(places):
            if sign := sum(each.sign for each in self.readings if each.place == place):
                value_N = value_N - sign * _at(logits, place).double().logsumexp(-1)
        return value_N

    def signs(self, like: Tensor) -> Tensor:
        """The sign of each reading."""
        return torch.tensor([each.sign for each in self.readings]).to(like)


def _at(logits: Tensor, place: int | None) -> Tensor:
    return logits if place is None else logits[:, place]


@final
@dataclass(frozen=True)
class Case:
    """A prompt and its second one, as the model reads them."""

    prompt: Prompt
    text: LabelledTokens
    """The prompt's tokens and words."""
    tokens: tuple[str, ...]
    """The tokens of the target that are read."""
    rows: tuple[Row, ...]
    corrupt: tuple[Row, ...] | None
    """The rows of the second prompt."""
    shared: str = ""
    """The tokens that target and rival both begin with, as a text."""


TOKENS, DEVICE_TOKENS = 512, 8192
"""Number of tokens in a batch of replacements, on a CPU and on a GPU."""


def rows_at_once(loaded: Loaded, length: int) -> int:
    """Number of rows of so many tokens, of both sides, in a batch of replacements."""
    most = TOKENS if input_device(loaded.model).type == "cpu" else DEVICE_TOKENS
    return max(1, most // length)


TOLERANCE = 1e-3
"""Largest difference of a prediction that skips blocks or tokens from one that does not."""


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
            heard_units(loaded, row.mlps, keep),
            intercepted(self._blocks, after=lambda module, output: self._returned.append(output)),
        ):
            log_1R = row.log_probabilities(last_logits(loaded, row))
        signs_R = row.signs(log_1R)
        self.log_probability = float(log_1R[0, signs_R > 0].sum())
        """Log-probability of the target; 0 in a row of its rival alone."""
        self.value = float((log_1R @ signs_R)[0])
        """What is read off the logits."""
        last = 0 if row.beside else row.last  # pictures are read with the first token
        self._beginning = Beginning(loaded, row.ids, last, row.look, self.outputs)

    @cached_property
    def _can_skip_blocks(self) -> bool:
        return bool(self._blocks) and self._can_skip(len(self._blocks) - 1)

    def _can_skip(self, lowest: int, start: int = 0) -> bool:
        """Whether a layer and a token need nothing of those before but what is kept of them."""
        try:
            found = self._batch([Change((), {})], lowest, start)[0]
        except Exception:  # what it lacks is its own affair
            return False
        return abs(float(found) - self.value) <= TOLERANCE

    def values(self, changes: Sequence[Change]) -> Float[np.ndarray, " change"]:
        """What is read off the logits with each of some replacements."""
        found, beginning = np.full(len(changes), self.value), self._beginning
        todo = [n for n, each in enumerate(changes) if beginning.first(each) < self._row.length]
        start = beginning.start([changes[n] for n in todo], partial(self._can_skip, 0))
        size = beginning.most(start, rows_at_once(self._loaded, self._row.length - start))
        low = [min((head.layer for head in changes[n].heads), default=0) for n in todo]
        if any(low) and not self._can_skip_blocks:
            low = [0] * len(low)
        order = np.argsort(low, kind="stable")
        for first in range(0, len(order), size):
            part = [todo[n] for n in order[first : first + size]]
            given = [changes[n] for n in part]
            found[part] = self._batch(given, low[order[first]], start)
        return found

    def _batch(
        self, changes: Sequence[Change], lowest: int, start: int = 0
    ) -> Float[np.ndarray, " change"]:
        """The same for one batch, which changes nothing below a layer, nor before a token."""
        model, anatomy, num = self._loaded.model, self._loaded.anatomy, len(changes)
        cache = self._beginning.copies(start, num)
        with ExitStack() as stack:
            for context in (evaluating(model), torch.inference_mode()):
                stack.enter_context(context)
            stack.enter_context(Tap(model, anatomy, blocked=self._blocked(changes, start)))
            stack.enter_context(
                heard_units(self._loaded, self._row.mlps, Replacing(changes, start))
            )
            for block, output in zip(self._blocks[:lowest], self._returned, strict=False):
                stack.enter_context(replaced(block, _copies(output, num, start)))
            logits = last_logits(self._loaded, self._row, num, start, cache)
            return self._row.value(logits).cpu().numpy()

    def _blocked(
        self, changes: Sequence[Change], start: int
    ) -> dict[LayerId, Bool[Tensor, "_ _ _ _"]]:
        """The scores that are masked in each row of a batch, where looks are knocked out."""
        look, found = self._row.look, dict[LayerId, Tensor]()
        for row, change in enumerate(changes):
            for head in change.heads if change.outputs is None and look else ():
                assert look is not None
                if head.site != look.site:
                    continue
                if head.layer_id not in found:
                    num = self._loaded.heads.counts[head.site][head.layer]
                    sizes = (len(changes), num, *self._sizes(look, start))
                    found[head.layer_id] = torch.zeros(sizes, dtype=torch.bool)
                queries = torch.tensor([q - start for q in look.queries] or [0])[:, None]
                found[head.layer_id][row, head.index, queries, torch.tensor(look.keys)] = True
        return found

    def _sizes(self, look: Look, start: int) -> tuple[int, int]:
        """Numbers of queries, 1 if all are meant, and of keys."""
        queries = len((look.site != "encoder.self" and self._row.decoder_ids) or self._row.ids)
        return queries - start if look.queries else 1, len(self._row.ids)


def last_logits(
    loaded: Loaded, row: Row, num: int = 1, start: int = 0, cache: Any = None
) -> Float[Tensor, "copy ..."]:
    """The logits of copies of a row, of no more tokens than are read where models can.

    Args:
        loaded: the model.
        row: the row.
        num: the number of copies.
        start: the first token that is read now.
        cache: what is kept of the tokens before.
    """
    model, last = loaded.model, row.last
    knows = "logits_to_keep" in signature(model.forward).parameters
    more = {"logits_to_keep": last} if last and knows else {}
    going = {"past_key_values": cache, "use_cache": True} if start else without_cache(model)
    return logits_of(loaded, **row.inputs(loaded, num, start), **going, **more)


def logits_of(loaded: Loaded, **inputs: Any) -> Float[Tensor, "row ..."]:
    """The logits of some inputs.

    The last states of some rows are copied in front of the unembedding: torch multiplies states
    that do not lie side by side row by row, which takes up to ten times as long on a CPU.
    """
    unembedding = loaded.model.get_output_embeddings()
    modules = [] if unembedding is None else [unembedding]
    with intercepted(modules, lambda _, states: states.contiguous()):
        return loaded.model(**inputs).logits


def aligned(row: Row, outputs: Outputs) -> Outputs:
    """Outputs of heads in the same row of the other prompt, each at the place of a row's token."""
    return {
        layer: output_QHD
        if row.decoder_ids is not None and layer.site != "encoder.self"
        else output_QHD[list(row.in_other)]
        for layer, output_QHD in outputs.items()
    }


def from_end(like: Outputs, outputs: Outputs) -> Outputs:
    """Outputs of heads in another row, each at the place of a token as far from the end.

    The first token of a shorter row stands for all before it.
    """
    found = dict[LayerId, Tensor]()
    for layer, like_QHD in like.items():
        start = len(outputs[layer]) - len(like_QHD)
        found[layer] = outputs[layer][[max(start + n, 0) for n in range(len(like_QHD))]]
    return found


def _blocks(loaded: Loaded) -> tuple[nn.Module, ...]:
    """The block of every layer, where each layer is one block; otherwise none."""
    model, layers = loaded.model, loaded.anatomy.layers
    paths = [block_of(model, loaded.anatomy, layer.module) for layer in layers]
    is_stack = [layer.layer for layer in layers] == [*range(len(layers))]
    if not is_stack or loaded.anatomy.dead or len({*paths}) < len(paths) or None in paths:
        return ()
    return tuple(model.get_submodule(path or "") for path in paths)


def _copies(output: Any, num: int, start: int) -> Any:
    """What a block returned for one row from a token on, in as many copies."""
    if isinstance(output, tuple | list):
        return type(output)(_copies(each, num, start) for each in output)
    is_row = isinstance(output, Tensor) and output.ndim and len(output) == 1
    if not is_row:
        return output
    output = output[:, start:] if start else output
    return output.expand(num, *output.shape[1:])
