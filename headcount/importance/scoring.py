"""Scoring: the heads of a model by a score, which may be a plug-in's, guarded and checked."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headcount.core import (
    OURS,
    PLACE,
    REPAIR,
    SITES,
    Heads,
    InputError,
    LayerId,
    Origin,
    PluginError,
    amount,
    guarded,
)
from headcount.importance.gradients import Scores
from headcount.importance.options import COLUMNS, SCORES, Options, score_of
from headcount.importance.score import Measured, Score, ScoringContext
from headcount.measures import MEASURED
from headcount.models import Loaded, unchanged
from headcount.tasks import Task


def chosen(options: Options, methods: Sequence[str | type[Score] | Score] | None) -> list[Score]:
    """The scores of an assessment, our own first, in their order.

    Args:
        options: What is scored by default, and the options of our own scores.
        methods: Scores, or names of scores, in place of those of the options.

    Raises:
        InputError: If there is no such score, or it is no score.
    """
    found = []
    for each in options.methods if methods is None else methods:
        if isinstance(each, str):
            found.append(score_of(each, options))
        else:
            SCORES.find(each if isinstance(each, type) else type(each))
            found.append(each() if isinstance(each, type) else each)
    names = [each.name for each in found]
    for each in found:
        if names.count(each.name) > 1 or (each.name in SCORES.own and SCORES.origin(each) != OURS):
            raise InputError(
                f"Expected scores of different names, got {each.name} twice. Rename one of them."
            )
    places = {name: place for place, name in enumerate(SCORES.own)}
    return sorted(found, key=lambda each: places.get(each.name, len(places)))


def measured(score: Score, loaded: Loaded, task: Task, context: ScoringContext) -> Measured:
    """What a score measures; of a plug-in's, the numbers are checked and the model is watched.

    Raises:
        PluginError: If a plug-in fails, or returns anything but a number for every head.
        ChangedModelError: If it changes the model.
    """
    origin = SCORES.origin(score)
    if origin == OURS:
        return score.measured(loaded, task, context)
    _check_words(score, origin)
    with unchanged(loaded, origin), guarded(origin, f"score heads by {score.name}"):
        found = score.measured(loaded, task, context)
        columns, unknown = dict[str, Scores](), 0
        for each in score.columns():
            columns[each.key] = _numbers(
                found.columns.get(each.key), each.key, loaded.heads, origin
            )
            unknown += sum(int(numbers.isnan().sum()) for numbers in columns[each.key].values())
    few = [f"the plug-in {origin} has no number (NaN) in {amount(unknown, 'case')} of {score.name}"]
    return Measured(columns, warnings=(*found.warnings, *few[: bool(unknown)]))


def scores(score: Score, loaded: Loaded, task: Task, max_tokens: int) -> Scores:
    """The score of every head alone, as `measured` measures it.

    Raises:
        PluginError: If a plug-in fails.
    """
    if SCORES.origin(score) == OURS:
        return score.of(loaded, task, max_tokens)
    return measured(score, loaded, task, ScoringContext(max_tokens)).columns[score.column.key]


def _check_words(score: Score, origin: Origin) -> None:
    """Check that a plug-in's score has words, and columns of its own.

    Raises:
        PluginError: If it does not.
    """
    if lacking := [each for each in ("column", "definition") if not getattr(score, each, None)]:
        raise PluginError(
            f"Expected words of the score {score.name} of the plug-in {origin}, got no "
            f"{' and no '.join(lacking)}. Say in them what the numbers mean."
        )
    taken = {*PLACE, *COLUMNS, *MEASURED, "roles"}
    if clash := [each.key for each in score.columns() if each.key in taken]:
        raise PluginError(
            f"Expected new columns of the score {score.name} of the plug-in {origin}, got "
            f"{clash[0]}, which headcount has. Choose another name."
        )


def _numbers(scores: object, key: str, heads: Heads, origin: Origin) -> Scores:
    """A plug-in's numbers as ours are: one of every head, by layer, in float64 on the CPU.

    Raises:
        PluginError: If some are missing, are too many, or are no numbers.
    """
    sizes = Counter(head.layer_id for head in heads)
    wrong, found = "", dict[LayerId, Tensor]()
    if not isinstance(scores, Mapping):
        wrong = f"got {type(scores).__name__}"
    elif unknown := [place for place in scores if place not in sizes]:
        wrong = f"got numbers of {_named(unknown[0])}, which the model lacks"
    else:
        for place, size in sizes.items():
            each = torch.as_tensor(scores.get(place, ())).detach().cpu()
            if each.shape != (size,) or each.is_complex() or each.dtype == torch.bool:
                kind = str(each.dtype).removeprefix("torch.")
                wrong = f"got {kind} of shape {tuple(each.shape)} for {_named(place)}"
                break
            found[place] = each.double()
    if wrong:
        raise PluginError(
            f"Expected {key} of the plug-in {origin} as a number of each head, in a tensor for "
            f"each (site, layer), {wrong}. {REPAIR}"
        )
    return found


def _named(place: object) -> str:
    """A layer as it is named: `enc.3`; anything else as it is written."""
    if isinstance(place, tuple) and len(place) == 2 and place[0] in SITES:
        return f"{SITES[place[0]]}.{place[1]}"
    return repr(place)
