"""Table 2 of Analyzing Multi-Head Self-Attention: kept heads, from trained and from scratch.

Gates choose heads while the trained model keeps learning, as in the paper; then a model of the same
architecture with new weights and only these heads is trained. If the second is worse, pruning found
more than an architecture.

Reference: Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can
Be Pruned (Voita et al., 2019), section 6, table 2, https://arxiv.org/abs/1905.09418
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, final

from headcount.core import Document, InputError, Plan, Table, Text, amount, short_hash
from headcount.models import random_copy, revision
from headcount.papers.document import change, in_unit, scale, score_column
from headcount.papers.pretraining.recipe import RECIPES
from headcount.papers.reproduce.experiment import PruningExperiment
from headcount.papers.reproduce.gate_densities import GateRecorder, with_densities
from headcount.pruning import (
    Keep,
    Method,
    PruningContext,
    Selection,
    Trial,
    Units,
    curve,
    recover,
    share,
    voita2019,
    with_options,
)
from headcount.results import Curve, CurvePoints
from headcount.training import FinetuneConfig, FineTuned, Optimization, check_finetuning

TRAINED, SCRATCH = "trained", "scratch"

SWEEP = 8
"""Largest number of penalties tried for a budget, as in the preset `voita2019`."""

FRESH = FinetuneConfig(
    **{each.name: getattr(RECIPES["small"], each.name) for each in fields(Optimization)}
)
"""Default training of new weights, that of `headcount train`."""

Published = tuple[tuple[int, int, int], float, float | None]
"""Heads of encoder, decoder, and decoder to encoder; BLEU from trained and from scratch."""

WMT: Sequence[Published] = (
    ((48, 48, 48), 29.6, None),
    ((14, 31, 30), 29.62, 29.47),
    ((12, 21, 25), 29.36, 28.95),
    ((8, 13, 15), 29.06, 28.56),
    ((5, 9, 12), 28.90, 28.41),
)
SUBTITLES: Sequence[Published] = (
    ((48, 48, 48), 32.4, None),
    ((27, 31, 46), 32.24, 32.23),
    ((13, 17, 31), 32.23, 31.98),
    ((6, 9, 13), 32.27, 31.84),
)
"""Table 2: EN-RU on WMT and on OpenSubtitles."""


def reproduce_voita2019_table2(
    experiment: PruningExperiment,
    keeps: Sequence[int] = (),
    tune: Mapping[str, Any] | None = None,
    scratch: Mapping[str, Any] | None = None,
    sweep: int = SWEEP,
) -> Document:
    """Prune with gates, train the kept heads from scratch, and return the document.

    Args:
        experiment: the model, its data and the folder.
        keeps: numbers of kept heads over all sites; the paper's shares by default.
        tune: fields of the training with gates, e.g. `{"updates": 2000}`.
        scratch: fields of the training from scratch, with their values.
        sweep: as in `table2_trainings`.

    Raises:
        InputError: if a budget can't be met or a training is impossible.
    """
    method, fresh = table2_trainings(experiment.splits.train.name, tune, scratch, sweep)
    keeps = keeps or paper_keeps(experiment.units)
    recorder = GateRecorder(method, TRAINED)
    points = table2(experiment.trial, recorder, keeps, fresh, experiment.signature(repr(method)))
    signature = experiment.signature(f"{method!r};{fresh!r}")
    found = experiment.write(points, {TRAINED: method}, signature)
    document = table2_document(found, experiment.splits.dev.higher_is_better, fresh)
    return with_densities(document, recorder, experiment, points)


def table2_trainings(
    task: str,
    tune: Mapping[str, Any] | None = None,
    scratch: Mapping[str, Any] | None = None,
    sweep: int = SWEEP,
) -> tuple[Method, FinetuneConfig]:
    """The paper's method and the training from scratch, for a task.

    Args:
        task: name of the task.
        tune: fields of the training with gates, with their values.
        scratch: fields of the training from scratch, with their values.
        sweep: largest number of penalties tried for a budget, each in a training of its own; 0 for
            one training for each budget, whose penalty grows until the budget is met.

    Raises:
        InputError: if a value is invalid.
    """
    options = voita2019((), task)
    tuning = replace(options.tuning, **(tune or {}))
    method = with_options(replace(options, sweep=sweep, tuning=tuning))
    fresh = replace(FRESH, label_smoothing=0.0) if task == "similarity" else FRESH
    return method, replace(fresh, **(scratch or {}))


def paper_keeps(units: Units) -> list[int]:
    """Numbers of kept heads with the same shares as in the paper's WMT rows."""
    return [share(units, sum(heads) / 144) for heads, _, _ in WMT[1:]]


@final
@dataclass(frozen=True, eq=False)
class FromScratch(Method):
    """Training new weights with only the heads that another method kept."""

    plans: Mapping[int, Plan]
    """The other method's plans, by number of kept heads."""
    tuning: FinetuneConfig
    """Training of the new weights."""
    name: ClassVar[str] = SCRATCH

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Train from scratch with the heads of the plan that keeps `keep` heads."""
        assert isinstance(keep, int)
        state = context.state and context.state / str(keep)
        tuned = from_scratch(replace(context, state=state), self.plans[keep], self.tuning)
        plan = replace(self.plans[keep], model=revision(tuned.loaded.model))
        return Selection(plan, tuned.loaded, history=tuple(tuned.history))


def from_scratch(context: PruningContext, plan: Plan, tuning: FinetuneConfig) -> FineTuned:
    """Train a model of the same architecture with new weights and only the kept heads.

    Raises:
        InputError: if the training is impossible, or would not be from scratch.
    """
    check_not_from_scratch(context, tuning)
    loaded = context.loaded
    fresh = replace(loaded, model=random_copy(loaded.model, context.seed))
    return recover(context, fresh, plan, tuning)


def check_not_from_scratch(context: PruningContext, tuning: FinetuneConfig) -> None:
    """Check that new weights can be trained with these settings.

    Raises:
        InputError: for a teacher, fixed weights, or settings that the task can't be trained with.
    """
    if tuning.is_taught:
        raise InputError(
            "Training from scratch has no teacher. Expected distilled and layerwise of 0, got "
            f"{tuning.distilled} and {tuning.layerwise}. Set both to 0."
        )
    if tuning.trained != "all":
        raise InputError(
            "Training from scratch trains all weights. Expected trained=all, got "
            f"{tuning.trained}. Set it to all."
        )
    check_finetuning(context.loaded, context.train, tuning)


def table2(
    trial: Trial, method: Method, keeps: Sequence[int], scratch: FinetuneConfig, key: str = ""
) -> CurvePoints:
    """The points of both columns, methods `trained` and `scratch`; the latter has all heads too.

    Args:
        trial: model and data; its state folder keeps the work of an interrupted run.
        method: method that chooses heads and trains the model.
        keeps: numbers of kept heads, over all sites.
        scratch: training of the new weights.
        key: the settings that existing points of the method must have been made with.

    Raises:
        InputError: if a budget can't be met or a training is impossible.
    """
    seeds, heads = [trial.context.seed], trial.context.units.heads
    if len(heads) in keeps:
        raise InputError(
            f"Expected to keep fewer than all {amount(len(heads), 'head')}, got {len(heads)}. Give "
            "smaller budgets."
        )
    # Before hours of training with gates.
    check_not_from_scratch(trial.context, scratch)
    first = curve(trial, {TRAINED: method}, keeps, seeds, key)
    plans = {
        point.keep: Plan.keeping(heads, point.heads)
        for point in first.points
        if not point.is_control
    }
    # Another training from scratch does not change the method's results.
    own = f"from-scratch-{short_hash(repr(scratch), 8)}"
    again = replace(trial.context, state=trial.context.state and trial.context.state / own)
    ways, key = {SCRATCH: FromScratch(plans, scratch)}, f"{key};{scratch!r}"
    fresh = replace(trial, context=again, controls=False)
    second = curve(fresh, ways, [*plans], seeds, key, with_dense=False)
    return CurvePoints((*first.points, *second.points))


def table2_document(found: Curve, higher_is_better: bool, scratch: FinetuneConfig) -> Document:
    """The document: our numbers beside the published ones."""
    points, metric = found.points, found.record.metric
    column, rows, times = score_column(points), [], scale(metric)
    unit = in_unit(metric, higher_is_better)
    both = (points.first_seed(TRAINED), points.first_seed(SCRATCH))
    for trained, fresh in reversed(list(zip(*both, strict=True))):
        assert trained.keep == fresh.keep
        kept = "/".join(map(str, trained.kept.values()))
        ours, new = (times * each.numbers[column] for each in (trained, fresh))
        rows.append([kept, str(trained.keep), f"{ours:.2f}", f"{new:.2f}", change(new - ours)])
    names = "/".join(points.dense.kept)
    header = [f"heads ({names})", "total", "from trained", "from scratch", "difference"]
    published = [*_published("WMT", WMT), *_published("OpenSubtitles", SUBTITLES)]
    return Document(
        "Kept heads: from trained and from scratch (Voita et al., 2019, table 2)",
        (
            Text(
                f"{unit}; {column} of curve.parquet. From scratch: "
                f"{amount(scratch.updates, 'update')} of "
                f"{amount(scratch.batch_tokens * scratch.accumulate, 'token')}; the first row has "
                "all heads, so it shows what that training reaches. The trained model is the given "
                "one in the first row, and was trained further with gates in the others."
            ),
            Table.of(header, rows, "Scores by budget"),
            *(
                Text(
                    "All heads trained for as many updates, without gates: "
                    f"{times * each.numbers[column]:.2f}."
                )
                for each in points.controls.values()
            ),
            Text(
                "Published, Transformer-base EN-RU, BLEU on lower-cased tokens: compare "
                "differences."
            ),
            Table.of(["", *header], published, "Published scores by budget"),
        ),
    ).ending((), found.record.signature)


def _published(corpus: str, rows: Sequence[Published]) -> list[list[str]]:
    return [
        [
            corpus,
            "/".join(map(str, heads)),
            str(sum(heads)),
            f"{trained:.2f}",
            *(("–", "–") if scratch is None else (f"{scratch:.2f}", change(scratch - trained))),
        ]
        for heads, trained, scratch in rows
    ]
