"""Planning a cache: groups are scored, those with the lowest scores stream, and the plan is judged.

The first half of the texts scores groups, the other half judges the plan, beside the dense model
and plans that stream as many random groups.
"""

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isnan

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.cache.groups import (
    check_cache_plan,
    grid,
    groups_of,
    plan_where,
    streamable,
    why_not,
)
from headcount.cache.holding import holding_of
from headcount.cache.judging import ROWS, answered, judged
from headcount.cache.plan import RECENT, SINK, CacheOptions, CachePlan, Group
from headcount.cache.questions import Questions
from headcount.cache.result import (
    DENSE,
    NEEDLES,
    CachePlanRecord,
    CacheSize,
    GroupRow,
    PlannedCache,
    TriedDrop,
    few_draws,
)
from headcount.cache.scores import GroupScores
from headcount.cache.self_check import check_streams
from headcount.core import InputError, ModelError, Progress, amount, levels, name_of, paced, silent
from headcount.corpora import Corpus
from headcount.models import Loaded, as_loaded, check_memory, revision, signature
from headcount.numbers import part, percent
from headcount.results import RANDOM
from headcount.speed import cache_record, parameter_bytes
from headcount.statistics import FEWEST_CLUSTERS, few_clusters
from headcount.tap import Anatomy, AnyModel, examined


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
    _able(loaded)  # before anything is measured
    lines = [each.text for each in texts]
    half = len(lines) // 2
    questions = Questions(loaded, lines[half:], options)
    asked, options = questions.all, questions.options
    at_once = min(ROWS, len(asked))
    check_memory(loaded, max(options.lengths), advice="Give smaller --lengths", at_once=at_once)
    scores = GroupScores(loaded, lines[:half], options, progress)
    score_G = scores.of(options.score)
    number, tried = _within(loaded, score_G, options, lines[:half], progress)
    plan = cut(loaded, score_G, options, number)
    drawn = random_plans(loaded, options, number)
    plans = [(options.score, plan), *((RANDOM, each) for each in drawn)]
    found = {DENSE: [answered(loaded, asked, None, partial(progress, DENSE))]}
    for name, each in plans:
        steps = partial(progress, f"under the plan: {name}")
        found.setdefault(name, []).append(answered(loaded, asked, each, steps))
    streams = set(plan.streaming)
    groups = zip(plan.groups, score_G.tolist(), strict=True)
    stays = _stays(loaded)
    rows = tuple(
        GroupRow(*group, score, group not in streams, stays.get(group.layer, ""))
        for group, score in groups
    )
    record = _record(loaded, texts, questions, scores, rows, tried)
    record = replace(record, timings={"all": time.time() - begun})
    return PlannedCache(record, rows, tuple(judged(asked, found, options.seed)))


def _record(
    loaded: Loaded,
    texts: Corpus,
    questions: Questions,
    scores: GroupScores,
    rows: Sequence[GroupRow],
    tried: tuple[TriedDrop, ...],
) -> CachePlanRecord:
    """What the tables do not hold."""
    options, able, (found, asked) = questions.options, len(_able(loaded)), scores.num_found
    holding = holding_of(loaded.model, loaded.anatomy)
    return CachePlanRecord(
        signature=signature(
            loaded,
            texts.sha256(),
            score=options.score,
            stream=None if options.bytes or options.max_drop else options.share,
            bytes=options.bytes,
            max_drop=options.max_drop,
            window="+".join(map(str, options.window)),
            scored=",".join(map(str, options.scored)),
            lengths=",".join(map(str, options.lengths)),
            texts=options.per_length,
            needles=options.needles,
            sentences=options.sentences,
            draws=options.draws,
            chat=options.chat or None,
            template="+".join(options.template) or None,
            seed=options.seed,
        ),
        warnings=(
            *_left(len(rows) - able),
            *questions.hay.noted.warnings(),
            *questions.warnings(),
            *few_clusters(options.per_length * len(options.lengths), "text"),
            *few_draws(options.draws),
        ),
        model=name_of(loaded.name),
        revision=revision(loaded.model),
        layers=holding.num_layers,
        able=able,
        score=options.score,
        draws=options.draws,
        sink=options.sink,
        recent=options.recent,
        cut=max(row.score for row in rows if not row.full),
        found=found,
        asked=asked,
        budget=options.budget,
        tried=tried,
        size=size_of(loaded),
        lengths=options.lengths,
        start=tuple(loaded.encoder().tokenizer.convert_ids_to_tokens(list(questions.hay.start))),
    )


def size_of(loaded: Loaded) -> CacheSize | None:
    """What a model's cache takes, measured on the cache of a short text; None without one."""
    record = cache_record(loaded, loaded)
    if record is None:
        return None
    weights = parameter_bytes(loaded.model)
    return CacheSize(record.dtype, weights, record.dense, loaded.max_length)


def plan_for_cache(
    model: AnyModel,
    streaming: Iterable[tuple[int, int]],
    sink: int = SINK,
    recent: int = RECENT,
    anatomy: Anatomy | None = None,
) -> CachePlan:
    """The plan under which some groups of this very model stream, with its revision.

    Args:
        model: a transformers model, or what `load` returns.
        streaming: the groups that stream, as (layer, index); all others keep all keys.
        sink: number of first tokens whose keys a streaming group keeps.
        recent: number of last tokens whose keys it keeps.
        anatomy: the result of an earlier `examine(model)`; examined now if None.

    Raises:
        InputError: for a group that the model lacks, or that can't stream.
        ModelError: for a model whose cache can't stream.
    """
    whole, anatomy = examined(model, anatomy)
    check_streams(whole, anatomy)
    chosen, holding = {Group(*each) for each in streaming}, holding_of(whole, anatomy)
    if lacking := sorted(chosen - set(groups_of(holding))):
        raise InputError(
            f"Expected key/value groups of this model, which has {grid(holding)}, got "
            f"{tuple(lacking[0])}. Name groups as (layer, index), from 0."
        )
    plan = plan_where(holding, chosen, sink, recent, revision(whole))
    check_cache_plan(plan, whole, anatomy)
    return plan


def plan_of(found: PlannedCache) -> CachePlan:
    """The plan that was chosen, for `streaming_cache` and `streaming_masks`."""
    by_layer = dict[int, list[bool]]()
    for row in found.groups:
        by_layer.setdefault(row.layer, []).append(row.full)
    record = found.record
    full = tuple(tuple(by_layer.get(layer, ())) for layer in range(record.layers))
    return CachePlan(full, record.sink, record.recent, record.revision)


def _within(
    loaded: Loaded,
    score_G: Float[np.ndarray, " group"],
    options: CacheOptions,
    lines: Sequence[str],
    progress: Progress,
) -> tuple[int, tuple[TriedDrop, ...]]:
    """How many groups stream within the budget, and what was tried to find that.

    Raises:
        InputError: if no number of groups meets the budget; the error says what comes nearest.
    """
    able = len(_able(loaded))
    if options.bytes is not None:
        return _small_enough(loaded, options, able), ()
    if options.max_drop is None:
        return max(1, round(options.share * able)), ()
    return _good_enough(loaded, score_G, options, lines, progress)


def _small_enough(loaded: Loaded, options: CacheOptions, able: int) -> int:
    """The fewest groups with which the cache is at most as large as wanted."""
    assert options.bytes is not None
    wanted, size, kept = part(options.bytes), size_of(loaded), sum(options.window)
    if size is None:
        raise InputError(
            f"Expected a model whose cache can be measured for --bytes, got {loaded.name}. Give "
            "--stream instead."
        )
    whole = size.of(size.far)
    for number in range(1, able + 1):
        if size.of(size.far, number / able, kept) <= wanted * whole:
            return number
    least = size.of(size.far, 1.0, kept) / whole
    raise InputError(
        f"Expected --bytes of at least {percent(least)}, which the cache of "
        f"{amount(size.far, 'token')} takes with all {amount(able, 'group')} streaming, got "
        f"{options.bytes}. Give a larger share, or a smaller --recent."
    )


def _good_enough(
    loaded: Loaded,
    score_G: Float[np.ndarray, " group"],
    options: CacheOptions,
    lines: Sequence[str],
    progress: Progress,
) -> tuple[int, tuple[TriedDrop, ...]]:
    """The most groups with which no more needles are lost than allowed, by bisection.

    The questions that search are in the texts that score groups, so that others judge the plan.
    """
    assert options.max_drop is not None
    most, able = part(options.max_drop), len(_able(loaded))
    asked = Questions(loaded, lines, replace(options, seed=options.seed + 1)).all
    if len(asked) < FEWEST_CLUSTERS:
        raise InputError(
            f"Expected at least {FEWEST_CLUSTERS} texts for --max-drop, since fewer say nothing of "
            f"a drop's interval, got {len(asked)}. Give a larger --per-length."
        )
    dense = answered(loaded, asked, None, partial(progress, "search: dense"))
    tried = dict[int, float]()

    def drop(number: int) -> float:
        steps = partial(progress, f"search: {amount(number, 'group')} streaming")
        found = answered(loaded, asked, cut(loaded, score_G, options, number), steps)
        rows = judged(asked, {DENSE: [dense], options.score: [found]}, options.seed)
        row = next(each for each in rows if (each.plan, each.kind) == (options.score, NEEDLES))
        tried[number] = inf if isnan(row.against_dense_low) else -row.against_dense_low
        return tried[number]

    number = bisect_right(range(1, able + 1), most, key=drop)
    found = tuple(TriedDrop(*each) for each in tried.items())
    if not number:
        raise InputError(
            f"Expected a plan under which at most {percent(most)} fewer needles are found, by the "
            f"upper end of the interval, got up to {percent(tried[min(tried)])} with "
            f"{amount(min(tried), 'group')} streaming. Ask more needles (--per-length), which "
            "narrows the interval, or allow more."
        )
    return number, found


def _stays(loaded: Loaded) -> dict[int, str]:
    """Why no group of a layer can stream, by the numbers of such layers."""
    layers = holding_of(loaded.model, loaded.anatomy).layers
    found = {each.layer.layer: why_not(loaded.model, each) for each in layers}
    return {layer: why for layer, why in found.items() if why}


def cut(
    loaded: Loaded,
    score_G: Float[np.ndarray, " group"],
    options: CacheOptions,
    number: int | None = None,
) -> CachePlan:
    """The plan in which groups with the lowest scores stream; equal ones in a random order.

    Groups that already stream, and those without a cache of their own, are not counted.

    Args:
        loaded: the model.
        score_G: scores of all groups, in order.
        options: the share that streams, and what a streaming group keeps.
        number: number of groups that stream, in place of the share.

    Raises:
        ModelError: if no group keeps all tokens now.
    """
    holding = holding_of(loaded.model, loaded.anatomy)
    scores = dict(zip(groups_of(holding), score_G.tolist(), strict=True))
    able = _able(loaded)
    random = np.random.default_rng(options.seed)
    order = np.lexsort((random.random(len(able)), levels([scores[group] for group in able])))
    lowest = order[: max(1, round(options.share * len(able))) if number is None else number]
    return plan_for_cache(
        loaded, [able[number] for number in lowest], *options.window, loaded.anatomy
    )


def _able(loaded: Loaded) -> tuple[Group, ...]:
    """The groups that can stream, at least one.

    Raises:
        ModelError: if there is none, or if the model's cache does not stream as it should.
    """
    if able := streamable(loaded):
        check_streams(loaded.model, loaded.anatomy)
        return able
    number = len(groups_of(holding_of(loaded.model, loaded.anatomy)))
    raise ModelError(
        f"Expected a model with groups that keep all tokens, got {loaded.name}, which has none "
        f"among {amount(number, 'group')}. Its cache streams already."
    )


def _left(unable: int) -> Iterator[str]:
    if unable:
        yield (
            f"{amount(unable, 'group')} with a sliding window or without a cache of their own stay "
            "as they are: they stream already, or can't"
        )


def random_plans(
    loaded: Loaded, options: CacheOptions, number: int | None = None
) -> Iterator[CachePlan]:
    """Plans under which as many random groups stream: a number of them, or the options' share."""
    random = np.random.default_rng((options.seed, 1))  # not the draw of the score `random`
    groups = len(groups_of(holding_of(loaded.model, loaded.anatomy)))
    drawn = (cut(loaded, random.random(groups), options, number) for _ in range(options.draws))
    yield from paced(drawn, options.draws, "draws", held=True)
