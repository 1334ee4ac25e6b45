r"""Judging a plan: what a model answers under the masks of a plan, and intervals of differences.

Masks are the definition of a plan: a query $q$ of a head in a streaming group sees a key $k$ that
the model lets it see if

$$k - k_0(q) < \text{sink} \quad\text{or}\quad q - k < \text{recent}$$

where $k_0(q)$ is the first key that the model lets it see: 0, or behind padding on the left the
first token. Keys are computed as ever, and keep their positions; only what is seen differs. What a
group keeps is the same while a prompt is read and while tokens are generated, so this is what a
cache that streams must compute.

A text is read once under the masks, as far as each question; every question goes on from a copy of
the keys and values there, under the same masks. Questions about one text share its reading, so the
95 % intervals are over texts (`statistics.Bootstrap`), and differences are paired. Random plans
differ from each other, so intervals of what they find, and of differences from them, are over plans
as well, and there is none of a single one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.cache.plan import CachePlan
from headcount.cache.questions import AskedText, Question
from headcount.cache.result import DENSE, NEEDLES, NEXT, JudgedRow
from headcount.cache.split import Attend, fused, splits_of
from headcount.core import Steps, silent_steps, spread
from headcount.models import Loaded, last_logits
from headcount.results import RANDOM
from headcount.statistics import Bootstrap, Estimate
from headcount.tap import Anatomy, AnyModel, Call, dispatching, evaluating, examined, input_device


@contextmanager
def streaming_masks(
    model: AnyModel, plan: CachePlan, anatomy: Anatomy | None = None
) -> Iterator[None]:
    """Inside, heads of the plan's streaming groups see the first and the last tokens only.

    It saves no memory. It works with and without a cache, one of transformers' own.

    >>> with streaming_masks(model, plan):  # doctest: +SKIP
    ...     logits = model(**inputs).logits

    Args:
        model: a transformers model, or what `load` returns.
        plan: which groups stream.
        anatomy: the result of an earlier `examine(model)`; examined now if None.

    Raises:
        InputError: for a plan that is not one of the model.
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    with masking(whole, plan, anatomy):
        yield


@contextmanager
def masking(
    model: PreTrainedModel,
    plan: CachePlan,
    anatomy: Anatomy,
    around: Callable[[Attend], Attend] = lambda attend: attend,
) -> Iterator[None]:
    """The same, with a function that is called in place of attention (`streaming`)."""
    splits = {module: split for _, module, split in splits_of(plan, model, anatomy)}

    def attend(call: Call) -> Tensor:
        query, key, mask = call.query, call.key, call.mask
        if (split := splits.get(call.module)) is None:
            return fused(call)
        split.check(call)
        if mask is None:
            mask = query.new_ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool)
        narrow = streaming_mask(mask, plan.sink, plan.recent)
        return split.joined(
            [
                fused(part.of(call, seen))
                for part, seen in ((split.full, mask), (split.streaming, narrow))
                if len(part.heads)
            ]
        )

    with dispatching(model, around(attend), anatomy.implementation or "sdpa"):
        yield


def streaming_mask(
    mask_B1QK: Bool[Tensor, "batch 1 query key"], sink: int, recent: int
) -> Bool[Tensor, "batch 1 query key"]:
    """What a streaming group sees of what a model sees: the first keys and the last."""
    num_queries, num_keys = mask_B1QK.shape[-2:]
    key_K = torch.arange(num_keys, device=mask_B1QK.device)
    query_Q1 = key_K[num_keys - num_queries :, None]
    first_B1Q1 = mask_B1QK.byte().argmax(-1, keepdim=True)
    return mask_B1QK & ((key_K - first_B1Q1 < sink) | (query_Q1 - key_K < recent))


ROWS = 8
"""Number of answers in a batch."""
SAMPLES = 10_000
"""Number of draws of an interval."""


@final
@dataclass(frozen=True)
class Answered:
    """What a model made of some questions, in their order."""

    right: tuple[bool, ...]
    """Whether the answer was right."""
    losses: tuple[float, ...]
    """Negative log-likelihood of the right answer, in nats per token."""


def answered(
    loaded: Loaded,
    texts: Sequence[AskedText],
    plan: CachePlan | None = None,
    steps: Steps = silent_steps,
) -> Answered:
    """Ask a model all questions about some texts, under the masks of a plan.

    Args:
        loaded: a causal language model.
        texts: the texts with their questions.
        plan: which groups stream; None if none does.
        steps: called with the number of texts so far, and of all.
    """
    masked = nullcontext() if plan is None else streaming_masks(loaded, plan)
    with evaluating(loaded.model), torch.inference_mode(), masked:
        answers = spread(lambda text: [*_answers(loaded.model, text)], texts, "texts", steps)
        found = [*chain.from_iterable(answers)]
    right, losses = zip(*found, strict=True)
    return Answered(right, losses)


def _answers(model: Any, text: AskedText) -> Iterator[tuple[bool, float]]:
    past, done, fewest = None, 0, last_logits(model)
    for place, questions in groupby(text.questions, key=lambda each: each.place):
        ids = torch.tensor([text.ids[done:place]], device=input_device(model))
        read = model(input_ids=ids, past_key_values=past, use_cache=True, **fewest)
        past, done = read.past_key_values, place
        yield from _asked(model, past, list(questions))


def _asked(model: Any, past: Any, questions: Sequence[Question]) -> Iterator[tuple[bool, float]]:
    """Whether each question at one place was answered right, and the loss of its answer."""
    rows = [(each.cue, answer) for each in questions for answer in each.answers]
    losses, likeliest = list[float](), list[bool]()
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        for loss_T, is_top_T in _followed(model, past, some):
            losses.append(float(loss_T.mean()))
            likeliest.append(bool(is_top_T.all()))
    first = 0
    for each in questions:
        own = slice(first, first + len(each.answers))
        best = int(np.argmin(losses[own]))
        is_right = best == 0 if len(each.answers) > 1 else likeliest[first]
        yield is_right, losses[first]
        first = own.stop


def _followed(
    model: Any, past: Any, rows: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """The loss of every token of an answer behind its cue, and whether it was the likeliest."""
    longest = max(len(cue) + len(answer) for cue, answer in rows) - 1
    ids_BN = torch.zeros(len(rows), longest, dtype=torch.long)
    for row, (cue, answer) in enumerate(rows):  # no token sees what is behind it
        given = (*cue, *answer)[:-1]
        ids_BN[row, : len(given)] = torch.tensor(given)
    own = deepcopy(past)
    own.batch_repeat_interleave(len(rows))
    logits = model(
        input_ids=ids_BN.to(input_device(model)), past_key_values=own, use_cache=True
    ).logits
    for row, (cue, answer) in enumerate(rows):
        logits_TV = logits[row, len(cue) - 1 : len(cue) + len(answer) - 1].float()
        target_T = torch.tensor(answer, device=logits_TV.device)
        loss_T = torch.nn.functional.cross_entropy(logits_TV, target_T, reduction="none")
        yield loss_T, logits_TV.argmax(-1) == target_T


def judged(
    texts: Sequence[AskedText], found: Mapping[str, Sequence[Answered]], seed: int = 0
) -> Iterator[JudgedRow]:
    """What was answered under each plan, for both kinds of questions, at each length and in all.

    Args:
        texts: the texts with their questions.
        found: the answers by plan, in the mean over several plans of a name; `dense` among them.
        seed: seed of the intervals' draws.
    """
    asked = [(number, text, each) for number, text in enumerate(texts) for each in text.questions]
    text_Q = np.array([number for number, _, _ in asked])
    is_next_Q = np.array([each.kind == NEXT for _, _, each in asked])
    length_Q = np.array([len(text.ids) for _, text, _ in asked])
    drawn = Bootstrap(len(texts), SAMPLES, seed)
    right = {name: np.array([each.right for each in some], float) for name, some in found.items()}
    lengths = sorted({len(text.ids) for text in texts})
    for name, answers in found.items():
        right_DQ = right[name]
        less_DQ, more_DQ = right_DQ - right[DENSE], right_DQ - right.get(RANDOM, right_DQ)
        loss_Q = np.mean([each.losses for each in answers], axis=0)
        for kind, of_kind_Q in ((NEEDLES, ~is_next_Q), (NEXT, is_next_Q)):
            for length in (None, *lengths) if len(lengths) > 1 else (None,):
                chosen_Q = of_kind_Q & (length_Q == length if length else True)
                if not chosen_Q.any():
                    continue
                over = partial(_over_texts, drawn, text_Q[chosen_Q], is_drawn=name == RANDOM)
                share = over(right_DQ[:, chosen_Q], shares=True).within(0.0, 1.0)
                less = over(less_DQ[:, chosen_Q]).within(-1.0, 1.0)
                more = over(more_DQ[:, chosen_Q], is_drawn=RANDOM in found).within(-1.0, 1.0)
                loss, num = float(loss_Q[chosen_Q].mean()), int(chosen_Q.sum())
                yield JudgedRow(name, kind, length, *share[:3], loss, *less[:3], *more[:3], num)


def _over_texts(
    drawn: Bootstrap,
    text_Q: Int64[np.ndarray, " question"],
    number_DQ: Float[np.ndarray, "plan question"],
    is_drawn: bool,
    shares: bool = False,
) -> Estimate:
    """The mean of a number over questions, with its interval over texts and, if drawn, plans."""
    sums_S = np.bincount(text_Q, number_DQ.mean(0), drawn.num_sentences)
    cases_S = np.bincount(text_Q, minlength=drawn.num_sentences).astype(float)
    found = drawn.ratio(sums_S, cases_S, shares)
    return found.over_draws(number_DQ.mean(1)) if is_drawn else found
