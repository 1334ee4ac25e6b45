r"""Positions: what the best heads do at one token alone.

$$\mathrm{effect}_{h,t} = m - m(o_{h,t} \leftarrow o'_{h,t})$$

with m and o as in runs.py: the head is replaced at one token, and what it gives at all others is as
it was. Tokens are counted from the end of the prompt, where predictions are made, so that those of
several prompts are at the same place; each prompt has as many as the shortest.

Reference: Locating and Editing Factual Associations in GPT (Meng et al., 2022), section 2,
    https://arxiv.org/abs/2202.05262
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from headcount.core import Head, InputError, Progress
from headcount.explanation.changes import At, Change
from headcount.explanation.effects import Replacement
from headcount.explanation.plan import Plan
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.prompts import named_word
from headcount.explanation.result import Explained, PositionRow
from headcount.explanation.runs import Case
from headcount.explanation.singles import Singles

HEADS = 10
"""Number of the best heads that are replaced at each token."""


def with_positions(found: Explained, singles: Singles, progress: Progress) -> Explained:
    """Add a row for each of the best heads, each token, and each effect that replaces outputs.

    Raises:
        InputError: for an encoder-decoder, or targets that need several masks.
    """
    plan = singles.plan
    effects = [each for each in plan.replacements if not each.into_second]
    effects = [each for each in effects if "looks" not in each.needs]
    if not plan.options.each_position or not effects:
        return found
    for case in plan.cases:
        if any(row.ids[: len(case.text.ids)] != case.text.ids for row in case.rows) or any(
            row.decoder_ids is not None for row in case.rows
        ):
            raise InputError(
                f"{case.prompt.origin}: expected a prompt that is read as it is for "
                "--each-position, got an encoder-decoder's, or one with several masks. Leave it "
                "out."
            )
    num = min(len(case.text.ids) for case in plan.cases)
    heads = singles.best(HEADS)
    lost = plan.measured(
        lambda n, runs: _of_prompt(plan.cases[n], effects, heads, num, runs),
        "each position",
        progress,
    )
    return replace(found, positions=tuple(_rows(plan, effects, heads, np.stack(lost))))


def _of_prompt(
    case: Case, effects: Sequence[Replacement], heads: Sequence[Head], num: int, runs: PromptRuns
) -> Float[np.ndarray, "effect head token"]:
    first = len(case.text.ids) - num
    places = range(first, first + num)
    lost = list[Float[np.ndarray, " change"]]()
    for effect in effects:
        left_C = np.zeros(len(heads) * num)
        for number, run in enumerate(runs.clean):
            outputs = effect.given(runs, number)
            left_C += run.values(
                [
                    Change([head], outputs, At((head.site,), (place,)))
                    for head in heads
                    for place in places
                ]
            )
        lost.append(runs.value - left_C)
    return np.stack(lost).reshape(len(effects), len(heads), num)


def _rows(
    plan: Plan,
    effects: Sequence[Replacement],
    heads: Sequence[Head],
    lost_NEHT: Float[np.ndarray, "prompt effect head token"],
) -> Iterator[PositionRow]:
    num = lost_NEHT.shape[-1]
    tokens = [_token(plan.cases, place - num) for place in range(num)]
    interval_3EHT = plan.blocks.interval(lost_NEHT)
    for number, effect in enumerate(effects):
        for which, head in enumerate(heads):
            for place, ends in enumerate(interval_3EHT[:, number, which].T.tolist()):
                yield PositionRow(str(head), effect.name, place - num, tokens[place], *ends)


def _token(cases: Sequence[Case], place: int) -> str:
    """The word of a token in more than half of the prompts; empty if they differ."""
    words = Counter(
        named_word(each.prompt, each.text.words[each.text.word_of[place]], len(cases) > 1)
        for each in cases
    )
    ((word, number),) = words.most_common(1)
    return word if 2 * number > len(cases) else ""
