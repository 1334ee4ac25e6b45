"""Measuring skills: scores of every head, and what the model finds without the best ones.

Heads are chosen on one half of the needles, and what is found without them is counted on the other
half; then the halves change places. So every needle counts once, without the heads that the other
half chose. Beside them, as many random other heads are removed.

Reference: halves that change places: Chernozhukov et al. (2018), section 1,
    https://arxiv.org/abs/1608.00060; intervals of shares: Wilson (1927),
    https://doi.org/10.1080/01621459.1927.10502953
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import Gates, Head, Progress, Steps, amount, name_of, silent
from headcount.corpora import Corpus
from headcount.models import Loaded, as_loaded, signature
from headcount.results import NeedleRow, Overlap, RecallRow, SkillRow, Skills, SkillsRecord
from headcount.skills.induction import (
    PATTERNS,
    RepeatedTokens,
    check_is_causal,
    interval,
    pattern_means,
)
from headcount.skills.needles import Needles
from headcount.skills.options import SkillOptions
from headcount.skills.retrieval import Retrieved, retrieve

LENGTH, TEXTS = 60, 16
"""Number of tokens and of texts of repeated random tokens."""
SHARE = 0.05
"""Share of a model's heads that are called the best ones."""
RETRIEVAL = "retrieval"


def skills(
    loaded: Loaded | PreTrainedModel,
    texts: Corpus,
    options: SkillOptions | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    progress: Progress = silent,
) -> Skills:
    """Measure which heads retrieve or look at earlier copies, and what is found without the best.

    Args:
        loaded: a causal language model, as `load` gives it, or a plain one.
        texts: what needles are hidden in.
        options: which needles, and how many heads are removed.
        tokenizer: tokenizer of a plain model.
        progress: called with the number of needles done.

    Returns:
        A row for each head, for each set of removed heads, and for each needle.

    Raises:
        InputError: if the texts are shorter than the longest prompt, or there is no tokenizer.
        ModelError: if the model is no causal language model, or takes too few tokens.
    """
    loaded, options, begun = as_loaded(loaded, tokenizer), options or SkillOptions(), time.time()
    check_is_causal(loaded)
    asked = Needles(loaded, [each.text for each in texts], options)
    dense = retrieve(loaded, asked.all, steps=partial(progress, "needles"))
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, options.seed, options.first)
    patterns_PTH, _ = pattern_means(loaded, tokens, partial(progress, "repeated tokens"))
    found = SkillScores(loaded, dense, dict(zip(PATTERNS, patterns_PTH, strict=True)))
    recalls = tuple(found.recalls(options, partial(progress, "without heads")))
    record = SkillsRecord(
        signature=signature(
            loaded,
            texts.sha256(),
            lengths=",".join(map(str, options.lengths)),
            depths=",".join(f"{depth:g}" for depth in options.depths),
            needles=options.needles,
            first="+".join(tokens.start) or None,
            seed=options.seed,
        ),
        warnings=tuple(found.warnings()),
        timings={"all": time.time() - begun},
        model=name_of(loaded.name),
        start=tuple(loaded.encoder().tokenizer.convert_ids_to_tokens(list(asked.start))),
        first=tokens.start,
        overlaps=tuple(found.overlaps()),
    )
    return Skills(record, tuple(found.head_rows()), recalls, tuple(found.needle_rows()))


@final
class SkillScores:
    """The scores of all heads, by needle and by text.

    Args:
        loaded: the model.
        dense: what it found with all of its heads.
        patterns: of each pattern of repeated tokens, the weights by text and head.
    """

    def __init__(
        self,
        loaded: Loaded,
        dense: Retrieved,
        patterns: Mapping[str, Float[np.ndarray, "text head"]],
    ) -> None:
        self.loaded, self.dense, self.patterns = loaded, dense, patterns
        self.heads = list[Head](loaded.heads)
        self.num_best = max(1, round(SHARE * len(self.heads)))
        """Number of heads that are called the best ones."""
        self.in_second_N = np.arange(len(dense.needles)) % 2 == 1
        """Which needles are in the second half; both have every kind, length and depth."""

    def retrieval(self, chosen_N: Bool[np.ndarray, " needle"]) -> Float[np.ndarray, " head"]:
        """The scores over some needles; NaN if none of them was found."""
        assert self.dense.copied_NH is not None
        found_NH = self.dense.copied_NH[chosen_N & self.dense.found_N]
        return found_NH.mean(0) if len(found_NH) else np.full(len(self.heads), np.nan)

    @cached_property
    def halves(self) -> tuple[Float[np.ndarray, " head"], Float[np.ndarray, " head"]]:
        """Retrieval over either half of the needles."""
        return self.retrieval(~self.in_second_N), self.retrieval(self.in_second_N)

    @property
    def are_retrievers_known(self) -> bool:
        """Whether both halves have a needle that was found."""
        return not any(np.isnan(half_H).any() for half_H in self.halves)

    def warnings(self) -> Iterator[str]:
        """What was not measured."""
        if not self.are_retrievers_known:
            yield (
                f"of {amount(len(self.dense.needles), 'needle')} the model found "
                f"{int(self.dense.found_N.sum())}, too few to score retrieval and to remove the "
                "heads that retrieve"
            )

    def head_rows(self) -> Iterator[SkillRow]:
        """A row for each head."""
        assert self.dense.copied_NH is not None
        found_NH = self.dense.copied_NH[self.dense.found_N]
        is_known = len(found_NH) > 1
        retrieval_3H = interval(found_NH) if is_known else np.full((3, len(self.heads)), np.nan)
        pattern_P3H = [interval(self.patterns[pattern]) for pattern in PATTERNS]
        for h, head in enumerate(self.heads):
            scores = [retrieval_3H, *pattern_P3H]
            (retrieval, *patterns) = [[float(bound[h]) for bound in score] for score in scores]
            yield SkillRow(
                str(head),
                *_mean_first(retrieval),
                *(float(half_H[h]) for half_H in self.halves),
                *(number for pattern in patterns for number in _mean_first(pattern)),
            )

    def needle_rows(self) -> Iterator[NeedleRow]:
        """A row for each needle."""
        decode = self.loaded.encoder().tokenizer.decode
        rows = zip(self.dense.needles, self.dense.produced, self.dense.recall_N, strict=True)
        for needle, made, recall in rows:
            answer, said = (str(decode(list(ids))).strip() for ids in (needle.answer, made))
            yield NeedleRow(needle.kind, needle.length, needle.depth, answer, said, float(recall))

    def overlaps(self) -> Iterator[Overlap]:
        """How many of the best heads two scores share, and two halves of one score."""
        means = {name: values_TH.mean(0) for name, values_TH in self.patterns.items()}
        pairs = [("induction", "duplicate_token"), ("induction", "previous_token")]
        if self.are_retrievers_known:
            means[RETRIEVAL] = self.retrieval(np.ones_like(self.in_second_N))
            means |= dict(zip(("first half", "second half"), self.halves, strict=True))
            pairs = [(RETRIEVAL, "induction"), *pairs, ("first half", "second half")]
        num = self.num_best
        for one, other in pairs:
            shared = {*_best(means[one], num)} & {*_best(means[other], num)}
            yield Overlap(one, other, len(shared), num, num * num / len(self.heads))

    def recalls(self, options: SkillOptions, steps: Steps) -> Iterator[RecallRow]:
        """What is found with all heads, without the best ones, and without random other ones."""
        yield _recall("none", 0, [self.dense])
        sizes = options.removed or tuple(dict.fromkeys((min(5, self.num_best), self.num_best)))
        random, induction_H = (
            np.random.default_rng(options.seed),
            self.patterns["induction"].mean(0),
        )
        total = len(sizes) * (options.draws + 1 + self.are_retrievers_known)
        done = 0
        for size in sizes:
            best = [_best(induction_H, size)] * 2
            yield self._without("induction", best)
            steps(done := done + 1, total)
            if self.are_retrievers_known:
                best = [_best(half_H, size) for half_H in reversed(self.halves)]
                yield self._without(RETRIEVAL, best)
                steps(done := done + 1, total)
            others = np.setdiff1d(np.arange(len(self.heads)), np.concatenate(best))
            for _ in range(options.draws):
                drawn = random.choice(others, min(size, len(others)), replace=False)
                yield self._without("random", [drawn, drawn])
                steps(done := done + 1, total)

    def _without(self, name: str, removed: Sequence[Int[np.ndarray, " removed"]]) -> RecallRow:
        """What is found of the first and the second half without some heads each."""
        found = []
        for chosen, is_second in zip(removed, (False, True), strict=True):
            needles = [
                needle
                for needle, second in zip(self.dense.needles, self.in_second_N, strict=True)
                if second == is_second
            ]
            gates = gates_without(self.loaded, [self.heads[number] for number in chosen])
            found.append(retrieve(self.loaded, needles, gates, listens=False))
        return _recall(name, len(removed[0]), found)


def gates_without(loaded: Loaded, heads: Sequence[Head]) -> Gates:
    """Gates of 0 for some heads, and of 1 for the others of their layers."""
    gates = {}
    for head in heads:
        count = loaded.heads.counts[head.site][head.layer]
        gates.setdefault(head.layer_id, torch.ones(count, device=loaded.model.device))
        gates[head.layer_id][head.index] = 0
    return gates


def _best(score_H: Float[np.ndarray, " head"], num: int) -> Int[np.ndarray, " best"]:
    """Numbers of the heads with the largest scores; the first of equal ones."""
    return np.argsort(-score_H, kind="stable")[:num]


def _mean_first(bounds: Sequence[float]) -> tuple[float, float, float]:
    low, mean, high = bounds
    return mean, low, high


def _recall(name: str, num_heads: int, found: Sequence[Retrieved]) -> RecallRow:
    from scipy.stats import binomtest

    exact = np.concatenate([each.exact_N for each in found])
    recall = np.concatenate([each.recall_N for each in found])
    bounds = binomtest(int(exact.sum()), len(exact)).proportion_ci(method="wilson")
    low, high = float(bounds.low), float(bounds.high)
    return RecallRow(
        name, num_heads, float(exact.mean()), low, high, float(recall.mean()), len(exact)
    )
