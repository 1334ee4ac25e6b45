"""Sweep: a task's losses under many ablations, with what their forwards have in common.

Reuse: a forward that begins at a later layer, with the clean outputs of the layers before it.

A head's ablation changes nothing before its layer. So the blocks of a model (the entries of its
module lists that hold attention) run once without ablation, and their outputs are stored for one
batch. For an ablation, all blocks before the first changed one return their stored outputs.

Sweep: a task's losses under many ablations, at little more than half the cost of full forwards.

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
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
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
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    Replacement,
    Tap,
    block_of,
    evaluating,
    head_group,
    input_device,
    intercepted,
    replaced,
    tapped,
)
from headcount.tasks import Evaluation, Losses, Task, TaskBatch


def repeated(output: Any, num_rows: int, times: int) -> Any:
    """A module's output, with every tensor that has the batch's rows repeated `times` over."""
    if isinstance(output, Tensor):
        has_rows = output.shape[0] == num_rows
        return output.repeat(times, *[1] * (output.ndim - 1)) if has_rows else output
    if isinstance(output, tuple | list):
        return type(output)(repeated(part, num_rows, times) for part in output)
    return output


@final
class Blocks:
    """The blocks of a model in the order of their calls, with their outputs on one batch.

    Args:
        model: Model to run.
        anatomy: Attention layers of the model.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        self._starts: dict[LayerId, int] = {}
        self._order: dict[nn.Module, int] = {}
        by_module = anatomy.by_module()
        for layer in anatomy.layers:
            path = block_of(model, anatomy, layer.module)
            block = None if path is None else model.get_submodule(path)
            # Nothing can be skipped before attention that is outside any block, or that layers
            # share (the tap distinguishes those by counting calls).
            if block is None or len(by_module[layer.module]) > 1:
                self._starts[layer.layer_id] = 0
            else:
                start = self._order.setdefault(block, len(self._order))
                self._starts[layer.layer_id] = start
        self._next = _following(model)
        self._kept: dict[nn.Module, Any] = {}

    def __len__(self) -> int:
        return len(self._order)

    def start(self, place: LayerId) -> int:
        """Number of blocks before a layer's attention."""
        return self._starts[place]

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the blocks' outputs of one forward are stored; earlier ones are dropped."""
        self._kept = {}

        def keep(block: nn.Module, output: Any) -> None:
            self._kept[block] = output

        with intercepted(self._order, after=keep):
            yield

    @contextmanager
    def resuming(self, start: int, num_rows: int, times: int) -> Iterator[None]:
        """Inside, a forward of the stored batch's rows, `times` over, skips the first blocks.

        Args:
            start: Number of blocks that return their stored outputs.
            num_rows: Number of rows in the stored batch.
            times: Number of copies of the rows, one after the other.
        """
        passed = list(self._order)[:start]
        with ExitStack() as stack:
            for block in passed:
                kept = self._kept[block]
                # A skipped block ignores its input, so the block before it need not repeat rows.
                # A block without heads is never skipped.
                if self._next.get(block) not in passed:
                    kept = repeated(kept, num_rows, times)
                stack.enter_context(replaced(block, kept))
            yield


def _following(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """The next entry of the module list for every entry."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    return {one: other for each in lists for one, other in pairwise(each)}


@final
@dataclass
class _Kept:
    """Outputs of an attention module in the clean forward."""

    output: Any = None
    """Output of the module."""
    ctx: Tensor | None = None
    """The heads' outputs side by side, as the projection received them."""
    projected: Tensor | None = None
    """Output of the projection."""


@final
class Attentions:
    """The attention modules of a model and their outputs on one batch.

    Args:
        model: Model to run.
        anatomy: Its attention layers. Layers that share a module or have no output projection of
            their own are always run.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        alone = {path for path, layers in anatomy.by_module().items() if len(layers) == 1}
        self._modules = {
            layer: (model.get_submodule(layer.module), model.get_submodule(layer.output))
            for layer in anatomy.layers
            if layer.module in alone and layer.output is not None
        }
        self._kept: dict[AttentionLayer, _Kept] = {}
        self._group = head_group(model)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the attention outputs of one forward are stored; earlier ones are dropped."""
        self._kept = {layer: _Kept() for layer in self._modules}
        kept_of = {
            module: self._kept[layer] for layer, both in self._modules.items() for module in both
        }

        def keep_output(attention: nn.Module, output: Any) -> None:
            kept_of[attention].output = output

        def keep_ctx(projection: nn.Module, ctx: Tensor) -> None:
            kept_of[projection].ctx = ctx

        def keep_projected(projection: nn.Module, projected: Tensor) -> None:
            kept_of[projection].projected = projected

        attentions = [attention for attention, _ in self._modules.values()]
        projections = [projection for _, projection in self._modules.values()]
        with (
            intercepted(attentions, after=keep_output),
            intercepted(projections, before=keep_ctx, after=keep_projected),
        ):
            yield

    @contextmanager
    def giving_clean(self, layer: AttentionLayer, num_rows: int, times: int) -> Iterator[None]:
        """Inside, a layer's attention returns the stored output with its rows `times` over."""
        if layer not in self._modules:
            yield
            return
        with replaced(self._modules[layer][0], repeated(self._kept[layer].output, num_rows, times)):
            yield

    @contextmanager
    def giving_gated(
        self, layer: AttentionLayer, gate_RH: Float[Tensor, "row head"], num_rows: int
    ) -> Iterator[None]:
        """Inside, a layer returns its output with gates on the stored outputs of its heads.

        If the stored outputs don't determine it, the layer is run.
        """
        gated = self._gated(layer, gate_RH, num_rows) if layer in self._modules else None
        if gated is None:
            yield
            return
        with replaced(self._modules[layer][0], gated):
            yield

    def _gated(self, layer: AttentionLayer, gate_RH: Tensor, num_rows: int) -> Any | None:
        kept, (_, projection) = self._kept[layer], self._modules[layer]
        is_tuple = isinstance(kept.output, tuple)
        first, *rest = kept.output if is_tuple else (kept.output,)
        times = len(gate_RH) // num_rows
        if kept.ctx is None or not (first is kept.ctx or first is kept.projected):
            return None
        ctx_RNHD = repeated(kept.ctx, num_rows, times).unflatten(-1, (-1, layer.head_dim))
        gate_RH = gate_RH if self._group is None else self._group.own(gate_RH, 1)
        ctx_RNW = (ctx_RNHD * gate_RH[:, None, :, None].to(ctx_RNHD)).flatten(-2)
        first = ctx_RNW if first is kept.ctx else projection(ctx_RNW)
        return (first, *repeated(tuple(rest), num_rows, times)) if is_tuple else first


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
        progress: Callback that receives the number of finished examples and the total.

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
    progress(int(done_N.sum()), num_examples)

    def units() -> Iterator[tuple[str, Callable[[], SweepPart]]]:
        yield from ((name, partial(_missing, name)) for name in before)
        for batch in task.batches(setting.max_tokens):
            index_E = batch.index_E.numpy()
            if not done_N[index_E].all():
                yield name_of(index_E), partial(running.part, batch)

    def after(name: str) -> None:
        done_N[running.last_E] = True
        progress(int(done_N.sum()), num_examples)

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
        self.ablations, self.replacement = ablations, setting.replacement
        self.blocks, self.attentions = Blocks(model, anatomy), Attentions(model, anatomy)
        self._counts = anatomy.heads.counts
        self._number = {layer.layer_id: number for number, layer in enumerate(anatomy.layers)}
        self.last_E = np.zeros(0, dtype=np.int64)
        """The numbers of the examples of the last batch."""

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
        for first, numbers in self._shares(batch):
            losses = self._ablated(batch, first, numbers)
            names = [self.ablations[number].name for number in numbers]
            self._fill(found, [number + 1 for number in numbers], losses, names)
        return found

    def _shares(self, batch: TaskBatch) -> Iterator[tuple[int, list[int]]]:
        """Groups of ablations that share a forward, with the first layer that they change."""
        tokens = max(tensor.numel() for tensor in batch.inputs.values())
        size = max(1, self._together // max(1, tokens))
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
        part.loss_AE[rows], part.outcome_AE[rows] = loss_AE, _numbers(losses.outcome_E, shape)


def _numbers(
    outcome_C: Float[Tensor, " copy *outcome"], shape: tuple[int, int]
) -> Float[np.ndarray, " ablation example *outcome"]:
    """Outcomes of copies of a batch, by copy."""
    return outcome_C.double().cpu().numpy().reshape(*shape, *outcome_C.shape[1:])


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
    kept = Kept(file, key, "the translations of an interrupted run", tuple[str, ...])

    def texts(row: int) -> tuple[str, ...]:
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
