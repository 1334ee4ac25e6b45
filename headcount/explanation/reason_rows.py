"""Rows of reasons: where the best heads look, and what wrote their queries and keys, by prompt.

A head's look is the one from the token where the prediction is made (or --query) at the key with
the largest weight (of those of --key), the first token aside, on which most heads rest. Prompts
have looks of their own, whose terms by writer are averaged.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from jaxtyping import Float

from headcount.core import Head, Progress, falling, spread
from headcount.explanation.plan import Plan
from headcount.explanation.prompts import REPEATED, named_word
from headcount.explanation.reasons import Scored, scored
from headcount.explanation.result import Explained, LookRow, ReasonRow
from headcount.explanation.runs import Case
from headcount.explanation.singles import Singles
from headcount.numbers import ordinal

PAIRED = 6
"""Number of the largest writers of a query, and of a key, whose pairs are kept."""


def with_looks(found: Explained, singles: Singles, progress: Progress) -> Explained:
    """Add where the best heads look, and why."""
    return looks_of(found, singles.plan, singles.best(singles.plan.options.reasons), progress)


def looks_of(found: Explained, plan: Plan, heads: Sequence[Head], progress: Progress) -> Explained:
    """Add where some heads look, and why; nothing where their scores can't be split."""
    cases, steps = plan.cases if heads else (), partial(progress, "reasons")
    scored_N = [*spread(partial(_of_prompt, plan, heads), cases, "prompts", steps)]
    looks, reasons = [*found.looks], [*found.reasons]
    for head in heads:
        if all(head in each for each in scored_N):
            of_head = [each[head] for each in scored_N]
            looks.append(_look(plan, head, of_head))
            reasons += _reasons(plan, head, of_head)
    return replace(found, looks=tuple(looks), reasons=tuple(reasons))


def _of_prompt(plan: Plan, heads: Sequence[Head], case: Case) -> dict[Head, Scored]:
    row, options = case.rows[0], plan.options
    places = [each.place for each in row.readings if each.place is not None]
    if not places:
        return {}
    query = len(row.ids) + min(places)
    if options.query is not None and row.look is not None:
        query = max(row.look.queries)
    asked = row.look.keys if options.key is not None and row.look is not None else ()
    keys = [key for key in asked if key <= query] or [*range(1, query + 1)] or [0]
    return scored(
        plan.loaded, row, heads, query, lambda head, weights_K: keys[falling(weights_K[keys])[0]]
    )


def _look(plan: Plan, head: Head, scored_N: Sequence[Scored]) -> LookRow:
    """Where a head looks in most prompts."""
    pairs = zip(plan.cases, scored_N, strict=True)
    words = Counter(_word(case, each.key, len(plan.cases) > 1) for case, each in pairs)
    ((word, number),) = words.most_common(1)
    above_N = np.array([each.score - each.mean for each in scored_N])
    weight, score = (
        float(np.mean([getattr(each, name) for each in scored_N])) for name in ("weight", "score")
    )
    return LookRow(str(head), word, number, weight, score, *plan.blocks.within(above_N))


def _word(case: Case, place: int, several: bool) -> str:
    """The word of a token; of one that the prompt repeats, also the number of its time."""
    number, words = case.text.word_of[place], [each.strip() for each in case.text.words]
    word = named_word(case.prompt, words[number], several)
    time = 1 + words[:number].count(words[number])
    return word if words.count(words[number]) == 1 else f"{word}{REPEATED}{ordinal(time)}"


def _reasons(plan: Plan, head: Head, scored_N: Sequence[Scored]) -> Iterator[ReasonRow]:
    """A row for each writer of a head's query and of its key, and for the largest pairs."""
    names = scored_N[0].writers
    by_query_NP, by_key_NP = (
        np.stack([each.terms(side) for each in scored_N]) for side in ("query", "key")
    )

    def row(query: str, key: str, value_N: Float[np.ndarray, " prompt"]) -> ReasonRow:
        return ReasonRow(str(head), query, key, *plan.blocks.within(value_N))

    for name, query_N, key_N in zip(names, by_query_NP.T, by_key_NP.T, strict=True):
        if query_N.any() or key_N.any():  # most models have no positions in their states
            yield row(name, "", query_N)
            yield row("", name, key_N)
    queries, keys = (falling(abs(each.mean(0)))[:PAIRED] for each in (by_query_NP, by_key_NP))
    for query, key in product(map(int, queries), map(int, keys)):
        yield row(names[query], names[key], np.array([e.pair(query, key) for e in scored_N]))
