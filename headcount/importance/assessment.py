"""Assessment: scores of every head on a task by every requested method."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import final

import numpy as np

from headcount.core import Heads, InputError, LayerId, Progress, silent
from headcount.importance.ablations.measured import (
    all_but_one,
    replacement,
    single_heads,
    whole_layers,
    whole_sites,
)
from headcount.importance.ablations.sweep import Swept, sweep
from headcount.importance.ablations.translations import ablated_texts
from headcount.importance.claiming import SWEEP
from headcount.importance.gate_gradient import gradient
from headcount.importance.lrp.relevance import relevance
from headcount.importance.norm_and_sink import norm, sink
from headcount.importance.options import METHODS, Methods
from headcount.importance.scores import Scores, column
from headcount.importance.statistics.significance import (
    Deltas,
    enough_samples,
    holm,
    loss_deltas,
    score_deltas,
)
from headcount.models import Loaded, check_has_heads, signature
from headcount.results import AblationFacts, Effect, ImportanceRecord, SiteEffect
from headcount.tap import Replacement
from headcount.tasks import Evaluation, Task, evaluate


@final
@dataclass(frozen=True, eq=False)
class Assessment:
    """The results of an assessment."""

    columns: Mapping[str, np.ndarray]
    """Columns of the head table, in the order of the heads."""
    record: ImportanceRecord
    """Contents of `importance.json`, without the agreement."""


def assess(
    loaded: Loaded,
    task: Task,
    methods: Methods | None = None,
    out: Path | None = None,
    progress: Progress = silent,
) -> Assessment:
    """Score every head on a task by every requested method.

    Args:
        loaded: Model to score.
        task: Task that defines quality.
        methods: Methods and their options.
        out: Folder of the run; ablations save their progress in `out/state` and resume from there.
        progress: Callback for the progress of each stage.

    Raises:
        InputError: If a method is unknown.
        ModelError: If a loss is not a finite number, or the model has no heads left.
    """
    check_has_heads(loaded)
    methods = methods or Methods()
    unknown = [name for name in methods.names if name not in METHODS]
    if unknown:
        raise InputError(f"Expected methods out of {', '.join(METHODS)}, got {', '.join(unknown)}.")
    return _Assessing(loaded, task, methods, out, progress).run()


@final
class _Assessing:
    """The steps of one assessment, and their shared values."""

    def __init__(
        self, loaded: Loaded, task: Task, methods: Methods, out: Path | None, progress: Progress
    ) -> None:
        self.loaded, self.task, self.methods = loaded, task, methods
        self.out, self.progress = out, progress
        self.columns: dict[str, np.ndarray] = {}
        self.seconds: dict[str, float] = {}

    @property
    def heads(self) -> Heads:
        return self.loaded.heads

    def run(self) -> Assessment:
        """Run every method in order."""
        record = self._about()
        for name in record.methods:
            start = perf_counter()
            self.progress(name, 0, 1)
            if name == "ablation":
                record = self._ablation(record)
            else:
                column_of = {"norm": "norm_score", "sink": "sink_score"}.get(name, name)
                self.columns[column_of] = column(self._scores(name), self.heads)
            self.progress(name, 1, 1)
            self.seconds[name] = round(perf_counter() - start, 2)
        return Assessment(self.columns, replace(record, seconds=self.seconds))

    @cached_property
    def base(self) -> Evaluation:
        """The evaluation of the dense model, including its translations."""
        return evaluate(self.loaded.model, self.task, self.methods.max_tokens, texts=True)

    @cached_property
    def stand_in(self) -> Replacement | None:
        """Replacement for an ablated head's output."""
        loaded, methods = self.loaded, self.methods
        return replacement(
            methods.instead, loaded.model, self.task, loaded.anatomy, methods.max_tokens
        )

    def _about(self) -> ImportanceRecord:
        task, methods = self.task, self.methods
        return ImportanceRecord(
            task=task.name,
            metric=task.metric,
            higher_is_better=task.higher_is_better,
            num_examples=task.num_examples,
            loss=self.base.loss,
            score=task.score(self.base),
            methods=tuple(name for name in METHODS if name in methods.names),
            signature=self.signature,
        )

    @property
    def signature(self) -> str:
        methods = self.methods
        return signature(
            self.loaded,
            self.task.sha256,
            task=self.task.name,
            n=self.task.num_examples,
            metric=self.task.signature,
            level=methods.level,
            batches=methods.max_tokens if methods.level == "batch" else None,
            normalise=methods.normalise,
            rules=methods.rules,
            instead=methods.instead,
            quantity=methods.quantity,
            samples=methods.num_samples,
            seed=methods.seed,
        )

    def _scores(self, name: str) -> Scores:
        model, task, methods = self.loaded.model, self.task, self.methods
        anatomy, max_tokens = self.loaded.anatomy, methods.max_tokens
        if name == "gradient":
            return gradient(model, task, methods.level, methods.normalise, anatomy, max_tokens)
        if name == "relevance":
            found = relevance(model, task, methods.rules, anatomy=anatomy, max_tokens=max_tokens)
            return found.scores
        return {"norm": norm, "sink": sink}[name](model, task, anatomy, max_tokens)

    def _ablation(self, record: ImportanceRecord) -> ImportanceRecord:
        """The record with the results of ablation; its columns are added to the others."""
        swept = self._sweep()
        num_heads = len(self.heads)
        deltas = self._deltas(swept, range(num_heads))
        self.columns |= {
            "ablation_delta": deltas.delta,
            "ablation_low": deltas.low,
            "ablation_high": deltas.high,
            "ablation_p": holm(deltas.p),
        }
        facts = AblationFacts(
            replacement=self.methods.instead,
            quantity=self.methods.quantity,
            p_each=tuple(deltas.p.tolist()),
        )
        record = replace(record, ablation=facts)
        rest = range(num_heads, len(swept.ablations))
        return self._with_groups(record, swept, rest) if rest else record

    def _sweep(self) -> Swept:
        loaded, methods = self.loaded, self.methods
        ablations = single_heads(self.heads)
        if methods.layers:
            ablations += whole_sites(self.heads) + whole_layers(self.heads)
        if methods.one_left:
            ablations += all_but_one(self.heads)
        return sweep(
            loaded.model,
            self.task,
            ablations,
            self.stand_in,
            loaded.anatomy,
            methods.max_tokens,
            self._state and self._state / SWEEP,
            self._sweep_key,
            lambda done, total: self.progress("ablation", done, total),
        )

    @property
    def _state(self) -> Path | None:
        """Folder of the unfinished run's state."""
        return self.out and self.out / "state"

    @property
    def _sweep_key(self) -> str:
        """Key that the state of the sweep must have been made with."""
        methods = self.methods
        return f"{self.signature}|layers:{methods.layers}|one_left:{methods.one_left}"

    def _deltas(self, swept: Swept, rows: range) -> Deltas:
        methods, base = self.methods, swept.base
        if methods.quantity == "loss":
            loss_AN = swept.loss_AN[rows.start : rows.stop]
            return loss_deltas(
                loss_AN, base.loss_N, base.count_N, methods.num_samples, methods.seed
            )
        without = [swept.evaluation(row) for row in rows]
        if not self.task.writes:
            return score_deltas(self.task, without, base, methods.num_samples or 1000, methods.seed)
        return self._of_texts(swept, rows)

    def _of_texts(self, swept: Swept, rows: range) -> Deltas:
        """Deltas of BLEU or chrF, with a beam search per ablation and sacreBLEU's p-values."""
        task, methods = self.task, self.methods
        base = replace(swept.base, outcome_N=self.base.outcome_N)
        without = ablated_texts(
            self.loaded,
            task,
            swept,
            rows,
            self.stand_in,
            self.methods.max_tokens,
            self._state,
            self._sweep_key,
            lambda done, total: self.progress("translating", done, total),
        )
        # sacreBLEU counts resamples, so its p is at least 1 / (samples + 1): low enough for Holm
        num_samples = methods.num_samples or enough_samples(len(without))
        return score_deltas(task, without, base, num_samples, methods.seed, "sacrebleu")

    def _with_groups(self, record: ImportanceRecord, swept: Swept, rows: range) -> ImportanceRecord:
        """The record with whole sites, whole layers, and every head alone in its layer."""
        deltas = self._deltas(swept, rows)
        sites: list[SiteEffect] = []
        effects: dict[str, list[Effect]] = {}
        for number, p in enumerate(map(float, holm(deltas.p))):
            ablation, found = swept.ablations[rows[number]], deltas[number]
            numbers = {
                "delta": found.delta,
                "low": found.low,
                "high": found.high,
                "p": p,
                "p_each": found.p,
            }
            site, layer = ablation.heads[0].site, ablation.heads[0].layer
            if ablation.kind == "site":
                sites.append(SiteEffect(site=site, **numbers))
                continue
            kept = "" if ablation.kept is None else str(ablation.kept)
            one = Effect(site=site, layer=layer, head=kept, **numbers)
            effects.setdefault(ablation.kind, []).append(one)
        all_but_one = tuple(effects.get("all_but_one", ()))
        return replace(
            record,
            sites=tuple(sites),
            layers=tuple(effects.get("layer", ())),
            all_but_one=all_but_one,
            single_heads=_best(all_but_one),
        )


def _best(alone: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """The best single head of each layer."""
    best: dict[LayerId, Effect] = {}
    for one in alone:
        place = one.layer_id
        if place not in best or one.delta < best[place].delta:
            best[place] = one
    return tuple(best.values())
