r"""Scores of key/value groups: how much a group needs keys that a streaming one would forget.

A group is a key/value head with the query heads that share it. A streaming group keeps its first
`sink` and its last `recent` keys. Groups with higher scores keep all keys.

- `retrieval`: the largest retrieval score of its heads (`headcount.skills.retrieve`).
- `answers`: the largest answers score of its heads (`headcount.skills.Inferred`).
- `distance`: how far its output moves if it streams, and nothing else does:

$$\overline{\Big\| \sum_{h \in g} (o_h - o_h^\mathrm{streaming}) W_O^h \Big\|_2}, \qquad
o_h^\mathrm{streaming} = \frac{\sum_{k \in S} A_h(q, k) v_k}{\sum_{k \in S} A_h(q, k)},
\qquad S = \{ k < \mathrm{sink} \} \cup \{ q - k < \mathrm{recent} \}$$

  over all queries q of some texts, in one pass.
- `both`: the mean of a group's ranks by both, as a share of the number of groups.
- `kvpress`: what far keys weigh by their distance alone (`kvpress.py`).
- `random`: a uniform random number.

Reference: Retrieval Head Mechanistically Explains Long-Context Factuality (Wu et al., 2024),
    https://arxiv.org/abs/2404.15574; DuoAttention (Xiao et al., 2024), section 2, on keys that are
    kept, https://arxiv.org/abs/2410.10819
"""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import assert_never, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from headcount.cache.groups import groups_of
from headcount.cache.holding import holding_of
from headcount.cache.kvpress import kvpress_scores, read_text
from headcount.cache.plan import CacheOptions, ScoreName
from headcount.core import (
    InputError,
    LayerId,
    ModelError,
    Progress,
    Steps,
    amount,
    levels,
    silent,
    silent_steps,
    spread,
)
from headcount.models import Loaded
from headcount.skills import (
    Hay,
    Inferred,
    Needles,
    Retrieved,
    SkillOptions,
    indirect_needles,
    retrieve,
)
from headcount.tap import AttentionLayer, Block, Tap

WINDOW, WINDOWS = 1024, 8
"""Largest number of tokens of a text that is read for distances and for kvpress, and of texts."""


@final
class GroupScores:
    """All scores of a model's key/value groups, each computed when it is first asked for.

    Args:
        loaded: a causal language model with its tokenizer.
        texts: running text.
        options: the window of streaming groups, the needles' lengths and the seed.
        progress: called with the number of needles or texts done.
    """

    def __init__(
        self,
        loaded: Loaded,
        texts: Sequence[str],
        options: CacheOptions,
        progress: Progress = silent,
    ) -> None:
        self._loaded, self._texts = loaded, texts
        self._options, self._progress = options, progress

    def of(self, name: ScoreName) -> Float[np.ndarray, " group"]:
        """A score of all groups, in order; higher ones need all keys more."""
        match name:
            case "retrieval":
                return self.retrieval
            case "answers":
                return self.answers
            case "distance":
                return self.distance
            case "both":
                return mean_ranks(self.retrieval, self.distance)
            case "kvpress":
                return kvpress_scores(
                    self._loaded, self.windows, partial(self._progress, "kvpress")
                )
            case "random":
                number = len(groups_of(holding_of(self._loaded.model, self._loaded.anatomy)))
                return np.random.default_rng(self._options.seed).random(number)
            case _:
                assert_never(name)

    @cached_property
    def retrieved(self) -> Retrieved:
        """What the model produced for the needles that score retrieval."""
        needles = Needles(self._loaded, self._texts, self._asked, "scored").all
        return retrieve(self._loaded, needles, steps=partial(self._progress, "needles"))

    @property
    def _asked(self) -> SkillOptions:
        """How needles that score groups are asked."""
        how = self._options
        return SkillOptions(lengths=how.scored, seed=how.seed, chat=how.chat, template=how.template)

    @cached_property
    def answers(self) -> Float[np.ndarray, " group"]:
        """The score `answers`.

        Raises:
            ModelError: if the model can't be asked for needles in other words.
        """
        how, hay = (
            self._options,
            Hay(self._loaded, self._texts, self._options.chat, self._options.template),
        )
        hay.check(max(how.scored), "scored")
        needles = [*indirect_needles(hay, self._asked, lengths="scored")]
        found = Inferred(self._loaded, needles, self._progress)
        if not len(found.score.value_NH):
            raise ModelError(
                f"Expected a model that answers needles in other words, got {self._loaded.name}: "
                f"{'; '.join(found.warnings())}. Use --score kvpress, which needs no needles."
            )
        return largest(self._loaded, found.score.value_NH.mean(0))

    @cached_property
    def retrieval(self) -> Float[np.ndarray, " group"]:
        """The score `retrieval`."""
        return retrieval_scores(self._loaded, self.retrieved)

    @property
    def num_found(self) -> tuple[int | None, int | None]:
        """How many needles that score retrieval were found, and of how many; None if not asked."""
        if "retrieved" not in vars(self):
            return None, None
        return int(self.retrieved.found_N.sum()), len(self.retrieved.needles)

    @cached_property
    def distance(self) -> Float[np.ndarray, " group"]:
        """The score `distance`."""
        window, steps = self._options.window, partial(self._progress, "distances")
        return distance_scores(self._loaded, self.windows, *window, steps)

    @cached_property
    def windows(self) -> list[Int64[Tensor, " token"]]:
        """Stretches of the texts, of one length.

        Raises:
            InputError: if all of them together are as short as what a streaming group keeps.
        """
        hay, (sink, recent) = (
            Hay(self._loaded, self._texts, self._options.chat, self._options.template),
            self._options.window,
        )
        size = min(WINDOW, self._loaded.max_length or WINDOW, len(hay.start) + hay.size)
        if size <= sink + recent:
            raise InputError(
                f"Expected more than {sink} + {amount(recent, 'token')} to score groups that keep "
                f"these, got {size}. Give longer texts, half of which score groups, or a smaller "
                "--recent."
            )
        return list(hay.windows(size, WINDOWS))


def retrieval_scores(loaded: Loaded, found: Retrieved) -> Float[np.ndarray, " group"]:
    """The largest retrieval score of each group's heads, over the needles that were found.

    Raises:
        ModelError: if the model found none of them.
    """
    assert found.copied_NH is not None
    if not found.found_N.any():
        raise ModelError(
            f"Expected a model that finds some of {len(found.needles)} needles to score retrieval, "
            f"got {loaded.name}, which found none. Use --score kvpress, which needs no needles."
        )
    return largest(loaded, found.copied_NH[found.found_N].mean(0))


def largest(loaded: Loaded, score_H: Float[np.ndarray, " head"]) -> Float[np.ndarray, " group"]:
    """The largest score of each group's heads."""
    holding = holding_of(loaded.model, loaded.anatomy)
    ends = np.cumsum([each.layer.num_heads for each in holding.layers])
    parts = zip(np.split(score_H, ends[:-1]), holding.layers, strict=True)
    score_R = np.concatenate([part_H.reshape(each.num_read, -1).max(1) for part_H, each in parts])
    return holding.of_groups(score_R)


def distance_scores(
    loaded: Loaded,
    texts: Sequence[Int64[Tensor, " token"]],
    sink: int,
    recent: int,
    steps: Steps = silent_steps,
) -> Float[np.ndarray, " group"]:
    """How far each group's output moves if it streams, in the mean over all queries of the texts.

    Args:
        loaded: a causal language model.
        texts: token ids of texts, longer than the window.
        sink: number of first keys that a streaming group keeps.
        recent: number of last keys that it keeps.
        steps: called with the number of texts so far, and of all.

    Raises:
        ModelError: if the model has no output projection that could be found.
    """
    moved = StreamingDistance(loaded, sink, recent)

    def of_text(ids_N: Tensor) -> Tensor:
        with Tap(loaded.model, loaded.anatomy, moved):
            read_text(loaded, ids_N)
        return torch.cat([moved.sums[each].cpu() for each in moved.num_read])

    found = spread(of_text, texts, "texts", steps)
    score_R = sum(found, torch.tensor(0.0)).numpy() / sum(map(len, texts))
    return moved.holding.of_groups(score_R)


@final
class StreamingDistance:
    """Listens to attention and adds up how far each group's output moves if it streams.

    Args:
        loaded: a causal language model.
        sink: number of first keys that a streaming group keeps.
        recent: number of last keys that it keeps.
    """

    def __init__(self, loaded: Loaded, sink: int, recent: int) -> None:
        self.sink, self.recent = sink, recent
        self.holding = holding_of(loaded.model, loaded.anatomy)
        """What every layer reads."""
        self.sums: dict[LayerId, Float[Tensor, " group"]] = {}
        """Sum of the distances over all queries of the last text, of every layer."""
        self.num_read = {each.layer.layer_id: each.num_read for each in self.holding.layers}
        """The number of groups that every layer reads."""
        self._weight_HDM = {
            each.layer.layer_id: each.layer.output_weight(loaded.model).float()
            for each in self.holding.layers
        }

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Begin a layer."""
        rows, heads, keys, size = value_BHKD.shape
        self._value_BHKD = value_BHKD
        self._moved_BHQD = value_BHKD.new_zeros(rows, heads, num_queries, size)
        place_Q = torch.arange(keys - num_queries, keys, device=value_BHKD.device)[:, None]
        place_K = torch.arange(keys, device=value_BHKD.device)
        self._kept_QK = (place_K < self.sink) | (place_Q - place_K < self.recent)

    def block(self, block: Block) -> None:
        """Keep the difference of the outputs of the block's heads and queries."""
        all_BHQK = block.weights_BHQK
        kept_BHQK = all_BHQK * self._kept_QK[block.queries]
        mass_BHQ1 = kept_BHQK.sum(-1, keepdim=True)
        changed_BHQK = all_BHQK - kept_BHQK / mass_BHQ1.clamp_min(torch.finfo(all_BHQK.dtype).tiny)
        moved = changed_BHQK @ self._value_BHKD[block.rows, block.heads]
        self._moved_BHQD[block.rows, block.heads, block.queries] = moved

    def end(self, layer: AttentionLayer) -> None:
        """Add the distances of the layer's groups."""
        num = self.num_read[layer.layer_id]
        moved = self._moved_BHQD.unflatten(1, (num, -1)).transpose(2, 3).flatten(3)
        weight = self._weight_HDM[layer.layer_id].unflatten(0, (num, -1)).flatten(1, 2)
        sums_G = torch.stack(
            [(moved[:, g].float() @ weight[g]).norm(dim=-1).double().sum() for g in range(num)]
        )
        self.sums[layer.layer_id] = sums_G


def mean_ranks(*scores: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
    """The mean of each group's ranks, as a share of the number of groups; equal scores share one.

    >>> mean_ranks(np.array([0.0, 0.0, 5.0]), np.array([1.0, 2.0, 3.0])).round(2).tolist()
    [0.42, 0.58, 1.0]
    """
    from scipy.stats import rankdata

    return np.mean([rankdata(levels(each)) for each in scores], axis=0) / len(scores[0])
