"""Scores of every head on a task, by every requested method."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    Heads,
    HeadTable,
    LayerId,
    Progress,
    silent,
)
from headcount.importance.ablation_sweep import AblationSetting, Swept, ablated_texts, sweep
from headcount.importance.ablations import (
    all_but_one,
    cross_fit,
    replacement,
    single_heads,
    whole_layers,
    whole_sites,
)
from headcount.importance.folder import (
    SWEEP,
    Assessment,
    check_same_measurement,
    read_assessment,
    scored_table,
)
from headcount.importance.gradients import Scores
from headcount.importance.options import ABLATION_COLUMNS, METHODS, SCORES, Options, score_of
from headcount.importance.score_agreement import across, agreement, score_deltas
from headcount.models import (
    Loaded,
    as_loaded,
    check_has_heads,
    check_passes_gradients,
    revision,
    signature,
)
from headcount.results import (
    AblationFacts,
    Effect,
    ImportanceRecord,
    Signature,
    SiteEffect,
    check_same_model,
)
from headcount.statistics import Deltas, few_examples, holm, loss_deltas
from headcount.tasks import Evaluation, Task, check_examples_fit, evaluate


def assess(
    loaded: Loaded | PreTrainedModel,
    task: Task,
    options: Options | None = None,
    out: Path | None = None,
    progress: Progress = silent,
    max_tokens: int = MAX_TOKENS,
    against: Path | None = None,
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
    if any(SCORES[name].needs_gradients for name in options.methods if name in SCORES):
        check_passes_gradients(loaded.model)
    found = _Assessing(loaded, task, options, out, progress, max_tokens).run()
    heads = found.heads if out is None else scored_table(found.heads, found.columns, out)
    record = replace(
        found.record,
        agreement=agreement(heads.frame),
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
        options: Options,
        out: Path | None,
        progress: Progress,
        max_tokens: int,
    ) -> None:
        self.loaded, self.task, self.options = loaded, task, options
        self.out, self.progress, self.max_tokens = out, progress, max_tokens
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
            if name == "ablation":
                record = self._ablation(record)
            else:
                one = score_of(name, self.options)
                found = one.measured(self.loaded, self._watched(name), self.max_tokens)
                self.columns |= {
                    key: column(each, self.heads) for key, each in found.columns.items()
                }
                if (facts := found.causal_gates) is not None:
                    few = few_examples(facts.num_held_out, "held-out example")
                    warned = (*record.warnings, *few)
                    record = replace(record, causal_gates=facts, warnings=warned)
            self.seconds[name] = round(perf_counter() - start, 2)
        record = replace(record, seconds=self.seconds)
        return Assessment(record, HeadTable.of(self.heads, self.columns))

    @cached_property
    def base(self) -> Evaluation:
        """The evaluation of the dense model, including its translations."""
        return evaluate(
            self.loaded.model, self._watched("dense model"), self.max_tokens, texts=True
        )

    def _watched(self, stage: str) -> Task:
        """The task, whose examples are reported as a stage while a model runs on them."""
        return self.task.watched(partial(self.progress, stage))

    @cached_property
    def setting(self) -> AblationSetting:
        """The setting in which heads are ablated."""
        setting = (self.loaded.model, self.task, self.loaded.anatomy)
        watched = (self.loaded.model, self._watched("mean outputs"), self.loaded.anatomy)
        stand_in = replacement(self.options.instead, *watched, self.max_tokens)
        return AblationSetting(*setting, stand_in, self.max_tokens)

    def _about(self) -> ImportanceRecord:
        task, options = self.task, self.options
        few = few_examples(task.num_examples) if "ablation" in options.methods else ()
        return ImportanceRecord(
            task=task.name,
            metric=task.metric,
            higher_is_better=task.higher_is_better,
            num_examples=task.num_examples,
            loss=self.base.loss,
            score=task.score(self.base),
            methods=tuple(name for name in METHODS if name in options.methods),
            signature=self.signature,
            average=options.average if "relevance" in options.methods else "",
            warnings=(*task.warnings(), *few),
        )

    @property
    def signature(self) -> str:
        options = self.options
        return signature(
            self.loaded,
            self.task.sha256,
            task=self.task.name,
            n=self.task.num_examples,
            metric=self.task.signature,
            **self._signed_scores(),
            instead=options.instead,
            quantity=options.quantity,
            test=options.score_test if options.quantity == "score" else None,
            samples=options.samples,
            seed=options.seed,
        )

    def _signed_scores(self) -> Mapping[str, object]:
        """The options of all scores, also of those that are not measured."""
        scores = [score_of(name, self.options) for name in SCORES]
        return dict(chain.from_iterable(each.signed(self.max_tokens).items() for each in scores))

    def _ablation(self, record: ImportanceRecord) -> ImportanceRecord:
        """The record with the results of ablation; its columns are added to the others."""
        swept = self._sweep()
        num_heads = len(self.heads)
        deltas = self._deltas(self._base(swept), self._evaluations(swept, range(num_heads)))
        numbers = (deltas.delta, deltas.low, deltas.high, holm(deltas.p))
        self.columns |= dict(zip(ABLATION_COLUMNS, numbers, strict=True))
        facts = AblationFacts(
            replacement=self.options.instead,
            quantity=self.options.quantity,
            test=self.options.score_test if self.options.quantity == "score" else "",
            p_each=tuple(deltas.p.tolist()),
        )
        record = replace(record, ablation=facts)
        rest = range(num_heads, len(swept.ablations))
        return self._with_groups(record, swept, rest) if rest else record

    def _sweep(self) -> Swept:
        options = self.options
        ablations = single_heads(self.heads)
        if options.layers:
            ablations += whole_sites(self.heads) + whole_layers(self.heads)
        if options.one_left:
            ablations += all_but_one(self.heads)
        return sweep(
            self.setting,
            ablations,
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
        options = self.options
        return f"{self.signature}|layers:{options.layers}|one_left:{options.one_left}"

    def _evaluations(self, swept: Swept, rows: range) -> list[Evaluation]:
        """The evaluations under some ablations, with translations if their score is measured."""
        if self.options.quantity == "loss" or not self.task.writes:
            return [swept.evaluation(row) for row in rows]
        return ablated_texts(
            self.setting,
            swept,
            rows,
            state=self._state,
            key=self._sweep_key,
            progress=lambda done, total: self.progress("translating", done, total),
        )

    def _base(self, swept: Swept) -> Evaluation:
        """The evaluation of the dense model in the sweep, with its translations if it writes."""
        return (
            replace(swept.base, outcome_N=self.base.outcome_N) if self.task.writes else swept.base
        )

    def _deltas(self, base: Evaluation, without: Sequence[Evaluation]) -> Deltas:
        """How much worse these evaluations are than the dense model's."""
        options = self.options
        if options.quantity == "loss":
            loss_AN = np.stack([each.loss_N for each in without])
            return loss_deltas(loss_AN, base.loss_N, base.count_N, options.samples, options.seed)
        return score_deltas(
            self.task,
            without,
            base,
            num_samples=options.samples,
            seed=options.seed,
            test=options.score_test,
        )

    def _measured(self, base: Evaluation, without: Sequence[Evaluation]) -> list[dict[str, Any]]:
        """Every effect's size, interval, corrected p-value, and the p-value of its test alone."""
        deltas = self._deltas(base, without)
        return [
            deltas[number]._asdict() | {"p": float(p), "p_each": deltas[number].p}
            for number, p in enumerate(holm(deltas.p))
        ]

    def _with_groups(self, record: ImportanceRecord, swept: Swept, rows: range) -> ImportanceRecord:
        """The record with whole sites, whole layers, and every head alone in its layer."""
        evaluations, base = self._evaluations(swept, rows), self._base(swept)
        sites: list[SiteEffect] = []
        effects: dict[str, list[Effect]] = {}
        groups: dict[LayerId, dict[str, Evaluation]] = {}
        measured = self._measured(base, evaluations)
        for row, each, found in zip(rows, evaluations, measured, strict=True):
            ablation = swept.ablations[row]
            site, layer = place = ablation.heads[0].layer_id
            if ablation.kind == "site":
                sites.append(SiteEffect(site=site, **found))
                continue
            kept = "" if ablation.kept is None else str(ablation.kept)
            one = Effect(site=site, layer=layer, head=kept, **found)
            effects.setdefault(ablation.kind, []).append(one)
            if ablation.kind == "all_but_one":
                groups.setdefault(place, {})[kept] = each
        return replace(
            record,
            sites=tuple(sites),
            layers=tuple(effects.get("layer", ())),
            all_but_one=tuple(effects.get("all_but_one", ())),
            single_heads=self._best_alone(base, groups),
        )

    def _best_alone(
        self, base: Evaluation, groups: Mapping[LayerId, Mapping[str, Evaluation]]
    ) -> tuple[Effect, ...]:
        """The best single head of each layer, measured on examples that did not choose it."""
        if not groups or self.task.num_examples < 2:
            return ()
        options = self.options
        fits = [
            cross_fit(self.task, list(each.values()), options.quantity, options.seed)
            for each in groups.values()
        ]
        measured = self._measured(base, [fit.evaluation for fit in fits])
        found = []
        for (place, each), fit, effect in zip(groups.items(), fits, measured, strict=True):
            names = list(each)
            halves = tuple(names[half] for half in fit.halves)
            site, layer, best = place.site, place.layer, names[fit.best]
            found.append(Effect(site=site, layer=layer, head=best, halves=halves, **effect))
        return tuple(found)


def column(scores: Scores, heads: Heads) -> Float[np.ndarray, " row"]:
    """The scores in the order of `heads`, as a column of the head table."""
    return np.array([float(scores[head.layer_id][head.index]) for head in heads])
