"""Measuring skills: scores of every head, and what the model can't do without the best ones."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import final

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import Progress, amount, name_of, short_hash, silent
from headcount.corpora import Corpus
from headcount.measures import PATTERNS, RepeatedTokens, check_is_causal, pattern_means
from headcount.models import Loaded, Removal, as_loaded, check_memory, mean_outputs, signature
from headcount.numbers import percent
from headcount.skills.answers import Inferred
from headcount.skills.function_vectors import (
    Prompts,
    WordTask,
    answer,
    indirect_effects,
    read_tasks,
)
from headcount.skills.indirect import fingerprint, indirect_needles
from headcount.skills.needles import Hay, Needles
from headcount.skills.options import SkillOptions
from headcount.skills.pictured import pictured_skills
from headcount.skills.removals import (
    Asked,
    OwnSkills,
    Removals,
    Score,
    every_second,
    head_rows,
    num_best,
    overlaps,
    own_rows,
    twice,
)
from headcount.skills.result import NeedleRow, RecallRow, Skills, SkillsRecord, TaskRow
from headcount.skills.retrieval import ROWS, Retrieved, retrieve
from headcount.skills.skill import Skill
from headcount.statistics import wilson_interval
from headcount.vocabulary import SKILLS

LENGTH, TEXTS = 60, 16
"""Number of tokens and of texts of repeated random tokens."""
WINDOWS = 16
"""Largest number of texts over which the outputs of removed heads are averaged."""
DONE = 0.5
"""Share of right answers above which a few-shot task is done."""


def skills(
    loaded: Loaded | PreTrainedModel,
    texts: Corpus,
    options: SkillOptions | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    progress: Progress = silent,
    own: Sequence[type[Skill]] = (),
) -> Skills:
    """Measure which heads retrieve, carry tasks or look at earlier copies, and what needs them.

    Args:
        loaded: a causal language model, as `load` gives it, or a plain one.
        texts: what needles are hidden in; or prompts with pictures, which are asked themselves.
        options: which needles and tasks, and how many heads are removed.
        tokenizer: tokenizer of a plain model.
        progress: called with the number of needles and prompts done.
        own: skills of your own, beside those that the options name.

    Returns:
        A row for each head, each set of removed heads, each needle and each few-shot task.

    Raises:
        InputError: if the texts are shorter than the longest prompt, or there is no tokenizer.
        ModelError: if the model is no causal language model, or takes too few tokens.
    """
    loaded, options, begun = as_loaded(loaded, tokenizer), options or SkillOptions(), time.time()
    check_is_causal(loaded)
    options.check(len(loaded.heads))
    if texts.has_pictures:
        return pictured_skills(loaded, texts, options, progress, own)
    asked = Needles(loaded, [each.text for each in texts], options)
    prompts = Prompts(loaded, tasks := read_tasks(options.tasks), options)
    at_once, advice = min(ROWS, len(asked.all)), "Give smaller --lengths"
    check_memory(loaded, max(options.lengths), advice=advice, at_once=at_once)
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, options.seed, options.first)
    needles, done = Found(loaded, asked, progress), FewShot(loaded, prompts, options, progress)
    inferred = Inferred(loaded, [*indirect_needles(asked.hay, options)], progress)
    patterns = _patterns(loaded, tokens, progress)
    scores = (needles.score, inferred.score, done.score, *patterns)
    measured = (asked.hay.noted, needles, inferred, done)
    more = OwnSkills.of(options, SKILLS, own)
    kinds = _kinds(patterns[0], needles, inferred, done)
    recalls = (*_recalls(loaded, asked.hay, kinds, options, progress),)
    signed = signature(loaded, texts.sha256(), **_signed(options, tasks, tokens), **more.signed)
    others, failed = more.scores(loaded, texts, options.seed)  # last: may change the model
    record = SkillsRecord(
        signature=signed,
        warnings=(*chain(*(each.warnings() for each in measured)), *failed),
        timings={"all": time.time() - begun},
        model=name_of(loaded.name),
        start=tuple(loaded.encoder().tokenizer.convert_ids_to_tokens(list(asked.hay.start))),
        first=tokens.start,
        own=tuple(more.entries(others)),
        null=inferred.null,
        overlaps=tuple(overlaps(loaded.heads, (*scores, *others), num_best(loaded))),
    )
    rows, extra = head_rows(loaded.heads, scores), own_rows(loaded.heads, others)
    found = (*needles.rows(),), done.rows, (*inferred.rows(),)
    return Skills(record, (*rows,), recalls, *found, (*extra,))


def _kinds(
    copying: Score, needles: "Found", inferred: Inferred, done: "FewShot"
) -> Iterator[tuple[Asked, list[Score]]]:
    """Cases of each kind, with the scores beside their own."""
    both = (copying, needles.score, inferred.score)
    for each in (needles.asked, *inferred.asked):
        yield each, [one for one in both if one is not each.score]
    for each in done.asked:
        yield each, [copying]


def _recalls(
    loaded: Loaded,
    hay: Hay,
    kinds: Iterable[tuple[Asked, Sequence[Score]]],
    options: SkillOptions,
    progress: Progress,
) -> Iterator[RecallRow]:
    """How much each kind of prompt needs its best heads, beside those of other scores."""
    windows_BT = hay.windows(min(options.lengths), WINDOWS)
    means = mean_outputs(loaded, windows_BT) if "mean" in options.replace else None
    for asked, others in kinds:
        removals = Removals(loaded, asked, others, options, means, (num_best(loaded),))
        yield from removals.rows(partial(progress, f"{asked.name} without heads"))


def _patterns(loaded: Loaded, tokens: RepeatedTokens, progress: Progress) -> list[Score]:
    """The scores on repeated random tokens, induction first."""
    found_PTH, _ = pattern_means(loaded, tokens, partial(progress, "repeated tokens"))
    return [
        Score(name, mean_TH, every_second(len(mean_TH)))
        for name, mean_TH in zip(PATTERNS, found_PTH, strict=True)
    ]


def _signed(
    options: SkillOptions, tasks: Sequence[WordTask], tokens: RepeatedTokens
) -> dict[str, object]:
    """What the scores depend on, for the signature."""
    return {
        "kinds": ",".join(options.kinds).replace(" ", "-"),
        "lengths": ",".join(map(str, options.lengths)),
        "depths": ",".join(f"{depth:g}" for depth in options.depths),
        "needles": options.needles,
        "chat": options.chat or None,
        "template": "+".join(options.template) or None,
        "apart": options.apart or None,
        "prompts": options.prompts,
        "again": options.again,
        "tasks": short_hash("".join(task.sha256 for task in tasks), 8),
        "answers": fingerprint(),
        "first": "+".join(tokens.start) or None,
        "seed": options.seed,
    }


@final
class Found:
    """What a model finds of needles, and the heads that copy it.

    Args:
        loaded: the model.
        needles: the needles.
        progress: called with the number of needles done.
    """

    def __init__(self, loaded: Loaded, needles: Needles, progress: Progress) -> None:
        self._loaded, self._needles = loaded, needles.all
        self._dense = retrieve(loaded, needles.all, steps=partial(progress, "needles"))
        assert self._dense.copied_NH is not None
        found_N, in_second_N = self._dense.found_N, every_second(len(needles.all))
        self.score = Score("retrieval", self._dense.copied_NH[found_N], in_second_N[found_N])
        """Shares of answers that heads copy, over the needles that were found."""
        self.asked = Asked("needles", self.score, _right(self._dense), in_second_N, self._answers)
        """The needles, with the heads that retrieve."""

    def _answers(self, cases: Sequence[int], removal: Removal) -> Float[np.ndarray, "case 2"]:
        needles = [self._needles[case] for case in cases]
        return _right(retrieve(self._loaded, needles, removal))

    def warnings(self) -> Iterator[str]:
        """What was not measured."""
        if not self.score.is_known:
            yield (
                f"of {amount(len(self._needles), 'needle')} the model found "
                f"{len(self.score.value_NH)}, too few to score retrieval and to remove the heads "
                "that retrieve"
            )

    def rows(self) -> Iterator[NeedleRow]:
        """A row for each needle."""
        decode = self._loaded.encoder().tokenizer.decode
        rows = zip(self._needles, self._dense.produced, self._dense.recall_N, strict=True)
        for needle, made, recall in rows:
            told, said = (str(decode(list(ids))).strip() for ids in (needle.answer, made))
            yield NeedleRow(needle.kind, needle.length, needle.depth, told, said, float(recall))


def _right(found: Retrieved) -> Float[np.ndarray, "case 2"]:
    return np.stack([found.exact_N.astype(float), found.recall_N], axis=1)


@final
class FewShot:
    """Which few-shot tasks a model does, and the heads that carry them.

    Args:
        loaded: the model.
        prompts: the prompts.
        options: how many prompts each task has.
        progress: called with the number of prompts done.
    """

    def __init__(
        self, loaded: Loaded, prompts: Prompts, options: SkillOptions, progress: Progress
    ) -> None:
        self._loaded, num = loaded, options.prompts
        answered = answer(loaded, prompts.all, steps=partial(progress, "few-shot prompts"))
        right_N = answered.right_N
        parts = [slice(first, first + num) for first in range(0, len(prompts.all), num)]
        done = [n for part in parts if right_N[part].mean() > DONE for n in _all(part)]
        self._prompts = [prompts.all[n] for n in done]
        effects = indirect_effects(
            loaded,
            self._prompts,
            [answered.outputs[n] for n in done],
            partial(progress, "effects of heads"),
        )
        self.score = Score(
            "function_vector", effects.effect_NH, every_second(len(self._prompts)), least=-1.0
        )
        """Effects of heads on prompts of the tasks that are done."""
        shuffled = dict(zip(done, effects.probability_N, strict=True))
        self.rows = tuple(
            TaskRow(
                prompts.all[part.start].task,
                num,
                (right := float(right_N[part].mean())),
                *wilson_interval(right, num),
                float(answered.probability_N[part].mean()),
                float(np.mean([shuffled.get(n, np.nan) for n in _all(part)])),
                part.start in shuffled,
            )
            for part in parts
        )
        """A row for each task."""
        right_NR = twice(right_N[done])
        asked = Asked("tasks", self.score, right_NR, self.score.in_second_N, self._answers)
        self.asked = (asked,) if done else ()
        """The prompts of the tasks that are done, if any, with the heads that carry them."""

    def _answers(self, cases: Sequence[int], removal: Removal) -> Float[np.ndarray, "case 2"]:
        return twice(answer(self._loaded, [self._prompts[n] for n in cases], removal).right_N)

    def warnings(self) -> Iterator[str]:
        """Which tasks are left out."""
        left = [f"{row.task} ({percent(row.right)} right)" for row in self.rows if not row.is_done]
        if left:
            none = "" if self.asked else ", so that no head has a score of function vectors"
            yield (
                f"few-shot tasks that the model answers at most half right are left out"
                f"{none}: {', '.join(left)}"
            )


def _all(part: slice) -> range:
    return range(part.start, part.stop)
