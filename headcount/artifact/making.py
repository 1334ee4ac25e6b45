"""Making: the folder of a pruned model, with its plan, its certificate and its card.

The folder is written completely or not at all, and only if the gated, the compact and the reloaded
model give the same outputs. Intermediate state lies beside it, so the folder never holds half a
model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from headcount import pages
from headcount.artifact.card import head_card
from headcount.artifact.card_data import base_of, front_matter
from headcount.artifact.comparing import Data, Run, compare, runner
from headcount.artifact.saving import auto_class_of, write_into
from headcount.artifact.staging import COMPACT, check_not_taken, forget_run, staged
from headcount.artifact.surviving_roles import DenseAnalysis
from headcount.compaction import (
    RELOADED,
    check_equal,
    check_lists,
    compact,
    named_feed_forwards,
    plan_gated,
    unlisted,
)
from headcount.core import (
    SAMPLE,
    InputError,
    Plan,
    Progress,
    release_memory,
    silent,
    write_readable,
)
from headcount.corpora import Corpus
from headcount.models import MODELLING, Loaded, as_loaded, device_map_of, load
from headcount.pruning import Pruned, neurons_record
from headcount.results import Certificate, Comparison, PruneRecord, SpeedRecord, weights_sha256
from headcount.skills import BRIEF, kept_skills
from headcount.speed import Speed, cache_record
from headcount.speed import record as speed_record
from headcount.tap import ROOM, SampleRun, is_spread, sample_runs

CARD = "README.md"
"""Name of the head card."""
PAGE = "report.html"
"""Name of the page that shows it."""


def save_compact(
    loaded: Loaded | PreTrainedModel,
    plan: Plan,
    folder: str | Path,
    corpus: Corpus | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Certificate:
    """Write the compact model, completely or not at all, if it equals the gated one on the corpus.

    Args:
        loaded: Model to make smaller.
        plan: Plan of its kept heads.
        folder: Folder to write into.
        corpus: Texts to compare on, e.g. `certificate_corpus(loaded)`; None for a made-up batch
            (images, sound).
        overwrite: Whether to replace a compact model in the folder.
        progress: Called with the stage and its progress.

    Raises:
        InputError: If the plan does not fit the model, or the folder is taken.
        ConsentError: If it prunes all heads that the model's configuration lists for some use.
        ModelError: If the model can't be made smaller exactly, or the reloaded model differs.
    """
    loaded = as_loaded(loaded)
    folder = Path(folder)
    check_not_taken(folder, overwrite)
    check_lists(loaded.model, loaded.heads, plan)
    smaller = replace(loaded, model=compact(loaded, plan), inputs=None)
    data = Data.of(loaded, corpus)
    with staged(folder, overwrite) as staging:
        certificate = certify(staging, loaded, plan, smaller, data, progress)
        plan.write(staging / "plan.json")
        record = heads_record(loaded, plan, certificate.comparisons)
        record = replace(record, plain=is_plain(staging))
        write_head_card(staging, replace(record, cache=cache_record(loaded, smaller)))
    return certificate


def certify(
    staging: Path,
    dense: Loaded,
    plan: Plan,
    smaller: Loaded,
    data: Data,
    progress: Progress = silent,
) -> Certificate:
    """Write a compact model, reload it, and check that only heads were removed.

    Whole models are compared with room for rounding, since the reloaded model is also compared head
    by head, at each call of attention in the short random batches.

    Args:
        staging: Folder to write model, tokenizer and certificate into.
        dense: The dense model.
        plan: Plan of its kept heads.
        smaller: The compact model.
        data: Data to compare the gated, compact and reloaded model on, besides short random
            batches with every padding and with a cache.
        progress: Called with the number of batches compared.

    Raises:
        ModelError: If two of the three models differ, or a head of the reloaded and the gated one.
    """
    model = smaller.model
    data = replace(data, runs=sample_runs(dense.model, dense.inputs))
    write_into(staging, model, smaller.tokenizer)
    release_memory()
    # In the format of the compact model: on disk, weights may have a shorter one.
    # Laid out as the compact one, unless that is whole: accelerate's cpu_offload has no map.
    device, dtype = "cpu" if is_spread(model) else str(model.device), str(model.dtype)
    places = device_map_of(model)
    reloaded = load(staging, device, dtype.removeprefix("torch."), device_map=places).model
    share_equal(model, reloaded)
    gated = ("gated", gated_runner(dense, plan))
    others = {"compact": runner(model), "reloaded": runner(reloaded)}
    if is_plain(staging) and not is_spread(model):
        stock: Any = getattr(transformers, auto_class_of(model))
        plain = stock.from_pretrained(staging, dtype=model.dtype).to(model.device).eval()
        share_equal(model, plain)
        others["stock"] = runner(plain)
    steps = partial(progress, "certificate")
    comparisons = compare(gated, others, data, model.dtype, steps, ROOM)
    for comparison in comparisons:
        comparison.check_equal()
    progress("certificate by head", 0, 1)
    by_head = check_equal(dense.model, dense.anatomy, plan, reloaded, dense.inputs, RELOADED)
    progress("certificate by head", 1, 1)
    last = next(n for n, each in enumerate(comparisons) if each.what.startswith("reloaded"))
    comparisons[last] = replace(comparisons[last], by_head=by_head)
    sha256 = model.config.head_plan["sha256"]
    compared = tuple(comparisons)
    certificate = Certificate(sha256, weights_sha256(staging), compared, plan.sha256)
    certificate.write(staging)
    return certificate


def share_equal(model: PreTrainedModel, other: PreTrainedModel) -> None:
    """Let another model hold the weights of this one wherever they are equal.

    So the forms of a model that a certificate runs take the memory of one. Weights that differ stay
    as they are, for the comparison to find.
    """
    held = dict(model.named_parameters())
    for name, weight in other.named_parameters():
        equal = held.get(name)
        if equal is not None and _are_equal(weight, equal):
            weight.data = equal.data
    release_memory()


def _are_equal(one: Tensor, other: Tensor) -> bool:
    """Whether two weights of one device and number format hold the same numbers."""
    is_alike = (one.device, one.dtype) == (other.device, other.dtype) and not one.is_meta
    return is_alike and torch.equal(one, other)


def is_plain(folder: Path) -> bool:
    """Whether stock transformers loads a compact model's folder without code of ours."""
    return not (folder / f"{MODELLING}.py").exists()


def heads_record(loaded: Loaded, plan: Plan, comparisons: Sequence[Comparison]) -> PruneRecord:
    """The facts on every head card: the heads and the comparisons."""
    heads = loaded.heads
    return PruneRecord(
        model=Path(loaded.name).name,
        base=base_of(loaded),
        heads=heads.counts,
        neurons=neurons_record(
            plan, named_feed_forwards(loaded.model, loaded.anatomy, plan, loaded.inputs)
        ),
        kept=tuple(map(str, plan.kept_heads(heads))),
        pruned=tuple(map(str, plan.pruned_heads(heads))),
        unlisted=unlisted(loaded.model, heads, plan),
        auto_class=auto_class_of(loaded.model),
        comparisons=tuple(comparisons),
    )


def gated_runner(loaded: Loaded, plan: Plan) -> Run:
    """A runner for the dense model, in which what the plan prunes is gated to zero."""
    model, anatomy = loaded.model, loaded.anatomy
    fed, run = named_feed_forwards(model, anatomy, plan, loaded.inputs), runner(loaded.model)

    def run_gated(sample: SampleRun) -> list[Tensor]:
        with torch.inference_mode(), plan_gated(model, anatomy, plan, fed):
            return run(sample)

    return run_gated


def save_pruned(
    pruned: Pruned,
    folder: str | Path,
    *,
    analysis: DenseAnalysis | None = None,
    files: Sequence[str] = (),
    skills: Sequence[str] = (),
    arguments: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> PruneRecord:
    """Write model, plan, record, certificate and card, and remove the state of the pruning.

    Args:
        pruned: the result of `prune`.
        folder: the output folder.
        analysis: the dense model's analysis, to report which functions survive.
        files: files of the development set, for the certificate.
        skills: names of skills that the given and the pruned model are asked for, with needles in
            a sample of ours; causal language models only.
        arguments: arguments of the command, for the record; by default those of `prune`.
        overwrite: replace a pruned model in the folder.
        progress: called with the stage and its progress.

    Raises:
        InputError: if the folder is taken.
        ModelError: if the gated, the compact and the reloaded model differ.
    """
    folder, record = Path(folder), pruned.record
    if arguments is not None:
        record = replace(record, arguments=arguments)
    if analysis is not None:
        record = replace(record, functions=analysis.surviving(pruned, progress))
    record = _asked(record, pruned, skills, progress)
    with staged(folder, overwrite) as staging:
        data = Data.of_task(pruned.dev, pruned.model, files)
        certificate = certify(staging, pruned.dense, pruned.plan, pruned.compact, data, progress)
        pruned.plan.write(staging / "plan.json")
        auto_class = auto_class_of(pruned.model)
        record = replace(
            record,
            base=base_of(pruned.dense),
            auto_class=auto_class,
            plain=is_plain(staging),
            comparisons=certificate.comparisons,
        )
        write_head_card(staging, record)
    forget_run(folder, COMPACT)
    return record


def _asked(
    record: PruneRecord, pruned: Pruned, names: Sequence[str], progress: Progress
) -> PruneRecord:
    """The record with what both models can do; with a warning where they can't be asked."""
    for name in names:
        try:
            found = kept_skills(
                pruned.given,
                pruned.compact,
                Corpus(SAMPLE),
                [name],
                pruned.asked or BRIEF,
                progress,
            )
        except InputError as error:
            warning = f"the model was not asked for the skill {name}: {error}"
            record = replace(record, warnings=(*record.warnings, warning))
        else:
            record = replace(record, skills=record.skills + found)
    return record


def write_head_card(folder: Path, record: PruneRecord) -> None:
    """Write the card, the same as a page and, last, the record."""
    card = head_card(record)
    write_readable(folder / CARD, front_matter(record) + card.markdown())
    write_readable(folder / PAGE, pages.document_page(card, record=record))
    record.write(folder)


def write_page(folder: Path) -> Path:
    """Write card and page of a pruned model again, and return the page.

    Raises:
        InputError: if the folder holds no pruned model.
    """
    write_head_card(folder, PruneRecord.read(folder))
    return folder / PAGE


def add_speed(folder: Path, speed: Speed) -> None:
    """Add a measured speed to the record and the card of a pruned model.

    Raises:
        InputError: if the folder holds no pruned model.
    """
    record = replace(PruneRecord.read(folder), speed=SpeedRecord.of(speed_record(speed)))
    if (folder / Certificate.FILE).exists() and not Certificate.read(folder).holds_for(folder):
        record = replace(record, comparisons=())
    write_head_card(folder, record)
