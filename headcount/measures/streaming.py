"""Measuring: one streaming pass of a model over a corpus, every measure at once.

Measures are sums, so the corpus may be cut anywhere: into batches, before and after a kill, or into
units that processes share. What is kept is one set of sums per layer and unit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import LayerId, added, check_same_key, read_arrays, reading, write_arrays
from headcount.corpora import Batch
from headcount.measures.class_weights import classes_of
from headcount.measures.reducer import NORMS, AttentionReducer
from headcount.measures.reductions import Attention, Sides, check_finite
from headcount.measures.registry import guarding, sums_of
from headcount.measures.sums import Sums
from headcount.models import body_of
from headcount.tap import (
    BLOCKS,
    Anatomy,
    AttentionLayer,
    Block,
    Call,
    Called,
    Kernel,
    Listener,
    OnDevices,
    Reduction,
    Statistics,
    Tap,
    evaluating,
    input_device,
    last_seen,
    without_cache,
)

HELD = 2**28
"""Number of bytes of reductions from which the layers that wait are measured."""

Span = tuple[tuple[LayerId, int], ...]
"""Layers whose heads are joined, in order, with the number of heads of each."""


@final
@dataclass(frozen=True)
class Totals:
    """Sums that add: those of every measure in every layer, with the amounts that were read."""

    sums: Mapping[tuple[type[Sums], LayerId], Sums] = field(default_factory=dict)
    num_batches: int = 0
    num_sentences: int = 0
    num_tokens: int = 0
    """Number of tokens on both sides, without padding."""
    num_measured: int = 0
    """Number of tokens of sources that are measured, as a census counts them."""
    joined: Mapping[tuple[type[Sums], Span], Sums] = field(default_factory=dict)
    """Sums of layers that are not split yet, so that few additions add all of them."""

    def __add__(self, other: "Totals") -> "Totals":
        mine = self._joined_as(other)
        return Totals(
            added(mine.sums, other.sums),
            self.num_batches + other.num_batches,
            self.num_sentences + other.num_sentences,
            self.num_tokens + other.num_tokens,
            self.num_measured + other.num_measured,
            added(mine.joined, other.joined),
        )

    def _joined_as(self, other: "Totals") -> "Totals":
        """The same sums, joined as others are, such as those of a state before the next batch's."""
        sums, joined = dict(self.sums), dict(self.joined)
        for measure, span in other.joined.keys() - joined.keys():
            keys = [(measure, place) for place, _ in span]
            if all(key in sums for key in keys):
                joined[measure, span] = measure.join([sums.pop(key) for key in keys])
        return replace(self, sums=sums, joined=joined)

    def split(self) -> "Totals":
        """The same sums, all by layer."""
        sums = self.sums
        for (measure, span), part in self.joined.items():
            places, sizes = zip(*span, strict=True)
            keys = [(measure, place) for place in places]
            sums = added(sums, dict(zip(keys, part.split(sizes), strict=True)))
        return replace(self, sums=sums, joined={})

    def beyond(self, earlier: "Totals") -> "Totals":
        """The amounts without those of an earlier part, and no sums."""
        return Totals(
            num_sentences=self.num_sentences - earlier.num_sentences,
            num_tokens=self.num_tokens - earlier.num_tokens,
            num_measured=self.num_measured - earlier.num_measured,
        )

    def on_cpu(self) -> "Totals":
        """The same sums by layer, in main memory."""
        split = self.split()
        return replace(split, sums={key: part.to("cpu") for key, part in split.sums.items()})


@final
class Measuring:
    """The tap's listener: reduces each layer's attention and takes its measures.

    Args:
        model: the tapped model.
        anatomy: its attention layers.
        measures: the measures to take.
    """

    def __init__(
        self, model: PreTrainedModel, anatomy: Anatomy, measures: Sequence[type[Sums]]
    ) -> None:
        self.measures = measures
        self._needs = frozenset[Reduction]().union(*(measure.needs for measure in measures))
        self._classes = tuple(each for measure in measures for each in classes_of(measure))
        self._roots: dict[AttentionLayer, Tensor | None] = dict.fromkeys(anatomy.layers)
        if self._needs & NORMS:
            self._roots = {layer: layer.output_root(model) for layer in anatomy.layers}
        self._sums: dict[tuple[type[Sums], Span], Sums] = {}
        self._waiting: dict[tuple[str, bool, torch.device], list[Attention]] = {}
        self._batch: Batch | None = None
        self._sides: dict[str, OnDevices[Sides]] = {}
        self._last_BQ: Tensor | None = None
        self._reducer: AttentionReducer | None = None

    def start(self, batch: Batch) -> None:
        """Announce the batch of the next forward pass."""
        self._batch, self._sides, self._sums, self._waiting = batch, {}, {}, {}
        self._last_BQ = None

    def sees(self, layer: AttentionLayer, call: Call) -> None:
        """Hear what a causal layer sees of pictures, before it begins."""
        has_pictures = self._batch is not None and self._batch.source.is_picture_BN is not None
        if has_pictures and layer.site == "decoder.self" and layer.site not in self._sides:
            size = len(call.query), call.query.shape[2], call.key.shape[2]
            self._last_BQ = last_seen(call.mask, size)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> Statistics:
        """Begin a layer; returns the statistics that the measures need."""
        assert self._batch is not None
        if layer.site not in self._sides:
            its = replace(sides(layer, self._batch), last_BQ=self._last_BQ)
            self._sides[layer.site] = OnDevices(its)
        its = self._sides[layer.site].on(value_BHKD.device)
        given = (layer, its, self._roots[layer], value_BHKD, self._needs)
        self._reducer = AttentionReducer(*given, self._classes)
        return self._reducer.statistics

    def block(self, block: Block) -> None:
        """Read a block, where measures need maps."""
        assert self._reducer is not None
        self._reducer.block(block)

    def end(self, layer: AttentionLayer) -> None:
        """Finish a layer. Its reductions wait for those of others, its attention is discarded."""
        assert self._reducer is not None
        its = self._reducer.unchecked()
        alike = (layer.site, layer.has_learned_sink, its.keys.ids_BN.device)
        self._waiting.setdefault(alike, []).append(its)
        self._reducer = None
        if sum(each.size for layers in self._waiting.values() for each in layers) >= HELD:
            self._measure()

    def _measure(self) -> None:
        """Take the measures of all layers that wait, those of a site at once."""
        totals, layers = list[Tensor](), list[AttentionLayer]()
        for kind in [*self._waiting]:
            alike = self._waiting.pop(kind)
            layers += [each.layer for each in alike]
            span = tuple((each.layer.layer_id, each.layer.num_heads) for each in alike)
            attention = Attention.join(alike)
            totals.append(attention.total_H())
            for measure in self.measures:
                its = attention.read_by(measure.__name__, measure.needs)
                with guarding(measure, "say whether it applies"):
                    applies = measure.applies(its)
                if applies:
                    num_heads = sum(size for _, size in span)
                    self._sums[measure, span] = sums_of(measure, its, num_heads)
        if totals:
            check_finite(torch.cat([each.to(totals[0].device) for each in totals]), layers)

    def part(self) -> Totals:
        """The sums over the batch that was run, without the number of its tokens."""
        assert self._batch is not None
        self._measure()
        return Totals({}, 1, len(self._batch.sentences), joined=self._sums)


def sides(layer: AttentionLayer, batch: Batch) -> Sides:
    """The tokens that attend and the tokens attended to, in a layer's attention over a batch."""
    target = batch.source if batch.target is None else batch.target
    queries = batch.source if layer.site == "encoder.self" else target
    keys = target if layer.site == "decoder.self" else batch.source
    arcs = batch.arcs if queries is keys is batch.source else None
    is_causal = layer.site == "decoder.self"
    if batch.is_measured_BN is None or queries is not batch.source:
        return Sides(queries, keys, arcs, is_causal, grid=batch.grid)
    assert keys is queries
    return Sides(queries.only(batch.is_measured_BN), keys, arcs, is_causal, with_context=keys)


@runtime_checkable
class BatchListener(Listener, Protocol):
    """A listener that is given each batch in advance."""

    def start(self, batch: Batch) -> None:
        """Announce the batch of the next forward pass."""


def forward(
    model: PreTrainedModel,
    anatomy: Anatomy,
    batches: Iterable[Batch],
    listener: BatchListener,
    after_batch: Callable[[Batch], None] = lambda batch: None,
    kernel: Kernel = BLOCKS,
    called: Called | None = None,
) -> None:
    """Run the tapped model over batches.

    The language-modelling head, which no measure uses, is not run.
    """
    body = body_of(model)
    options = without_cache(body)
    tap = Tap(model, anatomy, listener, kernel=kernel)
    calling = nullcontext() if called is None else tap.calling(called)
    with evaluating(model), torch.inference_mode(), tap, calling:
        for batch in batches:
            listener.start(batch)
            device = input_device(model)
            body(**{name: each.to(device) for name, each in batch.inputs.items()}, **options)
            kernel.check()
            after_batch(batch)


def run(
    model: PreTrainedModel,
    anatomy: Anatomy,
    batches: Iterable[Batch],
    measures: Sequence[type[Sums]],
    totals: Totals | None = None,
    after_batch: Callable[[Totals], None] = lambda totals: None,
    kernel: Kernel = BLOCKS,
    listener: Measuring | None = None,
) -> Totals:
    """Take measures over batches.

    Args:
        model: the model to run.
        anatomy: its attention layers.
        batches: all batches; those that `totals` already covers are skipped.
        measures: the measures to take.
        totals: the sums of an interrupted run.
        after_batch: called with the sums so far, after each complete batch.
        kernel: computes attention.
        listener: what measures, if it was made before.
    """
    measuring, so_far = listener or Measuring(model, anatomy, measures), totals or Totals()

    def add(batch: Batch) -> None:
        nonlocal so_far
        amounts = {"num_tokens": batch.num_tokens, "num_measured": batch.num_measured}
        so_far += replace(measuring.part(), **amounts)
        after_batch(so_far)

    left = islice(batches, so_far.num_batches, None)
    forward(model, anatomy, left, measuring, add, kernel, measuring.sees)
    return so_far.split()


def save_state(path: Path, totals: Totals, run_key: str) -> None:
    """Write sums and counts, completely or not at all."""
    arrays = {
        f"{measure.__name__}/{site}/{layer}/{name}": tensor.contiguous().numpy()
        for (measure, (site, layer)), sums in totals.on_cpu().sums.items()
        for name, tensor in sums.state().items()
    }
    counts = {
        "batches": str(totals.num_batches),
        "sentences": str(totals.num_sentences),
        "tokens": str(totals.num_tokens),
        "measured": str(totals.num_measured),
    }
    write_arrays(path, arrays, {"run_key": run_key, **counts})


def load_state(path: Path, run_key: str, measures: Sequence[type[Sums]]) -> Totals:
    """The sums in a file.

    Raises:
        InputError: if the file is damaged, or from a run with another model, corpus or options.
    """
    by_name = {measure.__name__: measure for measure in measures}
    fields: dict[tuple[str, str, str], dict] = {}
    arrays, about = read_arrays(path, "the sums of an interrupted run")
    check_same_key(path, about.get("run_key"), run_key)
    with reading(path, "the sums of an interrupted run"):
        for key, array in arrays.items():
            measure, site, layer, name = key.split("/")
            fields.setdefault((measure, site, layer), {})[name] = torch.from_numpy(array)
        sums = {
            (by_name[measure], LayerId(site, int(layer))): by_name[measure].of_state(state)
            for (measure, site, layer), state in fields.items()
        }
        batches, sentences = int(about["batches"]), int(about["sentences"])
        # Earlier versions did not count them
        num_tokens, num_measured = int(about.get("tokens", 0)), int(about.get("measured", 0))
        return Totals(sums, batches, sentences, num_tokens, num_measured)
