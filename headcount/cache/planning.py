"""Planning a cache: groups are scored, those with the lowest scores stream, and the plan is judged.

The first half of the texts scores groups, the other half judges the plan, beside the dense model
and plans that stream as many random groups.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int64
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.cache.groups import groups_of, plan_for_cache, streamable
from headcount.cache.judging import Answered, answered
from headcount.cache.options import CacheOptions
from headcount.cache.plan import CachePlan, Group
from headcount.cache.questions import AskedText, Questions
from headcount.cache.scores import GroupScores
from headcount.core import ModelError, Progress, amount, name_of, silent
from headcount.corpora import Corpus
from headcount.models import Loaded, as_loaded, check_memory, revision, signature
from headcount.results import (
    DENSE,
    NEEDLES,
    NEXT,
    RANDOM,
    CachePlanRecord,
    GroupRow,
    JudgedRow,
    PlannedCache,
)
from headcount.statistics import Bootstrap, Estimate, few_clusters

SAMPLES = 10_000
"""Number of draws of an interval."""


def plan_cache(
    loaded: Loaded | PreTrainedModel,
    texts: Corpus,
    options: CacheOptions | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    progress: Progress = silent,
) -> PlannedCache:
    """Choose which key/value groups keep the first and last tokens only, and judge the choice.

    Args:
        loaded: a causal language model, as `load` gives it, or a plain one.
        texts: running text; its first half scores groups, its second half judges the plan.
        options: the share that streams, the score, and what is asked.
        tokenizer: tokenizer of a plain model.
        progress: called with the number of texts done, for each score and plan.

    Returns:
        A row for each group, and for each plan and kind of questions; `plan_of` gives the plan.

    Raises:
        InputError: if the texts are too short or too long for memory, or there is no tokenizer.
        ModelError: if the model's cache can't stream, or it finds no needle to score retrieval.
    """
    loaded, options, begun = as_loaded(loaded, tokenizer), options or CacheOptions(), time.time()
    unable = len(groups_of(loaded.anatomy)) - len(_able(loaded))
    check_memory(loaded, max(options.lengths), advice="Give smaller --lengths")
    lines = [each.text for each in texts]
    half = len(lines) // 2
    asked = Questions(loaded, lines[half:], options).all
    scores = GroupScores(loaded, lines[:half], options, progress)
    score_G = scores.of(options.score)
    plan = cut(loaded, score_G, options)
    plans = [(options.score, plan), *((RANDOM, each) for each in random_plans(loaded, options))]
    found = {DENSE: [answered(loaded, asked, None, partial(progress, DENSE))]}
    for name, each in plans:
        steps = partial(progress, f"under the plan: {name}")
        found.setdefault(name, []).append(answered(loaded, asked, each, steps))
    streams = set(plan.streaming)
    groups = list(zip(plan.groups, score_G.tolist(), strict=True))
    record = CachePlanRecord(
        signature=signature(
            loaded,
            texts.sha256(),
            score=options.score,
            stream=options.stream,
            window="+".join(map(str, options.window)),
            scored=",".join(map(str, options.scored)),
            lengths=",".join(map(str, options.lengths)),
            texts=options.per_length,
            needles=options.needles,
            sentences=options.sentences,
            draws=options.draws,
            seed=options.seed,
        ),
        warnings=(
            *_left(unable),
            *few_clusters(options.per_length * len(options.lengths), "text"),
        ),
        timings={"all": time.time() - begun},
        model=name_of(loaded.name),
        revision=revision(loaded.model),
        score=options.score,
        sink=options.sink,
        recent=options.recent,
        cut=max(score for group, score in groups if group in streams),
        found=scores.num_found[0],
        asked=scores.num_found[1],
        start=tuple(
            loaded.encoder().tokenizer.convert_ids_to_tokens(list(loaded.encoder().start_ids))
        ),
    )
    rows = tuple(GroupRow(*group, score, group not in streams) for group, score in groups)
    return PlannedCache(record, rows, tuple(judged(asked, found, options.seed)))


def plan_of(found: PlannedCache) -> CachePlan:
    """The plan that was chosen, for `streaming_cache` and `streaming_masks`."""
    by_layer = dict[int, list[bool]]()
    for row in found.groups:
        by_layer.setdefault(row.layer, []).append(row.full)
    record, last = found.record, max(by_layer)
    full = tuple(tuple(by_layer.get(layer, ())) for layer in range(last + 1))
    return CachePlan(full, record.sink, record.recent, record.revision)


def cut(loaded: Loaded, score_G: Float[np.ndarray, " group"], options: CacheOptions) -> CachePlan:
    """The plan in which groups with the lowest scores stream; equal ones in a random order.

    Groups that already stream, and those without a cache of their own, are not counted.

    Args:
        loaded: the model.
        score_G: scores of all groups, in order.
        options: the share that streams, and what a streaming group keeps.

    Raises:
        ModelError: if no group keeps all tokens now.
    """
    scores = dict(zip(groups_of(loaded.anatomy), score_G.tolist(), strict=True))
    able = _able(loaded)
    random = np.random.default_rng(options.seed)
    order = np.lexsort((random.random(len(able)), [scores[group] for group in able]))
    lowest = order[: max(1, round(options.stream * len(able)))]
    return plan_for_cache(
        loaded, [able[number] for number in lowest], *options.window, loaded.anatomy
    )


def _able(loaded: Loaded) -> tuple[Group, ...]:
    """The groups that can stream, at least one."""
    if able := streamable(loaded):
        return able
    raise ModelError(
        f"Expected a model with groups that keep all tokens, got {loaded.name}, which has none "
        f"among {amount(len(groups_of(loaded.anatomy)), 'group')}. Its cache streams already."
    )


def _left(unable: int) -> Iterator[str]:
    if unable:
        yield (
            f"{amount(unable, 'group')} with a sliding window or without a cache of their own stay "
            "as they are: they stream already, or can't"
        )


def random_plans(loaded: Loaded, options: CacheOptions) -> Iterator[CachePlan]:
    """Plans under which as many random groups stream."""
    random = np.random.default_rng((options.seed, 1))  # not the draw of the score `random`
    for _ in range(options.draws):
        yield cut(loaded, random.random(len(groups_of(loaded.anatomy))), options)


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
    lengths = sorted({len(text.ids) for text in texts})
    for name, answers in found.items():
        right_Q, dense_Q, random_Q = (
            np.mean([each.right for each in found.get(plan, answers)], axis=0)
            for plan in (name, DENSE, RANDOM)
        )
        loss_Q = np.mean([each.losses for each in answers], axis=0)
        for kind, of_kind_Q in ((NEEDLES, ~is_next_Q), (NEXT, is_next_Q)):
            for length in (None, *lengths) if len(lengths) > 1 else (None,):
                chosen_Q = of_kind_Q & (length_Q == length if length else True)
                if not chosen_Q.any():
                    continue
                numbers_QN = np.stack([right_Q, right_Q - dense_Q, right_Q - random_Q], axis=1)
                right, less, more = _over_texts(
                    drawn, text_Q[chosen_Q], numbers_QN[chosen_Q], len(texts)
                )
                yield JudgedRow(
                    name,
                    kind,
                    length,
                    *_bounds(_share(right)),
                    float(loss_Q[chosen_Q].mean()),
                    *_bounds(less.within(-1.0, 1.0)),
                    *_bounds(more.within(-1.0, 1.0)),
                    int(chosen_Q.sum()),
                )


def _over_texts(
    drawn: Bootstrap,
    text_Q: Int64[np.ndarray, " question"],
    numbers_QN: Float[np.ndarray, "question number"],
    num_texts: int,
) -> list[Estimate]:
    """Means of some numbers over questions, with intervals over texts."""
    sums_SN = np.zeros((num_texts, numbers_QN.shape[1]))
    np.add.at(sums_SN, text_Q, numbers_QN)
    cases_S = np.bincount(text_Q, minlength=num_texts).astype(float)
    return drawn.ratios(sums_SN, np.repeat(cases_S[:, None], numbers_QN.shape[1], axis=1))


def _share(found: Estimate) -> Estimate:
    """A share, with Wilson's interval if all texts are alike, since draws of them then are, too."""
    from scipy.stats import binomtest

    if found.low < found.high:
        return found.within(0.0, 1.0)
    hits = round(found.value * found.cases)
    bounds = binomtest(hits, found.cases).proportion_ci(method="wilson")
    return replace(found, low=float(bounds.low), high=float(bounds.high))


def _bounds(found: Estimate) -> tuple[float, float, float]:
    return found.value, found.low, found.high
