"""Changes: what is replaced in some heads, and from which token on that needs a model to run.

Tokens before the first one that a replacement changes are what they were in a causal model, whose
cache of them is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import Head, LayerId
from headcount.models import Loaded, Past
from headcount.tap import AttentionLayer, input_device


@final
@dataclass(frozen=True)
class Look:
    """Which looks of heads are knocked out."""

    site: str
    """Site of the heads."""
    queries: tuple[int, ...]
    """Places of the tokens that look; none stands for all."""
    keys: tuple[int, ...]
    """Places of the tokens that are not seen."""


@final
@dataclass(frozen=True)
class At:
    """The tokens at which heads are replaced."""

    sites: tuple[str, ...]
    """Sites of heads that have an output at these tokens; at others nothing is replaced."""
    places: tuple[int, ...]


Outputs = Mapping[LayerId, Float[Tensor, "_ _ _"]]
"""The outputs [query, head, dim] of every head; one query stands for all."""


@final
@dataclass(frozen=True, eq=False)
class Change:
    """What is changed in some heads: what they give, or where they look."""

    heads: Sequence[Head]
    outputs: Outputs | None
    """What takes the place of their outputs; None knocks out their look."""
    at: At | None = None
    """The tokens at which it does; None stands for all."""


@final
class Replacing:
    """Replaces in each row of a batch, from a token on, the outputs of some heads."""

    def __init__(self, changes: Sequence[Change], start: int) -> None:
        self._start = start
        self._outputs = {id(each.outputs): each.outputs for each in changes}
        self._heads = dict[LayerId, dict[tuple[int, At | None], tuple[list[int], list[int]]]]()
        """The rows and numbers of a layer's heads that get each of the outputs at some tokens."""
        for row, change in enumerate(changes):
            for head in change.heads if change.outputs is not None else ():
                if change.at is not None and head.site not in change.at.sites:
                    continue
                here = self._heads.setdefault(head.layer_id, {})
                rows, heads = here.setdefault((id(change.outputs), change.at), ([], []))
                rows.append(row)
                heads.append(head.index)

    def __call__(self, layer: AttentionLayer, output_RQHD: Tensor) -> Tensor | None:
        """The outputs of a layer's heads with those that take their place."""
        if layer.layer_id not in self._heads:
            return None
        new = output_RQHD.clone()
        for (key, at), (rows, heads) in self._heads[layer.layer_id].items():
            outputs = self._outputs[key]
            assert outputs is not None
            instead_NQD = outputs[layer.layer_id][:, heads].transpose(0, 1).to(new)
            if instead_NQD.shape[1] > 1:
                instead_NQD = instead_NQD[:, self._start :]
            if at is None:
                new[rows, :, heads] = instead_NQD
                continue
            instead_NQD = instead_NQD.expand(-1, new.shape[1], -1)
            for here in (each - self._start for each in at.places if each >= self._start):
                new[rows, here, heads] = instead_NQD[:, here]
        return new


ROWS, CACHE_BYTES = 128, 2**28
"""Most rows of a batch that begins with a cache, and most bytes of its keys and values."""
SAME = 1e-5
"""Largest difference, as a share of a layer's largest output, of outputs that differ by rounding:
those of equal tokens in front of another text."""


@final
class Beginning:
    """From which token on a causal model reads a row again, and its cache of those before.

    Args:
        loaded: the model.
        ids: tokens of the row.
        last: number of tokens at its end whose logits are read; 0 if none are.
        look: which looks are knocked out.
        outputs: the output of every head at each token.
    """

    def __init__(
        self, loaded: Loaded, ids: Sequence[int], last: int, look: Look | None, outputs: Outputs
    ) -> None:
        self._loaded, self._ids, self._look, self._outputs = loaded, ids, look, outputs
        is_causal = {*loaded.heads.counts} == {"decoder.self"} and last > 0
        self._latest = len(ids) - last if is_causal else 0
        self._pasts = dict[int, Past | None]()
        """By the number of a token: what is kept of those before; None if that is not enough."""
        self._firsts = dict[int, tuple[Outputs, int]]()
        """By the identity of outputs: these, and the first token at which they are others."""

    def first(self, change: Change) -> int:
        """The first token at which a replacement changes anything; 0 if that is not known."""
        if not self._latest:
            return 0
        if (outputs := change.outputs) is None:
            look = self._look
            return len(self._ids) if look is None else min(look.queries or look.keys)
        if id(outputs) not in self._firsts:
            first = min(_first(o, outputs[n]) for n, o in self._outputs.items() if n in outputs)
            self._firsts[id(outputs)] = outputs, first
        at = 0 if change.at is None else min(change.at.places)
        return max(at, self._firsts[id(outputs)][1])

    def start(self, changes: Sequence[Change], is_enough: Callable[[int], bool]) -> int:
        """The first token that some replacements change, if nothing of those before runs again.

        Args:
            changes: the replacements.
            is_enough: whether a run from a token on predicts what a whole run does.
        """
        start = min([self._latest, *map(self.first, changes)])
        if start and start not in self._pasts:
            ids_1T = torch.tensor([self._ids[:start]], device=input_device(self._loaded.model))
            try:
                self._pasts[start] = Past(self._loaded, ids_1T)
            except Exception:  # no cache, or none that can be copied
                self._pasts[start] = None
            if self._pasts[start] is not None and not is_enough(start):
                self._pasts[start] = None
        past, looks = self._pasts.get(start), any(each.outputs is None for each in changes)
        return 0 if past is None or (looks and not past.is_whole) else start

    def most(self, start: int, rows: int) -> int:
        """Number of rows in a batch that begins at a token, of no more than so many."""
        past = self._pasts[start] if start else None
        return rows if past is None else min(rows, ROWS, past.most(CACHE_BYTES))

    def copies(self, start: int, num: int) -> Any:
        """The cache of the tokens before one, in as many copies; None without any."""
        past = self._pasts[start] if start else None
        return None if past is None else past.copies(num)


def _first(here_QHD: Tensor, there_QHD: Tensor) -> int:
    """The first token at which a layer's outputs are others, beyond rounding."""
    apart_Q = (here_QHD - there_QHD.to(here_QHD)).abs().amax((1, 2))
    differs = (~(apart_Q <= SAME * here_QHD.abs().max())).nonzero()  # so is what is no number
    return int(differs[0]) if len(differs) else len(here_QHD)
