r"""Reasons: why a head looks at a token, its score split into what wrote the query and the key.

$$s_{q,k} = \frac{(R_q W_Q \, n_q(x_q) + b) \cdot (R_k W_K \, n_k(x_k) + b')}{\sqrt d}, \qquad
    x = e + \sum_{l < L} \Big( \sum_h W_O o_{l,h} + b_l + \mathrm{MLP}_l \Big)$$

x is the state that the head's block reads, n the norm in front of attention (and those of queries
and keys) with its scale kept, R the rotation of a position. Then queries and keys are sums over
what wrote the state, and a score is the sum over pairs of writers, exactly:

$$s_{q,k} = \sum_{i,j} Q_i \cdot K_j$$

A term that is the same for all keys of a query changes no weight, so terms are less their mean over
the keys that are seen. They add up to what the score is above its mean. Positions are terms where
they are added to embeddings or to scores; rotations are not, and apply to both sides.

A score is the one before a cap. Exact for decoders with a norm in front of attention that call it
by transformers' interface; other models have no reasons.

Reference: A Mathematical Framework for Transformer Circuits (Elhage et al., 2021), "QK circuits",
    https://transformer-circuits.pub/2021/framework/index.html
Departure: the scales of norms are those of the run, not folded away.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from headcount.core import Head, LayerId, UnsuitedError
from headcount.explanation.attribution import ATTENTION_BIASES, BIASES, EMBEDDINGS, Hearing
from headcount.explanation.runs import Row, last_logits
from headcount.importance import Lrp
from headcount.models import Loaded
from headcount.tap import AttentionLayer, Block, Call, FunctionListener, Tap, intercepted, visible

POSITIONS = "positions"
"""What positions add where they are embedded, or added to scores."""


@final
@dataclass(frozen=True, eq=False)
class Scored:
    """One look of a head: its score, and what wrote the query and the key.

    Terms of a query and a key are products, scaled, of the parts of the query with those of the
    key, less the mean over the keys that the query sees.
    """

    query: int
    key: int
    """Places of both tokens."""
    weight: float
    """The attention weight."""
    score: float
    """Before a cap and the softmax."""
    mean: float
    """The mean score of the keys that are seen."""
    writers: Sequence[str]
    query_PD: Float64[np.ndarray, "writer dim"]
    """Parts of the query, scaled."""
    key_PD: Float64[np.ndarray, "writer dim"]
    """Parts of the key less their mean over the keys that are seen."""
    position: float
    """What is added to the score for the position, less its mean."""

    def terms(self, side: Literal["query", "key"]) -> Float64[np.ndarray, " writer"]:
        """What each writer of one side adds to the score above its mean, with all of the other."""
        by_query = self.query_PD @ self.key_PD.sum(0)
        found_P = by_query if side == "query" else self.key_PD @ self.query_PD.sum(0)
        found_P[self.writers.index(POSITIONS)] += self.position
        return found_P

    def pair(self, query: int, key: int) -> float:
        """What a writer of the query and one of the key add together, by their numbers."""
        is_position = self.writers[query] == self.writers[key] == POSITIONS
        return float(self.query_PD[query] @ self.key_PD[key]) + is_position * self.position


Choose = Callable[[Head, Float[np.ndarray, " key"]], int]
"""Chooses the key that is explained by the weights of all keys."""


def scored(
    loaded: Loaded, row: Row, heads: Sequence[Head], query: int, choose: Choose
) -> dict[Head, Scored]:
    """One look of each of some heads, from a token of a row; none where it can't be split.

    Args:
        loaded: the model.
        row: the row.
        heads: the heads.
        query: place of the token that looks.
        choose: chooses the key.
    """
    if {*loaded.heads.counts} != {"decoder.self"}:
        return {}
    run = _Run(loaded, row, {head.layer_id for head in heads}, query)
    try:
        run.check()
    except UnsuitedError:
        return {}
    asked = [_Look(run, head, query, choose) for head in heads if head.layer_id in run.calls]
    for depth, (names, parts_PTW) in enumerate(run.writers()):
        for each in asked:
            if depth <= each.head.layer:
                each.add(names, parts_PTW)
    return {each.head: each.scored() for each in asked}


@final
class _Run:
    """A pass in which every state is a leaf, with queries and keys of some layers."""

    def __init__(self, loaded: Loaded, row: Row, layers: set[LayerId], query: int) -> None:
        self._loaded, self._hearing = loaded, Hearing(loaded, by_block=True)
        self.calls = dict[LayerId, Call]()
        """The calls of attention."""
        self.weights = dict[LayerId, Float[Tensor, "head key"]]()
        """The weights of the query."""
        self._embedded = list[Tensor]()

        def call(layer: AttentionLayer, call: Call) -> None:
            if layer.layer_id in layers:
                self.calls[layer.layer_id] = call

        def keep(block: Block) -> None:
            if block.layer.layer_id in layers and block.queries.start <= query < block.queries.stop:
                weights_HK = block.weights_BHQK[0, :, query - block.queries.start].detach()
                before = self.weights.get(block.layer.layer_id, weights_HK[:0])
                self.weights[block.layer.layer_id] = torch.cat([before, weights_HK])

        model = loaded.model
        tap = Tap(model, loaded.anatomy, FunctionListener(keep))
        with ExitStack() as stack:
            self._rules = stack.enter_context(Lrp(model, None))
            for context in (tap, tap.calling(call), self._hearing.heard()):
                stack.enter_context(context)
            stack.enter_context(intercepted(_embeddings(model), after=self._embed))
            last_logits(loaded, row)
        self.states = self._hearing.states

    def _embed(self, module: nn.Module, output: Tensor) -> None:
        if not self._hearing.states:
            self._embedded.append(output.detach())

    def check(self) -> None:
        """Check that queries, keys and states are linear in what wrote them.

        Raises:
            UnsuitedError: if they are not; names the operation.
        """
        starts = [each for call in self.calls.values() for each in (call.query, call.key)]
        if not all(each.requires_grad for each in starts):  # pictures are added between blocks
            raise UnsuitedError("a state that is changed between two blocks")
        for each in [*starts, *self._hearing.returned[1:]]:
            if each.requires_grad:
                self._rules.check(each.sum())

    def writers(self) -> Iterator[tuple[Sequence[str], Float[Tensor, "writer token width"]]]:
        """What wrote the state that the next block reads, besides what is in the one before."""
        start_TW = self.states[0].detach()[0]
        position_TW = self._position(start_TW)
        yield (EMBEDDINGS, POSITIONS), torch.stack([start_TW - position_TW, position_TW])
        for layer, output in self._hearing.outputs.items():
            depth = layer.layer
            returned = self._hearing.returned[depth + 1]
            push = _Linear(returned, output)
            num = output.shape[2]
            each_H = torch.eye(num).to(output)[:, None, None, :, None]
            heads_HTW = push(each_H * output.detach())[:, 0]
            names = [str(Head(layer.site, depth, index)) for index in range(num)]
            attention_TW, projected = heads_HTW.sum(0), self._hearing.projected.get(layer)
            if projected is not None and projected.requires_grad:
                attention_TW = _Linear(returned, projected)(projected.detach()[None])[0, 0]
            bias_TW = attention_TW - heads_HTW.sum(0)
            rest_TW = (returned - self.states[depth]).detach()[0] - attention_TW
            more = torch.stack([rest_TW, bias_TW])
            yield (*names, f"mlp.{depth}", ATTENTION_BIASES), torch.cat([heads_HTW, more])

    def _position(self, start_TW: Tensor) -> Tensor:
        """What an embedding of places adds; 0 where there is none."""
        shape = start_TW.shape  # embeddings of a picture tower have another
        found = [
            each.expand_as(start_TW[None])[0]
            for each in self._embedded
            if each.ndim == 3 and each.shape[2] == shape[1] and each.shape[1] in (1, shape[0])
        ]
        if len(found) == 2 and torch.allclose(found[0] + found[1], start_TW, atol=1e-6):
            return found[1]
        return torch.zeros_like(start_TW)


def _embeddings(model: nn.Module) -> Iterable[nn.Module]:
    return [each for each in model.modules() if isinstance(each, nn.Embedding)]


@final
class _Linear:
    """A tensor as a linear function of another, applied to directions."""

    def __init__(self, output: Tensor, leaf: Tensor) -> None:
        self._leaf = leaf
        self._weight = torch.zeros_like(output, requires_grad=True)
        with torch.enable_grad():
            (self._slope,) = torch.autograd.grad(
                output, leaf, self._weight, create_graph=True, allow_unused=True
            )

    def __call__(self, directions: Float[Tensor, "number ..."]) -> Float[Tensor, "number ..."]:
        """What each direction of the other tensor adds to the tensor."""
        if self._slope is None or not self._slope.requires_grad:
            return self._weight.new_zeros((len(directions), *self._weight.shape))
        (found,) = torch.autograd.grad(
            self._slope, self._weight, directions, is_grads_batched=True, retain_graph=True
        )
        return found.detach()


@final
class _Look:
    """Collects the parts of a head's query and keys."""

    def __init__(self, run: _Run, head: Head, query: int, choose: Choose) -> None:
        call, leaf = run.calls[head.layer_id], run.states[head.layer]
        self.head, self._query = head, query
        self._weights_K = run.weights[head.layer_id][head.index].double().cpu().numpy()
        self._key = choose(head, self._weights_K)
        self._scale = call.kwargs.get("scaling") or call.query.shape[-1] ** -0.5
        share = call.query.shape[1] // call.key.shape[1]
        self._query_D = call.query[0, head.index, query]
        self._key_TD = call.key[0, head.index // share]
        self._to_query, self._to_keys = (
            _Linear(each, leaf) for each in (self._query_D, self._key_TD)
        )
        self._is_seen_K, self._added_K = _mask(call, head, query, len(self._weights_K))
        self._queries = defaultdict[str, list[np.ndarray]](list)
        self._keys = defaultdict[str, list[np.ndarray]](list)

    def add(self, names: Sequence[str], parts_PTW: Tensor) -> None:
        """Add what some writers wrote."""
        queries_PD = _numbers(self._to_query(parts_PTW[:, None])) * self._scale
        keys_PTD = _numbers(self._to_keys(parts_PTW[:, None]))
        for number, name in enumerate(names):
            self._queries[name].append(queries_PD[number])
            self._keys[name].append(keys_PTD[number])

    def scored(self) -> Scored:
        """The look, whose parts that are nobody's are biases."""
        query_PD = np.stack([sum(each) for each in self._queries.values()])
        keys_PTD = np.stack([sum(each) for each in self._keys.values()])
        query_D, keys_TD = _numbers(self._query_D) * self._scale, _numbers(self._key_TD)
        query_PD = np.concatenate([query_PD, [query_D - query_PD.sum(0)]])
        keys_PTD = np.concatenate([keys_PTD, [keys_TD - keys_PTD.sum(0)]])
        scores_K = keys_TD @ query_D + self._added_K
        seen_K = self._is_seen_K
        return Scored(
            self._query,
            self._key,
            float(self._weights_K[self._key]),
            float(scores_K[self._key]),
            float(scores_K[seen_K].mean()),
            (*self._queries, BIASES),
            query_PD,
            keys_PTD[:, self._key] - keys_PTD[:, seen_K].mean(1),
            float(self._added_K[self._key] - self._added_K[seen_K].mean()),
        )


def _numbers(tensor: Tensor) -> Float64[np.ndarray, "..."]:
    return tensor.detach().double().cpu().numpy()


def _mask(
    call: Call, head: Head, query: int, num: int
) -> tuple[Bool[np.ndarray, " key"], Float64[np.ndarray, " key"]]:
    """Which keys a query sees, and what is added to their scores."""
    added_K, is_seen_K = np.zeros(num), np.arange(num) <= query
    for each in (call.mask, call.kwargs.get("position_bias")):
        if each is None:
            continue
        here_K = each[0, min(head.index, each.shape[1] - 1), query - len(each[0, 0])]
        here_K = here_K.detach()[:num].cpu()
        is_seen_K = is_seen_K & visible(here_K).numpy()
        if here_K.dtype != torch.bool:
            added_K = added_K + np.where(is_seen_K, _numbers(here_K), 0)
    return is_seen_K, added_K
