"""Kept skills: what a smaller model can still do of what the dense one can, and heads to protect.

Both models get the same cases: repeated random tokens (`induction`: share of the tokens of the
second copy that are the likeliest), needles (`retrieval`: found or not), needles that are asked in
other words (`answers`: those that the dense model does not answer without the text), and few-shot
prompts (`function_vector`: of the tasks that the dense model does).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from headcount.core import Progress, check_known, silent, spread
from headcount.corpora import Corpus
from headcount.measures import RepeatedTokens, check_is_causal
from headcount.models import Loaded, Removal, last_logits, running
from headcount.results import SkillChange
from headcount.skills.answers import guessed, reply
from headcount.skills.function_vectors import Prompts, answer, read_tasks
from headcount.skills.indirect import indirect_needles
from headcount.skills.measuring import DONE, LENGTH, TEXTS
from headcount.skills.needles import Hay, Needles
from headcount.skills.options import SkillOptions
from headcount.skills.retrieval import retrieve
from headcount.skills.skill import SKILL_CLASSES, scored
from headcount.statistics import mean_interval, wilson_interval
from headcount.vocabulary import SKILLS

BRIEF = SkillOptions(needles=1)
"""Fewer needles than `headcount skills` asks for: 40 of each sort."""

LEAST = 0.1
"""Least share that the dense model has right of a skill that it can be asked for."""

Asking = Callable[[Loaded], Float[np.ndarray, " case"]]
"""How right a model is on each case."""


class _Asked(NamedTuple):
    """Cases of one skill, asked of any model with the dense model's vocabulary."""

    of: Asking
    given: Float[np.ndarray, " case"] | None = None
    """What the dense model gave, if it was asked to choose the cases."""


def kept_skills(
    dense: Loaded,
    smaller: Loaded,
    texts: Corpus,
    names: Sequence[str],
    options: SkillOptions = BRIEF,
    progress: Progress = silent,
) -> tuple[SkillChange, ...]:
    """How right the dense and a smaller model are on cases of some skills.

    Args:
        dense: the dense model, a causal language model.
        smaller: the smaller model, with the same tokenizer.
        texts: what needles are hidden in.
        names: the skills, of `ABILITIES`.
        options: which needles and tasks.
        progress: called with the number of skills asked.

    Returns:
        A row for each skill of which the dense model does a tenth or more.

    Raises:
        InputError: for a skill that is not among `ABILITIES`, or texts that are too short.
        ModelError: if the model is no causal language model, or takes too few tokens.
    """
    check_is_causal(dense)
    found = list[SkillChange]()
    for number, name in enumerate(names):
        check_known("a skill to ask for", name, ABILITIES)
        progress("skills", number, len(names))
        asked = ABILITIES[name](dense, texts, options)
        before_N = asked.of(dense) if asked.given is None else asked.given
        if len(before_N) and before_N.mean() >= LEAST:
            found.append(change_of(name, before_N, asked.of(smaller)))
    progress("skills", len(names), len(names))
    return (*found,)


def change_of(name: str, before_N: np.ndarray, after_N: np.ndarray) -> SkillChange:
    """The change of a mean over cases, with Student's 95 % interval of the paired difference.

    If no case differs, its ends are the largest share of cases that may: Wilson's of none.
    """
    low, mean, high = mean_interval(after_N - before_N).tolist()
    if low == high:
        reach = wilson_interval(0.0, len(before_N))[1]
        low, high = mean - reach, mean + reach
    means = float(before_N.mean()), float(after_N.mean())
    return SkillChange(name, len(before_N), *means, max(low, -1.0), min(high, 1.0))


def _induction(dense: Loaded, _: Corpus, options: SkillOptions) -> _Asked:
    tokens = RepeatedTokens.draw(dense, LENGTH, TEXTS, options.seed, options.first)
    repeated_BN, length = tokens.ids_BN[:TEXTS], tokens.length

    def asked(loaded: Loaded) -> Float[np.ndarray, " case"]:
        def of_text(ids_N: torch.Tensor) -> float:
            model: Any = loaded.model
            with running(loaded):
                ids_1N = ids_N[None].to(model.device)
                logits = model(input_ids=ids_1N, use_cache=False, **last_logits(model, length))
            likeliest_L = logits.logits[0, -length:-1].argmax(-1).cpu()
            return float((likeliest_L == ids_N[1 - length :]).double().mean())

        return np.array([*spread(of_text, [*repeated_BN], "repeated tokens")])

    return _Asked(asked)


def _needles(dense: Loaded, texts: Corpus, options: SkillOptions) -> _Asked:
    needles = Needles(dense, [each.text for each in texts], options).all

    def asked(loaded: Loaded) -> Float[np.ndarray, " case"]:
        return retrieve(loaded, needles, Removal(loaded, ())).found_N.astype(float)

    return _Asked(asked)


def _answers(dense: Loaded, texts: Corpus, options: SkillOptions) -> _Asked:
    hay = Hay(dense, [each.text for each in texts], options.chat, options.template)
    needles = [*indirect_needles(hay, options)]
    is_guessed = guessed(dense, needles)
    needles = [each for each, known in zip(needles, is_guessed, strict=True) if not known]

    def asked(loaded: Loaded) -> Float[np.ndarray, " case"]:
        replies = zip(reply(loaded, needles), needles, strict=True)
        return np.array([float(each.likeliest == needle.answer) for each, needle in replies])

    return _Asked(asked)


def _function_vector(dense: Loaded, _: Corpus, options: SkillOptions) -> _Asked:
    prompts, num = Prompts(dense, read_tasks(options.tasks), options).all, options.prompts
    right_TN = answer(dense, prompts).right_N.reshape(-1, num)
    is_done_N = (right_TN.mean(1) > DONE).repeat(num)
    done = [each for each, is_done in zip(prompts, is_done_N, strict=True) if is_done]

    def asked(loaded: Loaded) -> Float[np.ndarray, " case"]:
        return answer(loaded, done).right_N.astype(float)

    return _Asked(asked, right_TN.flatten()[is_done_N].astype(float))


ABILITIES: Mapping[str, Callable[[Loaded, Corpus, SkillOptions], _Asked]] = {
    "induction": _induction,
    "retrieval": _needles,
    "answers": _answers,
    "function_vector": _function_vector,
}
"""Skills that models can be asked for, by the names of the heads' skills."""


def heads_with(
    loaded: Loaded,
    texts: Corpus,
    names: Sequence[str],
    options: SkillOptions = BRIEF,
    progress: Progress = silent,
) -> dict[str, list[str]]:
    """The heads that have some skills, each at its least score: head name to names of skills.

    Args:
        loaded: a causal language model.
        texts: what needles are hidden in.
        names: names of skills.
        options: which needles and tasks.
        progress: called with the number of skills measured.

    Raises:
        UnsuitedError: if the model does too few cases of a skill for a score.
    """
    found = {str(head): list[str]() for head in loaded.heads}
    for number, name in enumerate(names):
        progress("heads with skills", number, len(names))
        kind: Any = SKILL_CLASSES[name]
        skill = kind(options) if name in SKILLS else kind()
        score_H = scored(skill, loaded, texts, options.seed).mean(0)
        for head, score in zip(loaded.heads, score_H.tolist(), strict=True):
            found[str(head)] += [name] if score >= kind.entry().least else []
    progress("heads with skills", len(names), len(names))
    return found
