"""What half of a cache's bytes costs at every length, by which groups or tokens are kept.

python benchmarks/cache_at_length.py MODEL SCORED.txt JUDGED.txt OUT

Needles are hidden in one text; groups are scored, and budgets chosen, on another. Under `dense` no
key is dropped. Each other row holds as many keys as if half of the groups kept the first 4 and the
last 128 tokens only:

- `kvpress`: so it is, with groups chosen by the estimate at 500 places, as by default.
- `kvpress at length`: the same with as many places as the texts have tokens.
- `budgets`: fewer groups keep all keys, more of them the last 256 or 1,024, the others the last 64;
  how many is chosen by the loss of needles in the text that scores.
- `window`: every group keeps the first 4 tokens and as many of the last as the bytes allow.
- `random groups`: in the mean over draws.
- `snapkv`: every group keeps the last 32 tokens and those that these look at most (SnapKV, Li et
  al., 2024, https://arxiv.org/abs/2404.14469, section 4), chosen after the text and before the
  question, since the same cache answers all questions. Keys are dropped once the text was read;
  under the rows above a streaming group never sees more.
- `snapkv asked`: the same, chosen behind the question, for each question anew.
- `random tokens`: every group keeps the first 4, the last 128, and others by chance.

What is done is kept in OUT, so that a run that was stopped goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import tyro
from cache_plans import TextArguments, cells_of, lines_of
from jaxtyping import Float, Int64
from torch import Tensor

from headcount.cache import (
    DENSE,
    NEEDLES,
    NEXT,
    Answered,
    AskedText,
    CacheOptions,
    CachePlan,
    Question,
    Questions,
    answered,
    cut,
    judged,
    random_plans,
)
from headcount.cache.holding import holding_of
from headcount.cache.judging import streaming_mask
from headcount.cache.kvpress import COPIES, kvpress_scores
from headcount.cache.scores import WINDOW
from headcount.cache.split import Part, fused
from headcount.core import Kept
from headcount.models import Loaded, last_logits, revision
from headcount.results import RANDOM
from headcount.skills import Hay
from headcount.tap import Call, device_of, dispatching, evaluating

SINK, RECENT, OBSERVED, POOLED = 4, 128, 32, 7
"""First and last tokens of a group that streams; queries and width of the pool of SnapKV."""
BUDGETS = ((0.89, 256), (0.89, 1024), (0.67, 256), (0.67, 1024))
"""Tried budgets: how many of the groups that would keep all keys still do, and the last tokens of
those that come next. The others keep 64."""
FEW, WHOLE = 64, 1_000_000


@dataclass(frozen=True)
class Arguments(TextArguments):
    """Needles found at every length with half of the bytes; the first text chooses budgets, too."""

    lengths: tuple[int, ...] = (1000, 2000, 4000, 8000)
    """Numbers of tokens of the texts."""
    texts: tuple[int, ...] = (8, 8, 10, 4)
    """Number of texts of each length, with ten needles each."""
    draws: tuple[int, ...] = (5, 5, 5, 2)
    """Number of random plans at each length."""
    seed: int = 0
    """Seed of needles and of all draws."""


def main() -> None:
    """Print a table for every length, and one for all."""
    arguments = tyro.cli(Arguments)
    loaded = arguments.load()
    key = f"{revision(loaded.model)} {arguments.scored} {arguments.judged} {arguments.seed}"
    kept = Kept(arguments.out / "answers.json", key, "answers", Answered)
    each = zip(arguments.lengths, arguments.texts, arguments.draws, strict=True)
    found = [AtLength(loaded, arguments, kept, *sizes) for sizes in each]
    for at in found:
        show(f"{at.length} tokens", at.texts, at.answers)
    fewest = min(len(at.answers[RANDOM]) for at in found)
    together = {
        name: [
            Answered(*map(tuple, (sum((getattr(a, part) for a in some), ()) for part in PARTS)))
            for some in zip(*(at.answers[name][:fewest] for at in found), strict=True)
        ]
        for name in found[0].answers
    }
    show("all lengths", [text for at in found for text in at.texts], together)


PARTS = ("right", "losses")


class AtLength:
    """What is found in texts of one length, by the name of what is kept."""

    def __init__(
        self,
        loaded: Loaded,
        arguments: Arguments,
        kept: Kept[Answered],
        length: int,
        number: int,
        draws: int,
    ) -> None:
        self.loaded, self.length, self.kept, self.draws = loaded, length, kept, draws
        self.lines = lines_of(arguments.scored)
        self.options = CacheOptions(
            lengths=(length,), per_length=number, draws=draws, sentences=1, seed=arguments.seed
        )
        self.texts = only_needles(Questions(loaded, lines_of(arguments.judged), self.options).all)
        self.answers = {name: [*answers] for name, answers in self._answers()}

    def _answers(self) -> Iterator[tuple[str, Iterator[Answered]]]:
        usual, far = (self.scores(copies) for copies in (COPIES, self.length))
        random = np.random.default_rng(self.options.seed)
        by_plan: dict[str, list[CachePlan | None]] = {DENSE: [None]}
        by_plan |= {"kvpress": [self.plan(usual)], "kvpress at length": [self.plan(far)]}
        by_plan[RANDOM] = [*random_plans(self.loaded, self.options)]
        for name, plans in by_plan.items():
            asks = [partial(answered, self.loaded, self.texts, plan) for plan in plans]
            yield name, (self.once(f"{name} {n}", ask) for n, ask in enumerate(asks))
        yield "window", iter([self.once("window", partial(self.under, self.window()))])
        yield "budgets", iter([self.once("budgets", partial(self.under, self.budget(far)))])
        size = self.size // len(usual)
        snap, chance = partial(snapkv, size), partial(by_chance, random, size)
        choices = {"snapkv": (snap, False), "snapkv asked": (snap, True)}
        for name, how in (choices | {"random tokens": (chance, False)}).items():
            ask = partial(answered_with, self.loaded, self.texts, *how)
            yield name, iter([self.once(name, ask)])

    def once(self, name: str, ask: Callable[[], Answered]) -> Answered:
        """Answers, asked if they were not before."""
        name = f"{self.length} {name}"
        found = self.kept.once(name, ask)
        print(name, round(float(np.mean(found.right)), 3), self.kept.seconds.get(name), flush=True)
        return found

    def scores(self, copies: int) -> Float[np.ndarray, " group"]:
        """The estimate of kvpress at this many places."""
        size = max(WINDOW, copies)
        texts = Hay(self.loaded, self.lines).windows(size, max(1, 8192 // size))
        return kvpress_scores(self.loaded, list(texts), copies=copies)

    def plan(self, score_G: Float[np.ndarray, " group"]) -> CachePlan:
        """The plan by which half of the groups stream."""
        return cut(self.loaded, score_G, self.options)

    @property
    def size(self) -> int:
        """Number of keys that all groups hold together if half of them stream."""
        num = sum(holding_of(self.loaded.model, self.loaded.anatomy).counts)
        return num // 2 * (SINK + RECENT) + (num - num // 2) * self.length

    def window(self) -> list[int]:
        """The same number of last tokens for every group."""
        num = sum(holding_of(self.loaded.model, self.loaded.anatomy).counts)
        return [self.size // num - SINK] * num

    def tiers(self, score_G: Float[np.ndarray, " group"], share: float, next_: int) -> list[int]:
        """Last tokens of each group: all, `next_` or few, with as many keys in all."""
        num = len(score_G)
        full = round(share * (num - num // 2))
        rest = self.size - full * self.length - (num - full) * (SINK + FEW)
        more = min(num - full, rest // (next_ - FEW))
        recent = [WHOLE] * full + [next_] * more + [FEW] * (num - full - more)
        order = np.argsort(-score_G, kind="stable")
        return [recent[int(place)] for place in np.argsort(order)]

    def budget(self, score_G: Float[np.ndarray, " group"]) -> list[int]:
        """The budgets with the lowest loss of needles in the text that scores."""
        options = replace(self.options, per_length=2, seed=self.options.seed + 1)
        texts = only_needles(Questions(self.loaded, self.lines, options).all)
        tried = [self.tiers(score_G, *each) for each in BUDGETS if each[1] < self.length]
        losses = [
            float(np.mean(self.once(f"tried {n}", partial(self.under, each, texts)).losses))
            for n, each in enumerate(tried)
        ]
        half = self.once("tried half", partial(answered, self.loaded, texts, self.plan(score_G)))
        print(self.length, "half", np.mean(half.losses), "budgets", losses, flush=True)
        return tried[int(np.argmin(losses))]

    def under(self, recent: Sequence[int], texts: Sequence[AskedText] = ()) -> Answered:
        """Answers where each group keeps the first tokens and a number of the last ones."""
        with windows(self.loaded, recent):
            return answered(self.loaded, texts or self.texts)


@contextmanager
def windows(loaded: Loaded, recent: Sequence[int]) -> Iterator[None]:
    """Inside, every group sees the first tokens and its own number of last ones."""
    model, rest = loaded.model, [*recent]
    parts = dict[Any, list[tuple[int, Part]]]()
    for held in holding_of(model, loaded.anatomy).layers:
        module, own = model.get_submodule(held.layer.module), rest[: held.num_groups]
        rest = rest[held.num_groups :]
        shared = held.layer.num_heads // held.num_groups
        parts[module] = [
            (size, Part([g for g, o in enumerate(own) if o == size], shared, device_of(module)))
            for size in sorted(set(own))
        ]

    def attend(call: Call) -> Tensor:
        query, mask = call.query, call.mask
        if mask is None:
            rows, keys = query.shape[2], call.key.shape[2]
            mask = query.new_ones(1, 1, rows, keys, dtype=torch.bool).tril(keys - rows)
        heads = [head for _, part in parts[call.module] for head in part.heads]
        outputs = [
            fused(part.of(call, streaming_mask(mask, SINK, size)))
            for size, part in parts[call.module]
        ]
        return torch.cat(outputs, 2)[:, :, torch.tensor(heads).argsort()]

    with dispatching(model, attend, loaded.anatomy.implementation or "sdpa"):
        yield


Choose = Callable[[Float[Tensor, "group key"]], Int64[Tensor, "group kept"]]
"""Which keys of a layer each group keeps, by the weights of the last queries."""


def snapkv(size: int, weight_GK: Float[Tensor, "group key"]) -> Int64[Tensor, "group kept"]:
    """The last tokens and those that these look at most, after a pool over neighbours."""
    old_GK = weight_GK[:, :-OBSERVED]
    pooled_GK = torch.nn.functional.max_pool1d(old_GK, POOLED, stride=1, padding=POOLED // 2)
    best_GK = pooled_GK.topk(size - OBSERVED, -1).indices
    last_K = torch.arange(old_GK.shape[1], weight_GK.shape[1])
    return torch.cat([best_GK, last_K.expand(len(best_GK), -1)], -1).sort(-1).values


def by_chance(
    random: np.random.Generator, size: int, weight_GK: Float[Tensor, "group key"]
) -> Int64[Tensor, "group kept"]:
    """The first and the last tokens, and others by chance."""
    groups, length = weight_GK.shape
    rows = [
        np.r_[
            :SINK,
            np.sort(SINK + random.permutation(length - SINK - RECENT)[: size - SINK - RECENT]),
            length - RECENT : length,
        ]
        for _ in range(groups)
    ]
    return torch.tensor(np.array(rows))


def answered_with(
    loaded: Loaded, texts: Sequence[AskedText], choose: Choose, is_asked: bool = False
) -> Answered:
    """Answers behind texts of which each group keeps some keys, chosen when all of it was read.

    Args:
        loaded: the model.
        texts: texts with needles.
        choose: what is kept.
        is_asked: whether keys are chosen behind the question, for each anew; the first token of the
            answer then comes from all keys.
    """
    right, losses = list[bool](), list[float]()
    with evaluating(loaded.model), torch.inference_mode():
        for text in texts:
            behind = Behind(loaded, text, choose)
            for question in text.questions:
                loss_T, is_top_T = behind.answer(question, is_asked)
                right.append(bool(is_top_T.all()))
                losses.append(float(loss_T.mean()))
    return Answered(tuple(right), tuple(losses))


class Behind:
    """A text that was read, but for its last tokens, whose queries choose keys."""

    def __init__(self, loaded: Loaded, text: AskedText, choose: Choose) -> None:
        self.loaded, self.choose, self.weights = loaded, choose, dict[Any, Tensor]()
        self.rest = text.ids[-OBSERVED:]
        _, self.past = self.read(text.ids[:-OBSERVED], None)
        _, whole = self.read(self.rest, deepcopy(self.past))
        self.short = self.shortened(whole)

    def answer(self, question: Question, is_asked: bool) -> tuple[Tensor, Tensor]:
        """The loss of each token of the answer, and whether it was the likeliest."""
        answer, before = question.answers[0], len(self.rest) + self.past.get_seq_length()
        if is_asked:
            first_NV, whole = self.read((*self.rest, *question.cue), deepcopy(self.past))
            before += len(question.cue)
            rest_NV, _ = self.read(answer[:-1], self.shortened(whole), before)
            logits_TV = torch.cat([first_NV[-1:], rest_NV])
        else:
            given = (*question.cue, *answer[:-1])
            logits_TV = self.read(given, deepcopy(self.short), before)[0][len(question.cue) - 1 :]
        target_T = torch.tensor(answer)
        loss_T = torch.nn.functional.cross_entropy(logits_TV, target_T, reduction="none")
        return loss_T, logits_TV.argmax(-1) == target_T

    def read(self, ids: Sequence[int], past: Any, place: int | None = None) -> tuple[Tensor, Any]:
        """Logits of some tokens, [token, word], and the cache behind them; weights are noted."""
        model: Any = self.loaded.model
        if not ids:
            return torch.zeros(0, model.config.vocab_size), past
        most = last_logits(model) if past is None else {}
        start = place if place is not None else past.get_seq_length() if past is not None else 0
        place_1N = torch.arange(start, start + len(ids))[None]
        with dispatching(model, self._attend, self.loaded.anatomy.implementation or "sdpa"):
            found = model(
                input_ids=torch.tensor([ids]),
                past_key_values=past,
                position_ids=place_1N,
                use_cache=True,
                **most,
            )
        return found.logits[0].float(), found.past_key_values

    def _attend(self, call: Call) -> Tensor:
        key, query = call.key, call.query[:, :, -OBSERVED:]
        number = query.shape[2]
        query = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
        logits = query.float() @ key.float().mT * (query.shape[-1] ** -0.5)
        place_Q = torch.arange(key.shape[2] - number, key.shape[2])
        later_QK = torch.arange(key.shape[2]) > place_Q[:, None]
        seen = logits.unflatten(2, (-1, number)).masked_fill(later_QK, -torch.inf)
        self.weights[call.module] = seen.softmax(-1).mean((2, 3))[0]
        return fused(call, is_causal=call.mask is None and call.query.shape[2] > 1)

    def shortened(self, past: Any) -> Any:
        """A cache with the keys that are kept."""
        for held in holding_of(self.loaded.model, self.loaded.anatomy).layers:
            layer = past.layers[held.number]
            kept_GK = self.choose(self.weights[self.loaded.model.get_submodule(held.layer.module)])
            index = kept_GK[None, :, :, None].expand(-1, -1, -1, layer.keys.shape[3])
            layer.keys = layer.keys.gather(2, index)
            layer.values = layer.values.gather(2, index)
        return past


def only_needles(texts: Sequence[AskedText]) -> list[AskedText]:
    """The texts without their questions for the next sentence."""
    return [
        replace(text, questions=tuple(each for each in text.questions if each.kind != NEXT))
        for text in texts
    ]


def show(title: str, texts: Sequence[AskedText], found: dict[str, list[Answered]]) -> None:
    """Print a table."""
    print(f"\n{title}\n| kept | needles | found | against dense | against random | loss |")
    for row in judged(texts, found):
        if row.kind == NEEDLES and row.length is None:
            print("|", " | ".join([row.plan, str(row.questions), *cells_of(row, 3)]), "|")


if __name__ == "__main__":
    main()
