"""Scores of every head on a task, by every requested method; those of plug-ins are checked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    OURS,
    PLACE,
    REPAIR,
    ChangedModelError,
    Heads,
    HeadTable,
    InputError,
    Kept,
    LayerId,
    Origin,
    PluginError,
    Progress,
    UnsuitedError,
    guarded,
    layer_name,
    no_number,
    options_of,
    signed_origins,
    silent,
)
from headcount.importance.folder import (
    MEASURED_SCORES,
    Assessment,
    check_same_measurement,
    read_assessment,
    scored_table,
)
from headcount.importance.gradients import Scores
from headcount.importance.options import COLUMNS, SCORE_COLUMNS, SCORES, Options, score_of
from headcount.importance.score import Measured, Score, ScoringContext
from headcount.importance.score_agreement import across, agreement
from headcount.measures import MEASURED
from headcount.models import (
    Loaded,
    as_loaded,
    check_has_heads,
    check_passes_gradients,
    revision,
    signature,
    unchanged,
)
from headcount.results import ColumnWords, ImportanceRecord, Signature, check_same_model
from headcount.tasks import Evaluation, Task, check_examples_fit, evaluate

DENSE = "dense model"
"""Stage in which the dense model runs, before any score is measured."""


def assess(
    loaded: Loaded | PreTrainedModel,
    task: Task,
    options: Options | None = None,
    out: Path | None = None,
    progress: Progress = silent,
    max_tokens: int = MAX_TOKENS,
    against: Path | None = None,
    methods: Sequence[str | type[Score] | Score] | None = None,
) -> Assessment:
    """Score every head on a task by every requested method.

    Args:
        loaded: Model to score.
        task: Task that defines quality.
        options: Methods and their options.
        out: Folder of the run; ablations save their progress in `out/state` and resume from there.
            If an analysis of the model lies there, its measures are compared with the scores.
        progress: Callback for the progress of each stage.
        max_tokens: Number of padded tokens in a batch.
        against: Folder of an assessment by ablation on other data, to compare effects with.
        methods: Scores to compute in place of those of the options: names, or scores of your own.

    Raises:
        InputError: If one of the folders is of another model, or `against` holds no ablations, or
            ones that were measured in another way.
        ModelError: If a loss is not finite, no head is left, or a method lacks gradients.
    """
    loaded = as_loaded(loaded)
    check_has_heads(loaded)
    check_examples_fit(loaded, task, max_tokens)
    options = options or Options()
    if out is not None:
        check_same_model(out, loaded.heads, revision(loaded.model))
    open_parts = () if against is None else check_against(against, loaded, task, options)
    compared = None if against is None else read_assessment(against, "ablation")
    scores = chosen(options, methods)
    if any(each.needs_gradients for each in scores):
        check_passes_gradients(loaded.model)
    context = ScoringContext(max_tokens, progress, out and out / "state")
    found = _Assessing(loaded, task, scores, options, context).run()
    is_own = {*found.record.methods} - {*SCORES.own}
    own = [each.column.key for each in scores if each.name in is_own]
    heads = found.heads if out is None else scored_table(found.heads, found.columns, out)
    record = replace(
        found.record,
        agreement=agreement(heads.frame, scores=[*SCORE_COLUMNS, *own]),
        across=compared and across(heads.frame, compared.heads.frame, compared.record),
        warnings=(*found.record.warnings, *open_parts),
    )
    return Assessment(record, heads)


def check_against(folder: Path, loaded: Loaded, task: Task, options: Options) -> tuple[str, ...]:
    """Check that a folder holds ablations that those of a model on a task can be compared with.

    Returns:
        A sentence for each part of the signatures that is not known to be the same.

    Raises:
        InputError: If it holds no ablations, or they were measured in another way.
    """
    quantity = "loss" if options.quantity == "loss" else task.metric
    signed = Signature.parse(signature(loaded, task.sha256, **task.signed_options))
    return check_same_measurement(folder, task.name, quantity, options.instead, signed)


@final
class _Assessing:
    """The steps of one assessment, and their shared values."""

    def __init__(
        self,
        loaded: Loaded,
        task: Task,
        scores: Sequence[Score],
        options: Options,
        context: ScoringContext,
    ) -> None:
        self.loaded, self.task, self.scores, self.options = loaded, task, scores, options
        self.context = context
        key = self._signed(())  # a plug-in that was repaired resumes what others measured
        self.context = replace(context, key=key, dense=lambda: self.base)

    def run(self) -> Assessment:
        """Measure every score in order; one that fails or does not suit leaves the others alone."""
        record, columns, seconds = self._about(), dict[str, np.ndarray](), dict[str, float]()
        failed: InputError | None = None
        file = self.context.state and self.context.state / MEASURED_SCORES
        done = Kept(file, self.context.key, "the scores of an interrupted run", _Part)
        for number, each in enumerate(self.scores, start=1):
            name = " ".join([each.name, *options_of(each), str(SCORES.origin(each))])
            try:
                found = done.once(name, partial(self._part, each))
            except ChangedModelError as error:
                failed = failed or error
                told = error.sentences(left.name for left in self.scores[number:])
                record = replace(record, warnings=(*record.warnings, *told))
                break
            except (PluginError, UnsuitedError) as error:
                failed = failed or error
                record = replace(record, warnings=(*record.warnings, str(error)))
                continue
            columns |= {key: np.frombuffer(each) for key, each in found.columns.items()}
            record = replace(
                record,
                methods=(*record.methods, each.name),
                columns={**record.columns, **_words(each)},
                warnings=(*record.warnings, *found.record.warnings),
                **{fact: getattr(found.record, fact) for fact in found.facts},
            )
            seconds[each.name] = done.seconds[name]
        if failed is not None and not record.methods:
            raise failed
        record = replace(record, seconds=seconds)
        return Assessment(record, HeadTable.of(self.loaded.heads, columns))

    def _part(self, score: Score) -> "_Part":
        """What one score measures."""
        found, heads = measured(score, self.loaded, self.task, self.context), self.loaded.heads
        about = ImportanceRecord(task="", num_examples=0, warnings=found.warnings)
        return _Part(
            {key: column(each, heads).tobytes() for key, each in found.columns.items()},
            tuple(found.facts),
            replace(about, **found.facts),
        )

    @cached_property
    def base(self) -> Evaluation:
        """The evaluation of the dense model, including its translations."""
        watched = self.context.watched(self.task, DENSE)
        return evaluate(self.loaded.model, watched, self.context.max_tokens, texts=True)

    def _about(self) -> ImportanceRecord:
        task = self.task
        return ImportanceRecord(
            task=task.name,
            metric=task.metric,
            higher_is_better=task.higher_is_better,
            num_examples=task.num_examples,
            loss=self.base.loss,
            score=task.score(self.base),
            signature=self.signature,
            warnings=tuple(task.warnings()),
        )

    @property
    def signature(self) -> str:
        """The signature of the assessment."""
        return self._signed([each for each in self.scores if each.name not in SCORES.own])

    def _signed(self, own: Sequence[Score]) -> str:
        """The signature with some plug-ins' scores: ours sign their options even unmeasured."""
        chosen = {each.name: each for each in self.scores}
        ours = [chosen.get(name) or score_of(name, self.options) for name in SCORES.own]
        signed = (each.signed(self.context.max_tokens) for each in (*ours, *own))
        return signature(
            self.loaded,
            self.task.sha256,
            task=self.task.name,
            n=self.task.num_examples,
            metric=self.task.signature,
            **dict(chain.from_iterable(each.items() for each in signed)),
            plugins=signed_origins(map(SCORES.origin, own)),
        )


@final
@dataclass(frozen=True)
class _Part:
    """What one score measured, as the state of the assessment keeps it."""

    columns: Mapping[str, bytes]
    """Numbers of the heads in order, in float64, which JSON's would round to null if infinite."""
    facts: tuple[str, ...]
    """Fields of the record that it fills."""
    record: ImportanceRecord
    """Those fields, and the warnings."""


def _words(score: Score) -> dict[str, ColumnWords]:
    """What the columns of a plug-in's score say, by name; nothing of ours."""
    own = score.name in SCORES.own
    return {} if own else {each.key: ColumnWords.of(each) for each in score.columns()}


def column(scores: Scores, heads: Heads) -> Float[np.ndarray, " row"]:
    """The scores in the order of `heads`, as a column of the head table."""
    return np.array([float(scores[head.layer_id][head.index]) for head in heads])


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
        columns, unknown = dict[str, Scores](), list[str]()
        for each in score.columns():
            columns[each.key] = _numbers(
                found.columns.get(each.key), each.key, loaded.heads, origin
            )
            of_layers = columns[each.key].values()
            if num := sum(int(numbers.isnan().sum()) for numbers in of_layers):
                unknown.append(no_number(each.key, origin, num, len(loaded.heads)))
    return Measured(columns, warnings=(*found.warnings, *unknown))


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
        wrong = f"got numbers of {layer_name(unknown[0])}, which the model lacks"
    else:
        for place, size in sizes.items():
            each = torch.as_tensor(scores.get(place, ())).detach().cpu()
            if each.shape != (size,) or each.is_complex() or each.dtype == torch.bool:
                kind = str(each.dtype).removeprefix("torch.")
                wrong = f"got {kind} of shape {tuple(each.shape)} for {layer_name(place)}"
                break
            found[place] = each.double()
    if wrong:
        raise PluginError(
            f"Expected {key} of the plug-in {origin} as a number of each head, in a tensor for "
            f"each (site, layer), {wrong}. {REPAIR}"
        )
    return found
