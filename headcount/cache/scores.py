r"""Scores of key/value groups: how much a group needs keys that a streaming one would forget.

A group is a key/value head with the query heads that share it. A streaming group keeps its first
`sink` and its last `recent` keys. Groups with higher scores keep all keys.

- `retrieval`: the largest retrieval score of its heads (`headcount.skills.retrieve`).
- `distance`: how far its output moves if it streams, and nothing else does:

$$\overline{\Big\| \sum_{h \in g} (o_h - o_h^\mathrm{streaming}) W_O^h \Big\|_2}, \qquad
o_h^\mathrm{streaming} = \frac{\sum_{k \in S} A_h(q, k) v_k}{\sum_{k \in S} A_h(q, k)},
\qquad S = \{ k < \mathrm{sink} \} \cup \{ q - k < \mathrm{recent} \}$$

  over all queries q of some texts, in one pass.
- `both`: the mean of a group's ranks by both, as a share of the number of groups.
- `kvpress`: what far keys weigh by their distance alone (`scores.py`).
- `random`: a uniform random number.

Reference: Retrieval Head Mechanistically Explains Long-Context Factuality (Wu et al., 2024),
    https://arxiv.org/abs/2404.15574; DuoAttention (Xiao et al., 2024), section 2, on keys that are
    kept, https://arxiv.org/abs/2410.10819

What far keys weigh by their distance alone: kvpress's estimate of which groups retrieve.

The mean query and the mean key of a head over a text are taken before their rotation, copied to n
places (500, or as many as the text has), and rotated there. With the weights a of the last copy's
query, a group's score is the mean over its heads and over texts of

$$\frac{1}{n} \sum_{k=1}^{n} \sum_{j \le k} a_j$$

which is 0.5 if all places weigh the same, and more if old ones do.

Reference: kvpress 0.5, `duo_attention_on_the_fly`, https://github.com/NVIDIA/kvpress
Departure: kvpress reads 50 chapters of BookSum, we read the user's texts.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from inspect import signature
from typing import Any, assert_never, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from headcount.cache.groups import groups_of
from headcount.cache.holding import holding_of
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
from headcount.models import Loaded, last_logits
from headcount.skills import Hay, Needles, Retrieved, SkillOptions, retrieve
from headcount.tap import (
    AttentionLayer,
    Block,
    Call,
    Tap,
    arguments_heard,
    dispatching,
    evaluating,
    input_device,
    plain_attention,
    without_cache,
)

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
        how = self._options
        options = SkillOptions(
            lengths=how.scored, seed=how.seed, chat=how.chat, template=how.template
        )
        needles = Needles(self._loaded, self._texts, options, "scored").all
        return retrieve(self._loaded, needles, steps=partial(self._progress, "needles"))

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
    score_H = found.copied_NH[found.found_N].mean(0)
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


COPIES = 500
"""Number of copies of the mean query and key, as in kvpress."""


def kvpress_scores(
    loaded: Loaded, texts: Sequence[Int64[Tensor, " token"]], steps: Steps = silent_steps
) -> Float[np.ndarray, " group"]:
    """What old keys weigh by their distance alone, in the mean over texts (`kvpress`).

    Args:
        loaded: a causal language model with rotary positions.
        texts: token ids of texts.
        steps: called with the number of texts so far, and of all.

    Raises:
        ModelError: if the model does not rotate its queries and keys as most models do.
    """
    rotated = _MeanRotated(loaded)

    def of_text(ids_N: Tensor) -> Tensor:
        read_text(loaded, ids_N)
        return torch.cat([rotated.scores[module].cpu() for module in rotated.modules])

    with rotated.hearing():
        found = [*spread(of_text, texts, "texts", steps)]
    return rotated.holding.of_groups(torch.stack(found).mean(0).double().numpy())


@final
class _MeanRotated:
    """Hears queries and keys, and how a model rotates them.

    Args:
        loaded: a causal language model.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._model, self._name = loaded.model, loaded.name
        self.holding = holding_of(loaded.model, loaded.anatomy)
        """What every layer reads."""
        if any(each.is_latent for each in self.holding.layers):
            raise self._refused("whose keys are made of latents, which it rotates in part")
        layers = [each.layer for each in self.holding.layers]
        self.modules = [loaded.model.get_submodule(layer.module) for layer in layers]
        """The attention modules, in order."""
        self._angles: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.scores: dict[nn.Module, Float[Tensor, " group"]] = {}
        """Of every attention module, the scores of its groups on the last text."""

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Inside, every forward pass of the model leaves the scores of one text."""
        attending = dispatching(self._model, self._attend, "sdpa")
        with arguments_heard(self.modules, self._keep_angles), attending:
            yield

    def _refused(self, how: str) -> ModelError:
        return ModelError(
            "Expected a model that rotates queries and keys by their positions for the score "
            f"kvpress, got {self._name}, {how}. Use --score retrieval, or distance if the model "
            "finds no needle."
        )

    def _keep_angles(self, module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        named = signature(module.forward).bind_partial(*args, **given).arguments
        angles = named.get("position_embeddings") or given.get("position_embeddings")
        if isinstance(angles, tuple) and len(angles) == 2:
            self._angles[module] = angles

    def _attend(self, call: Call) -> Tensor:
        query, key = call.query.float(), call.key.float()
        self.scores[call.module] = self._scores(call.module, query, key, call.kwargs.get("scaling"))
        return plain_attention(call)

    def _scores(
        self, module: nn.Module, query: Tensor, key: Tensor, scaling: float | None
    ) -> Float[Tensor, " group"]:
        """The scores of a layer's groups by the queries and keys of one text."""
        if module not in self._angles:
            raise self._refused("whose attention modules get no angles")
        cos, sin = (each.float() for each in self._angles[module])
        length = cos[:1] ** 2 + sin[:1] ** 2  # above 1 in models that stretch their positions
        still = [each / _over(length, each) for each in self._turned(module, query, key, cos, -sin)]
        again = self._turned(module, still[0], still[1], cos, sin)
        if not all(map(_is_close, again, (query, key))):
            raise self._refused("which rotates them in another way than its other layers")
        copies = min(COPIES, cos.shape[1])
        means = [each.mean(2, keepdim=True).expand(-1, -1, copies, -1) for each in still]
        turned = self._turned(module, means[0], means[1], cos[:, :copies], sin[:, :copies])
        query_GH1D = turned[0][0, :, -1:].unflatten(0, (key.shape[1], -1))
        weights = query_GH1D @ turned[1][0, :, None].transpose(-1, -2)
        weights_GHK = (weights * (scaling or query.shape[-1] ** -0.5)).softmax(-1)[:, :, 0]
        return weights_GHK.cumsum(-1).mean((1, 2))

    def _turned(
        self, module: nn.Module, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys, rotated by the function in the file of the module's class."""
        rotate = vars(sys.modules[type(module).__module__]).get("apply_rotary_pos_emb")
        if rotate is None:
            raise self._refused("whose rotation has another name")
        size = cos.shape[-1]  # some models leave the other dimensions as they are
        parts = query[..., :size], key[..., :size]
        if [*signature(rotate).parameters].index("cos") == 1:  # it takes one of them
            turned = [rotate(each, cos, sin) for each in parts]
        else:
            turned = rotate(*parts, cos, sin)
        rest = query[..., size:], key[..., size:]
        query, key = (torch.cat(pair, -1) for pair in zip(turned, rest, strict=True))
        return query, key


def _over(length_1ND: Tensor, still_BHND: Tensor) -> Tensor:
    """Squared lengths of what rotates, and 1 for other dimensions."""
    missing = still_BHND.shape[-1] - length_1ND.shape[-1]
    return nn.functional.pad(length_1ND, (0, missing), value=1.0)[:, None]


def _is_close(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= 1e-3 * other.abs().max())


def read_text(loaded: Loaded, ids_N: Int64[Tensor, " token"]) -> None:
    """Run the model on one text, for what is heard of it."""
    model, given = loaded.model, ids_N[None].to(input_device(loaded.model))
    with evaluating(model), torch.inference_mode():
        model(input_ids=given, **without_cache(model), **last_logits(model))
