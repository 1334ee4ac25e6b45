"""The effects of ablation: of every head, of whole layers and sites, and of heads alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, final

import numpy as np
import torch

from headcount.core import LayerId, amount
from headcount.importance.ablation_sweep import (
    Ablation,
    AblationSetting,
    Swept,
    ablated_texts,
    sweep,
)
from headcount.importance.ablations import (
    all_but_one,
    cross_fit,
    replacement,
    single_heads,
    whole_layers,
    whole_sites,
)
from headcount.importance.choices import AblationOptions
from headcount.importance.folder import SWEEP
from headcount.importance.gradients import by_layer
from headcount.importance.score import Measured, ScoringContext
from headcount.importance.score_agreement import score_deltas
from headcount.models import Loaded
from headcount.results import AblationFacts, Effect, SiteEffect
from headcount.statistics import Deltas, few_examples, holm, loss_deltas
from headcount.tap import input_device
from headcount.tasks import Evaluation, Task, evaluate

OPERATIONS = 4e13
"""Multiplications and additions that ablations may take by default: five minutes of two cores."""

LEAST = 16
"""Number of examples that are taken at least, if there are so many."""


def _drawn(loaded: Loaded, task: Task, num_sets: int, options: AblationOptions) -> Task:
    """The task with the examples on which sets of heads are ablated, drawn by the seed."""
    number = options.ablated_examples
    if number is None and (options.quantity == "score" or not task.by_example):
        return task
    order_N = np.random.default_rng(options.seed).permutation(task.num_examples)
    if number is None:
        if input_device(loaded.model).type != "cpu":
            return task
        tokens_N = np.cumsum(task.length_N[order_N])
        cost = 2 * num_sets * loaded.model.num_parameters(exclude_embeddings=True)
        number = max(LEAST, int((tokens_N * cost <= OPERATIONS).sum()))
    return task if number >= task.num_examples else task.some(np.sort(order_N[:number]))


def _left_out(some: Task, every: Task) -> tuple[str, ...]:
    """A warning if heads were ablated on some of a task's examples; else nothing."""
    number, total = some.num_examples, every.num_examples
    if number == total:
        return ()
    return (
        f"heads were ablated on {number:,} of {amount(total, 'example')}, drawn at random, so "
        f"intervals of these effects are about {(total / number) ** 0.5:.1f} times as wide as on "
        f"all, which take {total / number:.1f} times as long (--ablated-examples {total})",
    )


@final
class AblationEffects:
    """The steps of ablating the heads of a model on a task, and their shared values."""

    def __init__(
        self, score: AblationOptions, loaded: Loaded, task: Task, context: ScoringContext
    ) -> None:
        self.score, self.loaded, self.every, self.context = score, loaded, task, context
        self.heads = loaded.heads
        self.task = _drawn(loaded, task, len(self._ablations), score)

    def measured(self, keys: Sequence[str]) -> Measured:
        """Effect, interval and corrected p-value of every head, and the effects of groups.

        Args:
            keys: Columns of effect, both ends of the interval, and p-value.
        """
        swept = self._sweep()
        num_heads = len(self.heads)
        deltas = self._deltas(self._base(swept), self._evaluations(swept, range(num_heads)))
        numbers = (deltas.delta, deltas.low, deltas.high, holm(deltas.p))
        facts = AblationFacts(
            replacement=self.score.instead,
            num_examples=self.task.num_examples,
            quantity=self.score.quantity,
            test=self.score.score_test if self.score.quantity == "score" else "",
            p_each=tuple(deltas.p.tolist()),
        )
        rest = range(num_heads, len(swept.ablations))
        return Measured(
            {
                key: by_layer(self.heads, torch.from_numpy(each))
                for key, each in zip(keys, numbers, strict=True)
            },
            {"ablation": facts, **(self._groups(swept, rest) if rest else {})},
            (*_left_out(self.task, self.every), *few_examples(self.task.num_examples)),
        )

    @cached_property
    def _dense(self) -> Evaluation:
        """The evaluation of the dense model, including its translations."""
        if self.context.dense is not None and self.task is self.every:
            return self.context.dense()
        return evaluate(self.loaded.model, self.task, self.context.max_tokens, texts=True)

    @cached_property
    def _setting(self) -> AblationSetting:
        """The setting in which heads are ablated."""
        model, anatomy, max_tokens = self.loaded.model, self.loaded.anatomy, self.context.max_tokens
        watched = self.context.watched(self.task, "mean outputs")
        stand_in = replacement(self.score.instead, model, watched, anatomy, max_tokens)
        return AblationSetting(model, self.task, anatomy, stand_in, max_tokens)

    @property
    def _ablations(self) -> list[Ablation]:
        """Single heads, and then groups of them."""
        found = single_heads(self.heads)
        if self.score.layers:
            found += whole_sites(self.heads) + whole_layers(self.heads)
        if self.score.one_left:
            found += all_but_one(self.heads)
        return found

    def _sweep(self) -> Swept:
        return sweep(
            self._setting,
            self._ablations,
            self.context.state and self.context.state / SWEEP,
            self._key,
            partial(self.context.progress, self.task.bar("ablation")),
        )

    @property
    def _key(self) -> str:
        """Key that the state of the sweep must have been made with."""
        return f"{self.context.key}|layers:{self.score.layers}|one_left:{self.score.one_left}"

    def _evaluations(self, swept: Swept, rows: range) -> list[Evaluation]:
        """The evaluations under some ablations, with translations if their score is measured."""
        if self.score.quantity == "loss" or not self.task.writes:
            return [swept.evaluation(row) for row in rows]
        return ablated_texts(
            self._setting,
            swept,
            rows,
            state=self.context.state,
            key=self._key,
            progress=lambda done, total: self.context.progress("translating", done, total),
        )

    def _base(self, swept: Swept) -> Evaluation:
        """The evaluation of the dense model in the sweep, with its translations if it writes."""
        if self.score.quantity == "loss" or not self.task.writes:
            return swept.base
        return replace(swept.base, outcome_N=self._dense.outcome_N)

    def _deltas(self, base: Evaluation, without: Sequence[Evaluation]) -> Deltas:
        """How much worse these evaluations are than the dense model's."""
        options = self.score
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

    def _groups(self, swept: Swept, rows: range) -> Mapping[str, object]:
        """Whole sites, whole layers, and every head alone in its layer."""
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
        return {
            "sites": tuple(sites),
            "layers": tuple(effects.get("layer", ())),
            "all_but_one": tuple(effects.get("all_but_one", ())),
            "single_heads": self._best_alone(base, groups),
        }

    def _best_alone(
        self, base: Evaluation, groups: Mapping[LayerId, Mapping[str, Evaluation]]
    ) -> tuple[Effect, ...]:
        """The best single head of each layer, measured on examples that did not choose it."""
        if not groups or self.task.num_examples < 2:
            return ()
        options = self.score
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
