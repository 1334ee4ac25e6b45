r"""Direct logit attribution: what heads, MLPs, embeddings and biases add to a logit by themselves.

$$\mathrm{logit} = g_0 \cdot x_0 + \sum_l \big( \sum_h G_{l,h} \cdot o_{l,h} + g_{l+1} \cdot b_l
    + \mathrm{MLP}_l \big) + b$$

x_l is the hidden state before block l, o the output of a head before the output projection, and
g_l, G are gradients of the logit with everything constant that a block reads: what attention and
MLPs are given, and the scales of norms, the final one and those behind attention or MLP. Then the
logit is linear in the parts, which add up to it. $b_l$ is the bias of an output projection,
$\mathrm{MLP}_l$ all else that a block adds (MLP, experts, its own gates), and b the biases of the
final norm and of the unembedding. A logit that is capped is the one before the cap.

It is exact for blocks with a norm in front and a linear unembedding. In others (BERT, BART), the
same sum is not the logit, and gradient x output (prompt_runs.py) takes its place.

Reference: A Mathematical Framework for Transformer Circuits (Elhage et al., 2021),
    https://transformer-circuits.pub/2021/framework/index.html
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.core import Head, LayerId, UnsuitedError, added
from headcount.explanation.runs import Row, last_logits
from headcount.importance import Lrp
from headcount.models import Loaded
from headcount.tap import AttentionLayer, StateId, block_of, heard, intercepted

EMBEDDINGS, ATTENTION_BIASES, BIASES = "embeddings", "attention biases", "biases"
"""Parts of a logit besides heads and the MLP of each block."""


@final
@dataclass(frozen=True, eq=False)
class Attribution:
    """What each part adds to what is predicted, each with its sign."""

    heads: Mapping[LayerId, Float[np.ndarray, " _"]]
    parts: Mapping[str, float] = field(default_factory=dict)
    """The embeddings, the MLP of each block, the attention's biases, and the biases behind."""
    logit: float = float("nan")
    """What heads and parts add up to; NaN if they add up to nothing."""

    def __add__(self, other: "Attribution") -> "Attribution":
        return Attribution(
            added(self.heads, other.heads), added(self.parts, other.parts), self.logit + other.logit
        )

    def of(self, heads: Sequence[Head]) -> Float[np.ndarray, " head"]:
        """What some heads add, or MLPs among them, which are parts if they are no heads."""
        return np.array(
            [
                self.heads[head.layer_id][head.index]
                if head.layer_id in self.heads
                else self.parts[str(head)]
                for head in heads
            ]
        )


TOGETHER = 256
"""Number of heads whose logits are in memory at a time."""

Written = dict[Head, list[tuple[int, float]]]
"""Tokens whose logits each head raises most, then lowers most, each with what it adds."""


def attribute(loaded: Loaded, row: Row) -> Attribution | None:
    """Direct attribution of what is read of a row; None where a sum of parts is not the logit."""
    found = _linear(loaded, row)
    return None if found is None else found[0].attribution(found[2])


def written(loaded: Loaded, row: Row, number: int, vocabulary: int) -> Written | None:
    """The tokens whose logits each head raises and lowers most, where a row is read first.

    What a head adds to the logit of a token is its direct attribution, less the mean over tokens.

    Args:
        loaded: the model.
        row: the row.
        number: number of tokens on either side.
        vocabulary: number of tokens; logits behind have none.

    Returns:
        Both lists of each head that reaches logits by itself; None where a sum of parts is not the
        logit, or no token is predicted.
    """
    found, places = _linear(loaded, row), [each.place for each in row.readings]
    if found is None or None in places:
        return None
    hearing, logits, _ = found
    return hearing.written(logits, row.last, vocabulary, number)


def _linear(loaded: Loaded, row: Row) -> "tuple[Hearing, Tensor, Tensor] | None":
    """A pass in which logits are sums of parts: its states, the logits, and what is read of them.

    None where they are not.
    """
    hearing = Hearing(loaded)
    with Lrp(loaded.model, None) as rules, hearing.heard():
        logits = last_logits(loaded, row)
        for found in (logits, hearing.unembedded):  # before a cap, if there is one
            if found is None:
                continue
            read_1R = row.logits(found)
            start = (read_1R @ row.signs(read_1R))[0]
            if not start.requires_grad:  # norms that follow attention made it a constant
                return None
            try:
                rules.check(start)
            except UnsuitedError:
                continue
            return hearing, found, start
    return None


@final
class Hearing:
    """Hears the states of a forward pass in which blocks read constants.

    Args:
        loaded: the model.
        by_block: whether every state is a leaf, which only the norm in front of attention reads as
            it is, so that slopes end at the block that they begin in.
    """

    def __init__(self, loaded: Loaded, by_block: bool = False) -> None:
        self._loaded, self._by_block = loaded, by_block
        self.unembedded: Tensor | None = None
        """What the unembedding gave."""
        self._read: Tensor | None = None
        """What it was given."""
        self.outputs = dict[LayerId, Tensor]()
        """The output of every head, which is a leaf."""
        self.projected = dict[LayerId, Tensor]()
        """What each output projection gave."""
        self.states = list[Tensor]()
        """What enters each block, and what the last one returns."""
        self.returned = list[Tensor]()
        """The same as they were returned, before they became leaves."""
        self._biased = {
            layer.layer_id
            for layer in loaded.anatomy.layers
            if layer.output
            and getattr(loaded.model.get_submodule(layer.output), "bias", None) is not None
        }
        self._side = "decoder" if "decoder.self" in loaded.heads.counts else "encoder"

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Inside, forward passes of the model leave their states here."""
        model, anatomy = self._loaded.model, self._loaded.anatomy
        blocks = {block_of(model, anatomy, layer.module) for layer in anatomy.layers}
        own = {layer.module for layer in anatomy.layers} if self._by_block else set[str]()
        norms = [
            module
            for path, module in model.named_modules()
            if "norm" in type(module).__name__.lower()
            and any(path.startswith(f"{block}.") for block in blocks)
            and not any(path.startswith(f"{attention}.") for attention in own)
        ]
        projections = {model.get_submodule(each.output) for each in anatomy.layers if each.output}
        unembedding = model.get_output_embeddings()
        with (
            heard(model, anatomy, head_outputs=self._output, hidden_states=self._state),
            intercepted(norms, self._before_norm),
            intercepted(projections, after=self._project),
            intercepted(
                [] if unembedding is None else [unembedding],
                self._before_unembedding,
                self._unembed,
            ),
        ):
            yield

    def _output(self, layer: AttentionLayer, output_BQHD: Tensor) -> Tensor:
        leaf = output_BQHD.detach().requires_grad_()
        self.outputs[layer.layer_id] = leaf
        return leaf

    def _project(self, module: nn.Module, output: Tensor) -> None:
        self.projected[next(reversed(self.outputs))] = output

    def _before_norm(self, module: nn.Module, given: Tensor) -> Tensor | None:
        """Make what a norm reads a constant, unless it is what attention gave, or reads."""
        is_in_front = self._by_block and len(self.states) > len(self.outputs)
        last = self.states[-1] if is_in_front else next(reversed(self.projected.values()), None)
        if last is None or last.shape != given.shape:
            return given.detach()
        return None if torch.equal(last.to(given.device), given) else given.detach()

    def _state(self, state: StateId, hidden_BTW: Tensor) -> Tensor | None:
        if state.side != self._side:
            return None
        is_leaf = self._by_block or not state.depth
        new = hidden_BTW.detach().requires_grad_() if is_leaf else None
        self.returned.append(hidden_BTW)
        self.states.append(hidden_BTW if new is None else new)
        return new

    def _before_unembedding(self, module: nn.Module, given: Tensor) -> None:
        self._read = given

    def _unembed(self, module: nn.Module, output: Tensor) -> None:
        self.unembedded = output

    def attribution(self, start: Tensor) -> Attribution | None:
        """The parts of a number; None where it does not depend on every state."""
        own = {each: out for each, out in self.outputs.items() if each.site != "encoder.self"}
        own = own if self._side == "decoder" else self.outputs
        given = (self.states, [*own.values()], [*self.projected.values()])
        leaves = [each for part in given for each in part]
        found = torch.autograd.grad(start, leaves, allow_unused=True)
        parts = [
            None if slope is None else (slope.double() * leaf.detach().double())
            for slope, leaf in zip(found, leaves, strict=True)
        ]
        states, num = parts[: len(self.states)], len(self.states) + len(own)
        if any(each is None for each in parts[:num]):
            return None
        totals = [float(each.sum()) for each in states if each is not None]
        heads = {layer: np.zeros(out.shape[2]) for layer, out in self.outputs.items()}
        for layer, part in zip(own, parts[len(states) :], strict=False):
            assert part is not None
            heads[layer] = part.sum((0, 1, 3)).cpu().numpy()
        biases = {
            layer: float(part.sum()) - float(heads[layer].sum())
            for layer, part in zip(self.projected, parts[num:], strict=True)
            if part is not None and layer in own and layer in self._biased
        }
        logit = float(start.detach())
        return Attribution(heads, _parts(logit, totals, heads, biases), logit)

    def written(
        self, logits: Float[Tensor, "1 position token"], last: int, vocabulary: int, number: int
    ) -> Written:
        """The tokens whose logits the heads raise and lower most.

        The slope of a weighted sum of what the unembedding reads at a head's output, times that
        output, is linear in the weights: its slopes at the weights are what the head adds to what
        is read, and the unembedding makes logits of it.

        Args:
            logits: The logits, or what the unembedding gave.
            last: Which position is read, from the end.
            vocabulary: Number of tokens.
            number: Number of tokens on either side.
        """
        heads, added = list[Head](), list[Tensor]()
        with torch.enable_grad():
            factor_V, read = self._factor(logits, last, vocabulary), logits[0, -last, :vocabulary]
            if factor_V is not None and self._read is not None:
                read = self._read[0, -last]
            weight = torch.zeros_like(read, requires_grad=True)
            slopes = torch.autograd.grad(
                read, [*self.outputs.values()], weight, create_graph=True, allow_unused=True
            )
            for (layer, output), slope in zip(self.outputs.items(), slopes, strict=True):
                parts = [] if slope is None else (slope * output.detach()).sum((0, 1, 3))
                for index, each in enumerate(parts):
                    heads.append(Head(layer.site, layer.layer, index))
                    added += torch.autograd.grad(each, weight, retain_graph=True)
        found = Written()
        for start in range(0, len(heads), TOGETHER):
            some = range(start, min(start + TOGETHER, len(heads)))
            added_HV = torch.stack([added[at] for at in some])
            if factor_V is not None:
                added_HV = factor_V * self._unembedded(added_HV)[:, :vocabulary]
            found |= {
                heads[at]: _extremes(added_V.double(), number)
                for at, added_V in zip(some, added_HV, strict=True)
            }
        return found

    def _factor(self, logits: Tensor, last: int, vocabulary: int) -> Tensor | None:
        """What each number of the unembedding is multiplied by; None if that is not all."""
        given = self.unembedded
        if given is None or self._read is None or given.shape != logits.shape:
            return None
        if given is logits:
            return logits.new_ones(vocabulary)
        (slope,) = torch.autograd.grad(logits[0, -last].sum(), given, retain_graph=True)
        scaled = (slope * given)[0, -last, :vocabulary]
        is_all = torch.allclose(scaled, logits[0, -last, :vocabulary], rtol=1e-5, atol=1e-6)
        return slope[0, -last, :vocabulary] if is_all else None

    def _unembedded(self, added_HW: Float[Tensor, "head width"]) -> Float[Tensor, "head token"]:
        """What the unembedding makes of parts of what it reads, without its bias."""
        module = self._loaded.model.get_output_embeddings()
        assert module is not None
        with torch.no_grad():
            return module(added_HW) - module(torch.zeros_like(added_HW[:1]))


def _extremes(added_V: Float[Tensor, " token"], number: int) -> list[tuple[int, float]]:
    """The tokens that get most and least, less the mean over tokens."""
    added_V = added_V - added_V.mean()
    sides = (added_V.topk(number, largest=each) for each in (True, False))
    return [
        pair
        for most in sides
        for pair in zip(most.indices.tolist(), most.values.tolist(), strict=True)
    ]


def _parts(
    logit: float,
    totals: Sequence[float],
    heads: Mapping[LayerId, Float[np.ndarray, " _"]],
    biases: Mapping[LayerId, float],
) -> dict[str, float]:
    """What is no head: MLPs are what blocks add besides their attention."""
    attention = [0.0] * len(totals)
    for layer, each in heads.items():
        attention[layer.layer] += float(each.sum()) + biases.get(layer, 0.0)
    more = {ATTENTION_BIASES: sum(biases.values())} if biases else {}
    mlps = {
        f"mlp.{block}": after - before - attention[block]
        for block, (before, after) in enumerate(pairwise(totals))
    }
    return {EMBEDDINGS: totals[0], **mlps, **more, BIASES: logit - totals[-1]}
