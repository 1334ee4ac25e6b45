"""Skills on prompts with pictures: scores of every head, and what is answered without the best.

The prompts are the cases. A reply is right if each of its tokens is the likeliest behind those
before it. Heads are chosen on every second prompt, and asked or removed on the others.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int

from headcount.core import InputError, Progress, amount, name_of
from headcount.corpora import Corpus
from headcount.models import Loaded, Removal, signature
from headcount.skills.localization import Localized, localize
from headcount.skills.options import SkillOptions
from headcount.skills.picture_retrieval import Retrieved, retrieve_places
from headcount.skills.pictured_prompts import PicturedPrompts
from headcount.skills.removals import (
    Asked,
    OwnSkills,
    Removals,
    Score,
    best,
    every_second,
    head_rows,
    num_best,
    overlaps,
    own_rows,
)
from headcount.skills.result import PlaceRow, Skills, SkillsRecord
from headcount.skills.skill import FEWEST_CASES, Skill
from headcount.statistics import wilson_interval
from headcount.vocabulary import PICTURE_SKILLS, SKILLS

REMOVED = 3
"""Number of heads that are removed or look together, as in Kang et al. (2025)."""


def pictured_skills(
    loaded: Loaded,
    texts: Corpus,
    options: SkillOptions,
    progress: Progress,
    own: Sequence[type[Skill]] = (),
) -> Skills:
    """Measure which heads look at the place that a question is about, and what needs them.

    Args:
        loaded: a causal language model that reads pictures.
        texts: prompts with pictures.
        options: how many heads are removed, and how many prompts are asked again.
        progress: called with the number of prompts done.
        own: skills of your own.

    Raises:
        InputError: for fewer than four prompts.
        ModelError: if the model reads no pictures, or it is not known where their tokens lie.
    """
    begun, heads = time.time(), loaded.heads
    read = PicturedPrompts(loaded, texts)
    if len(read.all) < FEWEST_CASES:
        raise InputError(
            f"Expected at least {FEWEST_CASES} prompts with pictures, two for each half, got "
            f"{len(read.all)}. Give more."
        )
    localized = localize(read, heads, options.seed, partial(progress, "prompts with pictures"))
    found = retrieve_places(read, partial(progress, "questions about pictures"))
    empty_NH, has_some = np.zeros((0, len(heads))), len(found.score_NH) > 0
    scores = _scores(localized, found)
    more = OwnSkills.of(options, {**SKILLS, **PICTURE_SKILLS}, own)
    signed = signature(loaded, texts.sha256(), **_signed(options), **more.signed)
    recalls = (*_Questions(loaded, read, scores).rows(options, progress),)
    places = (*_places(read, localized.maps, scores, options),)
    others, failed = more.scores(loaded, texts, options.seed)
    known = [each for each in scores if len(each.value_NH)]
    record = SkillsRecord(
        signature=signed,
        warnings=(*_warnings(read, len(found.score_NH), bool(recalls)), *failed),
        timings={"all": time.time() - begun},
        model=name_of(loaded.name),
        start=(),
        first=(),
        own=(*(PICTURE_SKILLS[each.name] for each in known), *more.entries(others)),
        shuffled=float(localized.shuffled_NH.mean(0).max()),
        elsewhere=float(found.elsewhere_NH.mean(0).max()) if has_some else None,
        overlaps=tuple(overlaps(heads, (*known, *others), max(REMOVED, num_best(loaded)))),
    )
    nothing = [Score(name, empty_NH, np.zeros(0, bool)) for name in SKILLS]
    rows, extra = (*head_rows(heads, nothing),), (*own_rows(heads, (*known, *others)),)
    return Skills(record, rows, recalls, (), (), own=extra, places=places)


def _scores(localized: Localized, found: Retrieved) -> list[Score]:
    """Both scores of every head, by prompt."""
    second_N = every_second(len(localized.chosen_NH))
    retrieved_NH = found.score_NH.reshape(-1, localized.chosen_NH.shape[1])  # of no prompt, too
    asked_N = second_N[found.is_asked_N]
    return [
        Score("localization", localized.chosen_NH, second_N),
        Score("picture_retrieval", retrieved_NH, asked_N, least=-1.0),
    ]


def _signed(options: SkillOptions) -> dict[str, Any]:
    return {"again": options.again, "pictures": "beside", "seed": options.seed}


def _warnings(read: PicturedPrompts, asked: int, has_replies: bool) -> Iterator[str]:
    """What was not measured."""
    whole = amount(len(read.all), "prompt")
    if read.num_without:
        yield f"{amount(read.num_without, 'row')} without pictures left out"
    if not asked:
        yield (
            "no question names a thing with a box, so that no head has a score of picture "
            'retrieval: give boxes to phrases of the questions in the field "links"'
        )
    elif asked < len(read.all):
        yield f"{asked} of {whole} ask about a part of a picture that has a box"
    if not has_replies:
        yield (
            "too few prompts have a reply, so that it is not known what the model answers "
            "without heads"
        )


@final
class _Questions:
    """The prompts that have a reply, answered with all heads and without the best ones."""

    def __init__(self, loaded: Loaded, read: PicturedPrompts, scores: Sequence[Score]) -> None:
        self._loaded, self._read, self._scores = loaded, read, scores
        self._cases = [number for number, each in enumerate(read.all) if each.reply]
        self._prompts = [read.all[number] for number in self._cases]

    def rows(self, options: SkillOptions, progress: Progress) -> Iterator[Any]:
        """A row for all heads, and for each set of removed ones."""
        in_second_N = every_second(len(self._read.all))[self._cases]
        if min(int(in_second_N.sum()), int((~in_second_N).sum())) < 1:
            return
        steps = partial(progress, "answers with all heads")
        dense_NR = self._read.replies(self._prompts, steps=steps)
        first, *others = self._scores
        asked = Asked("questions", first, dense_NR, in_second_N, self._without, others)
        means = self._read.mean_outputs() if "mean" in options.replace else None
        sizes = dict.fromkeys((REMOVED, max(REMOVED, num_best(self._loaded))))
        removals = Removals(self._loaded, asked, (), options, means, (*sizes,))
        yield from removals.rows(partial(progress, "answers without heads"))

    def _without(self, cases: Sequence[int], removal: Removal) -> Float[np.ndarray, "case 2"]:
        return self._read.replies([self._prompts[case] for case in cases], removal)


def _places(
    read: PicturedPrompts,
    maps: Sequence[Float[np.ndarray, "head patch"]],
    scores: Sequence[Score],
    options: SkillOptions,
) -> Iterator[PlaceRow]:
    """How often heads find what questions are about, chosen on the other half of the prompts."""
    second_N = every_second(len(read.all))
    cases = [number for number, each in enumerate(read.all) if each.evidence]
    halves = [[case for case in cases if second_N[case] == half] for half in (False, True)]
    if not all(halves):
        return
    whole = maps[0].shape[0]
    size = min(REMOVED, whole)

    def found(
        by: str, heads: tuple[Int[np.ndarray, " head"], Int[np.ndarray, " head"]]
    ) -> PlaceRow:
        hits = [
            int(maps[case][chosen].sum(0).argmax()) in read.all[case].evidence
            for half, chosen in zip(halves, heads, strict=True)
            for case in half
        ]
        return place_row(by, len(heads[0]), np.array(hits))

    named = list[np.ndarray]()
    for score in scores:
        if score.is_known:
            first, second = (best(half_H, size) for half_H in score.halves)
            named += [first, second]
            yield found(score.name, (second, first))
    others = np.setdiff1d(np.arange(whole), np.concatenate([*named, np.zeros(0, int)]))
    random = np.random.default_rng((options.seed, size))
    for _ in range(options.draws if size <= len(others) else 0):
        drawn = random.choice(others, size, replace=False)
        yield found("random", (drawn, drawn))
    yield found("all", (np.arange(whole), np.arange(whole)))
    hits = [
        most_often(read, halves[1 - half]) in read.all[case].evidence
        for half in (0, 1)
        for case in halves[half]
    ]
    yield place_row("fixed", 0, np.array(hits))


def most_often(read: PicturedPrompts, cases: Sequence[int]) -> int:
    """Number of the token of a picture that most of some questions are about."""
    keys = [key for case in cases for key in read.all[case].evidence]
    return int(np.bincount(keys).argmax())


def place_row(by: str, heads: int, hits_N: Bool[np.ndarray, " case"]) -> PlaceRow:
    """The row of some questions, of which some were found."""
    share = float(hits_N.mean())
    return PlaceRow(by, heads, share, *wilson_interval(share, len(hits_N)), len(hits_N))
