"""Sweep: a task's losses under many ablations, at little more than half the cost of full forwards.

For each batch, one clean forward stores the output of every block. Then all ablations that first
change the same layer share forwards, in which each has gates for its own copy of the rows. These
forwards begin at the heads' outputs if zero replaces a head, else at the layer's block.
Translations under ablations take one beam search each. A killed run resumes from what was saved,
batch by batch; processes share the batches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    Head,
    Held,
    Kept,
    LayerId,
    ModelError,
    Passing,
    UnitFiles,
    amount,
    check_same_key,
    read_arrays,
    reading,
    shared,
    short_hash,
    told_by_all,
    write_arrays,
)
from headcount.importance.folder import TRANSLATIONS
from headcount.importance.reuse import Attentions, Blocks
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    Replacement,
    Tap,
    evaluating,
    input_device,
    tapped,
)
from headcount.tasks import Evaluation, Losses, Task, TaskBatch

_ARRAYS = ("index_E", "count_E", "loss_AE", "outcome_AE")


@final
@dataclass(frozen=True, eq=False)
class SweepPart:
    """What a sweep finds on one batch: a row per ablation, after one for the dense model."""

    index_E: Int[np.ndarray, " example"]
    """The number of each example in the task's data."""
    count_E: Int[np.ndarray, " example"]
    loss_AE: Float[np.ndarray, "ablation example"]
    outcome_AE: Float[np.ndarray, " ablation example *outcome"]


def name_of(index_E: Int[np.ndarray, " example"]) -> str:
    """The name of the part of some examples, by which its progress is stored."""
    return short_hash(index_E.astype("<i8").tobytes())


def _save(key: str, path: Path, part: SweepPart) -> None:
    write_arrays(path, {name: getattr(part, name) for name in _ARRAYS}, {"key": key})


def _load(key: str, path: Path) -> SweepPart:
    found, about = read_arrays(path, "an interrupted sweep")
    check_same_key(path, about.get("key"), key)
    with reading(path, "an interrupted sweep"):
        return SweepPart(**{name: found[name] for name in _ARRAYS})


def _held(state: Path | None, key: str, num_rows: int, num_examples: int) -> Held[SweepPart]:
    """The parts that this process has on its disk, or in memory only."""
    if state is None:
        return Passing[SweepPart]()
    of_all = f"{key}, {amount(num_rows, 'loss')} of {amount(num_examples, 'example')}"
    return UnitFiles(state, partial(_load, of_all), partial(_save, of_all))


TOGETHER = 4096
"""Largest number of padded tokens, copies included, in a forward that ablations share."""


LOGITS = 2**27
"""Largest number of logits in a forward that ablations share (0.5 GB)."""


AblationKind = Literal["heads", "site", "layer", "all_but_one"]
"""Some heads, all heads of a site, all of a layer, or all of a layer but one."""


@final
@dataclass(frozen=True)
class Ablation:
    """Heads that are ablated together."""

    name: str
    """Name by which progress is stored, e.g. `enc.1 but enc.1.0`."""
    heads: tuple[Head, ...]
    """The ablated heads."""
    kind: AblationKind = "heads"
    """What the heads are together."""
    kept: Head | None = None
    """The only kept head of the layer, if all others are ablated."""


@final
@dataclass(frozen=True, eq=False)
class Swept:
    """Results of the dense model, and of the model under each ablation, on every example."""

    ablations: tuple[Ablation, ...]
    base: Evaluation
    loss_AN: Float[np.ndarray, "ablation example"]
    outcome_AN: Float[np.ndarray, " ablation example *outcome"]

    def evaluation(self, index: int) -> Evaluation:
        """The evaluation under one ablation."""
        return Evaluation(self.loss_AN[index], self.base.count_N, self.outcome_AN[index])


@final
@dataclass(frozen=True, eq=False)
class AblationSetting:
    """The model and task of ablations, and what they put in place of a head's output."""

    model: PreTrainedModel
    task: Task
    """Task that provides batches, losses and scores."""
    anatomy: Anatomy
    """Result of `examine(model)`."""
    replacement: Replacement | None = None
    """Replacement for an ablated head's output; None for zero."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch, and a limit for shared forwards."""


def sweep(
    setting: AblationSetting,
    ablations: Sequence[Ablation],
    state: Path | None = None,
    key: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Swept:
    """Losses and outcomes of every example under every ablation.

    Args:
        setting: Model and task.
        ablations: Ablations to run one by one.
        state: Name of the files for the progress, one a batch, from which the sweep resumes.
        key: Key that the state must have been made with.
        progress: Callback that receives how much of the examples is finished, and the total.

    Raises:
        ModelError: If a loss is not a finite number; the message names ablation and example.
        InputError: If the state is of another sweep, or damaged.
    """
    model, task = setting.model, setting.task
    running = _Sweeping(setting, tuple(ablations))
    num_rows, num_examples = len(ablations) + 1, task.num_examples
    held = _held(state, key, num_rows, num_examples)
    every = told_by_all({name: held[name].index_E for name in held})
    before = {name: index_E for each in every for name, index_E in sorted(each.items())}
    # By example, not by batch: a sweep may resume with batches of another size.
    done_N = np.isin(np.arange(num_examples), np.concatenate([[], *before.values()]))
    progress(*task.counted(done_N))

    def units() -> Iterator[tuple[str, Callable[[], SweepPart]]]:
        yield from ((name, partial(_missing, name)) for name in before)
        for batch in task.batches(setting.max_tokens):
            index_E = batch.index_E.numpy()
            if not done_N[index_E].all():
                yield name_of(index_E), partial(running.part, batch)

    def moved(share: float) -> None:
        done, total = task.counted(done_N)
        progress(int(done + share * task.sizes_N[running.last_E].sum()), total)

    running.moved = moved

    def after(name: str) -> None:
        done_N[running.last_E] = True
        progress(*task.counted(done_N))

    count_N = np.zeros(num_examples, dtype=np.int64)
    loss_AN = np.full((num_rows, num_examples), np.nan)
    outcome_AN = np.full((num_rows, num_examples, *task.outcome_shape), np.nan)
    with evaluating(model), torch.inference_mode(), _without_cache(model):
        for _, part in shared(units(), held, after):
            count_N[part.index_E] = part.count_E
            loss_AN[:, part.index_E], outcome_AN[:, part.index_E] = part.loss_AE, part.outcome_AE
    base = Evaluation(loss_AN[0], count_N, outcome_AN[0])
    return Swept(running.ablations, base, loss_AN[1:], outcome_AN[1:])


def _missing(name: str) -> SweepPart:
    raise AssertionError(f"a process held {name}")


@final
class _Sweeping:
    """One sweep, which runs batch by batch."""

    def __init__(self, setting: AblationSetting, ablations: tuple[Ablation, ...]) -> None:
        model, anatomy = setting.model, setting.anatomy
        self.model, self.task, self.anatomy = model, setting.task, anatomy
        self._together = min(TOGETHER, setting.max_tokens)
        self._vocabulary = getattr(model.config.get_text_config(), "vocab_size", None) or 0
        self.ablations, self.replacement = ablations, setting.replacement
        self.blocks, self.attentions = Blocks(model, anatomy), Attentions(model, anatomy)
        self._counts = anatomy.heads.counts
        self._number = {layer.layer_id: number for number, layer in enumerate(anatomy.layers)}
        self.last_E = np.zeros(0, dtype=np.int64)
        """The numbers of the examples of the last batch."""
        self.moved: Callable[[float], None] = lambda share: None
        """Called after each forward with the share of the batch's forwards that are done."""

    def part(self, batch: TaskBatch) -> SweepPart:
        """The batch's examples under all ablations."""
        batch, self.last_E = batch.to(input_device(self.model)), batch.index_E.numpy()
        with Tap(self.model, self.anatomy), self.blocks.keeping(), self.attentions.keeping():
            clean = self.task.losses(self.model, batch)
        shape = (len(self.ablations) + 1, len(self.last_E))
        found = SweepPart(
            index_E=self.last_E,
            count_E=clean.count_E.cpu().numpy(),
            loss_AE=np.empty(shape),
            outcome_AE=np.empty((*shape, *self.task.outcome_shape)),
        )
        self._fill(found, [0], clean, ["no ablation"])
        shares = [*self._shares(batch)]
        for done, (first, numbers) in enumerate(shares):
            self.moved(done / len(shares))
            losses = self._ablated(batch, first, numbers)
            names = [self.ablations[number].name for number in numbers]
            self._fill(found, [number + 1 for number in numbers], losses, names)
        return found

    def _shares(self, batch: TaskBatch) -> Iterator[tuple[int, list[int]]]:
        """Groups of ablations that share a forward, with the first layer that they change."""
        tokens = max(tensor.numel() for tensor in batch.inputs.values())
        size = self._together // max(1, tokens)
        if self._vocabulary and "labels" in batch.labels:
            size = min(size, LOGITS // (self._vocabulary * batch.labels["labels"].numel()))
        size = max(1, size)
        firsts = [
            min(self._number[head.layer_id] for head in ablation.heads)
            for ablation in self.ablations
        ]
        order = sorted(range(len(firsts)), key=firsts.__getitem__)
        for first, group in groupby(order, firsts.__getitem__):
            numbers = list(group)
            for done in range(0, len(numbers), size):
                yield first, numbers[done : done + size]

    def _ablated(self, batch: TaskBatch, first: int, numbers: list[int]) -> Losses:
        times, num_rows = len(numbers), len(batch.example_R)
        gates = self._gates([self.ablations[number] for number in numbers], num_rows)
        layer = self.anatomy.layers[first]
        place = layer.layer_id
        with (
            Tap(self.model, self.anatomy, gates=gates, replacement=self.replacement),
            self.blocks.resuming(self.blocks.start(place), num_rows, times),
            ExitStack() as stack,
        ):
            for clean in self._before(first):
                stack.enter_context(self.attentions.giving_clean(clean, num_rows, times))
            if self.replacement is None:
                given = self.attentions.giving_gated(layer, gates[place], num_rows)
                stack.enter_context(given)
            return self.task.losses(self.model, batch.repeated(times))

    def _before(self, first: int) -> list[AttentionLayer]:
        """Layers of the same block that are called before a layer."""
        layers = self.anatomy.layers
        starts = [self.blocks.start(layer.layer_id) for layer in layers]
        return [layers[number] for number in range(first) if starts[number] == starts[first]]

    def _gates(self, ablations: list[Ablation], num_rows: int) -> dict[LayerId, Tensor]:
        """Gates of 0 for each ablation's heads in its own copy of the rows."""
        gates: dict[LayerId, Tensor] = {}
        for copy, ablation in enumerate(ablations):
            for head in ablation.heads:
                place = head.layer_id
                if place not in gates:
                    shape = (len(ablations) * num_rows, self._counts[head.site][head.layer])
                    gates[place] = torch.ones(shape, device=input_device(self.model))
                gates[place][copy * num_rows : (copy + 1) * num_rows, head.index] = 0
        return gates

    def _fill(self, part: SweepPart, rows: list[int], losses: Losses, names: list[str]) -> None:
        shape = (len(rows), len(part.index_E))
        loss_AE = losses.loss_E.double().cpu().numpy().reshape(shape)
        if not np.isfinite(loss_AE).all():
            row, example = np.argwhere(~np.isfinite(loss_AE))[0]
            raise ModelError(
                "Expected a finite loss for every example, but example "
                f"{part.index_E[example]} gave {loss_AE[row, example]} under ablation "
                f"{names[row]}. Check that example, or load the model in float32."
            )
        outcome_C = losses.outcome_E.double().cpu().numpy()
        part.loss_AE[rows] = loss_AE
        part.outcome_AE[rows] = outcome_C.reshape(*shape, *outcome_C.shape[1:])


@contextmanager
def _without_cache(model: PreTrainedModel) -> Iterator[None]:
    """Inside, there is no key/value cache, since skipped blocks would not fill it."""
    configs = {id(config): config for config in (model.config, model.config.get_text_config())}
    caching = [config for config in configs.values() if getattr(config, "use_cache", False)]
    for config in caching:
        config.use_cache = False
    try:
        yield
    finally:
        for config in caching:
            config.use_cache = True


def ablated_texts(
    setting: AblationSetting,
    swept: Swept,
    rows: Sequence[int],
    state: Path | None = None,
    key: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Evaluation]:
    """The texts that the model writes under some ablations of a sweep, with their losses.

    Args:
        setting: Model and a task whose score compares texts.
        swept: Losses under the ablations.
        rows: Numbers of the ablations.
        state: Folder for finished texts, which are not made again.
        key: Key that finished texts must have been made with.
        progress: Callback that receives the number of finished ablations and the total.

    Raises:
        InputError: If the texts are of another run, or damaged.
    """
    model = setting.model
    file = None if state is None else state / TRANSLATIONS
    kept = Kept(file, key, "the translations of an interrupted run", tuple[str | float, ...])

    def texts(row: int) -> tuple[str | float, ...]:
        gates = {str(head): 0.0 for head in swept.ablations[row].heads}
        with tapped(model, None, gates, setting.anatomy, setting.replacement):
            made = setting.task.with_texts(swept.evaluation(row), model, setting.max_tokens)
        return tuple(made.outcome_N.tolist())

    found = list[Evaluation]()
    progress(len(found), len(rows))
    units = ((swept.ablations[row].name, partial(texts, row)) for row in rows)
    for row, made in zip(rows, kept.results(units), strict=True):
        found.append(replace(swept.evaluation(row), outcome_N=np.array(made, dtype=object)))
        progress(len(found), len(rows))
    return found
