"""Are Sixteen Heads Really Better than One? Tables 1 to 3 and figures 1 and 2, with our numbers.

One head removed at a time (section 3.2), one head kept per layer (3.3), and the same heads on other
data (3.4). A change is the score without the heads minus the score of the dense model; an asterisk
means p < 0.01, uncorrected, as bold does in the paper. Significance is that of the run: paired
approximate randomization for BLEU, chrF and accuracy (the paper uses a paired bootstrap for BLEU
and a t-test for accuracy), a paired bootstrap for all else. The only kept head of a layer is chosen
on other examples than it is measured on: on the first of two data sets, or by each half for the
other half.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019),
https://arxiv.org/abs/1905.10650
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from transformers import PreTrainedModel

from headcount import numbers
from headcount.core import (
    ACCENT,
    INK,
    MAX_TOKENS,
    MUTED,
    SITE_COLOURS,
    SITE_MARKERS,
    Block,
    Chart,
    Document,
    Heading,
    HeadTable,
    Progress,
    Table,
    Text,
    amount,
    new_figure,
    silent,
)
from headcount.importance import Options, assess, check_same_measurement, effects, read_assessment
from headcount.models import Loaded, as_loaded, revision
from headcount.pages import SITE_TITLES, write_report
from headcount.papers.document import change, in_unit, scale
from headcount.results import AblationFacts, Effect, ImportanceRecord, Signature, check_same_model
from headcount.tasks import Task

ALPHA = 0.01
"""The paper's level of significance."""

SIGNIFICANT_WMT = (96, 8, 4)
"""The WMT model's encoder: heads, those with a significant change, those better removed."""

ONE_LEFT_WMT: Mapping[str, tuple[float, ...]] = {
    "encoder.self": (-1.31, -0.16, 0.12, -0.15, 0.02, -0.36),
    "decoder.cross": (0.24, 0.06, 0.05, -0.24, -1.55, -13.56),
    "decoder.self": (-0.03, 0.12, 0.18, 0.17, -0.04, 0.24),
}
"""Table 2: best change of BLEU by layer when one head is kept."""

ONE_LEFT_BERT = (-0.01, 0.10, -0.14, -0.53, -0.29, -0.52, 0.05, -0.72, -0.96, 0.07, -0.19, -0.12)
"""Table 3: best change of MNLI accuracy in points."""

PEARSON = {"WMT, newstest2013 and MTNT": 0.56, "BERT, MNLI matched and mismatched": 0.68}
"""Figure 2: correlation of a head's effect on two data sets."""


@final
@dataclass(frozen=True)
class Ablated:
    """Measured ablations of one model on one data set, as changes of the score."""

    frame: pd.DataFrame
    record: ImportanceRecord

    @classmethod
    def read(cls, folder: Path) -> "Ablated":
        """Read the ablations that `headcount importance` wrote to a folder."""
        found = read_assessment(folder, "ablation")
        return cls(found.heads.frame, found.record)

    @property
    def ablation(self) -> AblationFacts:
        """How heads were ablated."""
        assert self.record.ablation is not None
        return self.record.ablation

    @property
    def sites(self) -> list[str]:
        """The sites of the heads."""
        return [site for site in SITE_TITLES if site in set(self.frame["site"])]

    @property
    def quantity(self) -> str:
        """The quantity that changes: the loss or the metric."""
        return self.record.quantity

    @property
    def scale(self) -> float:
        """The factor from an effect (0 to 1 except for BLEU, chrF and losses) to a change."""
        falls = self.quantity != "loss" and self.record.higher_is_better
        return (-1.0 if falls else 1.0) * scale(self.quantity)

    @property
    def unit(self) -> str:
        """The quantity with its unit."""
        return in_unit(self.quantity, higher_is_better=True)

    @property
    def change_H(self) -> np.ndarray:
        """Change of the score without each head."""
        return self.scale * self.frame["ablation_delta"].to_numpy(dtype=float)

    @property
    def base(self) -> float:
        """The score of the dense model."""
        record = self.record
        return abs(self.scale) * (record.loss if self.quantity == "loss" else record.score)

    @property
    def p_H(self) -> np.ndarray:
        """Uncorrected p-value of each head."""
        return np.array(self.ablation.p_each, dtype=float)


MEASURED = Options(("ablation",), quantity="score")
"""How heads are ablated: the change of the score, which takes a beam search per head in
translation."""


def reproduce_michel2019(
    loaded: Loaded | PreTrainedModel,
    task: Task,
    out: Path,
    *,
    other: Task | None = None,
    options: Options = MEASURED,
    arguments: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    max_tokens: int = MAX_TOKENS,
) -> Document:
    """Ablate every head on one or two data sets, and return the document.

    What an unfinished call with the same model, data and options left in the folder is resumed.

    Args:
        loaded: the model.
        task: a task on the data that single heads are chosen on.
        out: folder for the results; those on the other data are in `out/other`.
        other: the same task on other data, for figure 2 and to measure the single heads on.
        options: how heads are ablated.
        arguments: arguments of the command, for the records.
        progress: function that is called with the progress.
        max_tokens: number of padded tokens in a batch.

    Raises:
        InputError: if a folder holds results of another model.
    """
    loaded = as_loaded(loaded)
    beside = None if other is None else out / "other"
    tasks = [(out, task, beside)]
    if other is not None and beside is not None:
        tasks.insert(0, (beside, other, None))
    for folder, _, _ in tasks:  # before hours of work
        check_same_model(folder, loaded.heads, revision(loaded.model))
    options = replace(options, methods=("ablation",))
    for folder, each, against in tasks:
        found = assess(loaded, each, options, folder, progress, max_tokens, against)
        found.recorded(arguments or {}).write(folder)
    if (out / "run.json").exists():
        write_report(out)
    return read_michel2019(out, beside)


def read_michel2019(folder: Path, other_folder: Path | None = None) -> Document:
    """The document, from the folders of one or two assessments by ablation.

    Raises:
        InputError: if a folder holds no such assessment, or the two have different heads.
    """
    ablated = Ablated.read(folder)
    if other_folder is not None:
        check_same_measurement(
            other_folder,
            ablated.record.task,
            ablated.quantity,
            ablated.ablation.replacement,
            Signature.parse(ablated.record.signature),
        )
    other = None if other_folder is None else Ablated.read(other_folder)
    return michel2019_document(ablated, other)


def michel2019_document(ablated: Ablated, other: Ablated | None = None) -> Document:
    """The document.

    Args:
        ablated: ablations on one data set.
        other: ablations on another data set of the same task, for figure 2; the kept head of a
            layer is then chosen on the first and measured on this one, as at the end of 3.3.
    """
    record = ablated.record
    return Document(
        "Are Sixteen Heads Really Better than One? (Michel et al., 2019), with our numbers",
        (
            Text(
                f"Task {record.task}, {amount(record.num_examples, 'example')}, {ablated.unit} "
                f"{ablated.base:.2f}. Published numbers are for other models on other data: the "
                "large Transformer of WMT 2014 EN-FR (6 layers x 16 heads at three sites, BLEU "
                "36.05 on newstest2013), and BERT-base on MNLI. Changes are the score without the "
                f"heads minus the score of the dense model; *: p < {ALPHA}, uncorrected."
            ),
            *_one_at_a_time(ablated),
            *_one_left(ablated, other),
            *_two_data_sets(ablated, other),
        ),
    ).ending((), str(record.signature))


def _one_at_a_time(ablated: Ablated) -> Iterator[Block]:
    change_H, sure_H = ablated.change_H, ablated.p_H < ALPHA
    good = -np.sign(ablated.scale)
    better = int((sure_H & (np.sign(change_H) == good)).sum())
    holm = int((ablated.frame["ablation_p"].to_numpy(dtype=float) < ALPHA).sum())
    heads, significant, paper_better = SIGNIFICANT_WMT
    largest = change(change_H[abs(change_H).argmax()])
    counts = {
        "paper, WMT encoder": (heads, significant, paper_better, "–", "–"),
        "here": (len(change_H), int(sure_H.sum()), better, holm, largest),
    }
    rows = [
        [name, *map(str, (num, sure, f"{ALPHA * num:.2f}", *others))]
        for name, (num, sure, *others) in counts.items()
    ]
    header = ["", "heads", f"change with p < {ALPHA}", "by chance alone"]
    header += ["of these, better without it", "after Holm's correction", "largest change"]
    yield Heading("One head at a time (section 3.2, figure 1, table 1)")
    yield Table.of(header, rows, "Number of heads whose removal changes the score")
    for site in ablated.sites:
        yield from _grid(ablated, site)
    yield Chart(
        "michel2019_figure1",
        "Heads by the score of the model without them",
        partial(histogram, ablated),
    )


def _grid(ablated: Ablated, site: str) -> Iterator[Block]:
    """Table 1: layers x heads of one site."""
    frame = ablated.frame.assign(change=ablated.change_H, each=ablated.p_H)
    columns = HeadTable(frame)
    cells = zip(columns.grid(site, "change"), columns.grid(site, "each"), strict=True)
    rows = [
        [str(layer), *(change(one, bool(p < ALPHA)) for one, p in zip(changes, ps, strict=True))]
        for layer, (changes, ps) in enumerate(cells)
    ]
    header = ["layer", *map(str, range(len(rows[0]) - 1))]
    title = f"Change of {ablated.unit}, {SITE_TITLES[site]}"
    yield Text(f"{title}:")
    yield Table.of(header, rows, title)


def _one_left(ablated: Ablated, other: Ablated | None) -> Iterator[Block]:
    measured = other or ablated
    yield Heading("One head kept in a layer (section 3.3, tables 2 and 3)")
    if not (ablated.record.all_but_one and measured.record.all_but_one):
        yield Text(
            "Not measured: no layer has several heads, or a run left this out (--no-one-left)."
        )
        return
    found = {one.head: one for one in measured.record.all_but_one}
    rows = []
    for best in ablated.record.single_heads:
        site, layer, one = best.site, best.layer, found[best.head] if other else best
        here = change(measured.scale * one.delta, one.p_each < ALPHA)
        known = [SITE_TITLES[site], str(layer), best.head, here, _within(measured.scale, one)]
        rows.append([*known, *_published(site, layer)])
    header = ["site", "layer", "head kept", "here", "95 % interval", "paper, WMT", "paper, BERT"]
    yield Text(
        f"Change of {ablated.unit} when all heads of the layer but the best are removed; "
        f"{_chosen(ablated, other)}."
    )
    yield Table.of(header, rows, "Change of the score with one head in a layer")


def _within(scale: float, one: Effect) -> str:
    """The interval of a change."""
    if math.isnan(one.low):
        return "–"
    low, high = sorted(scale * end for end in (one.low, one.high))
    return f"{change(low)} to {change(high)}"


def _chosen(ablated: Ablated, other: Ablated | None) -> str:
    """How the heads to keep were chosen."""
    if other is not None:
        return "the head was chosen on other data than it is measured on"
    if all(best.halves for best in ablated.record.single_heads):
        return (
            "each half of the examples chose a head that was measured on the other half, and the "
            "name is the choice of all examples"
        )
    return "the head was chosen on the data it is measured on, so its numbers are optimistic"


def _published(site: str, layer: int) -> tuple[str, str]:
    wmt = ONE_LEFT_WMT[site]
    bert = ONE_LEFT_BERT if site == "encoder.self" else ()
    return tuple(change(each[layer]) if layer < len(each) else "" for each in (wmt, bert))  # type: ignore[return-value]


def _two_data_sets(ablated: Ablated, other: Ablated | None) -> Iterator[Block]:
    rows = [[f"paper, {name}", f"{r:.2f}", "", ""] for name, r in PEARSON.items()]
    note = "No second data set was given (--other-data)."
    if other is not None:
        found = effects(ablated.frame, other.frame)
        r = found.pearson
        pearson, low, high = map(numbers.correlation, (r.rho, r.low, r.high))
        spearman = numbers.correlation(found.spearman.rho)
        rows.append(["here", pearson, f"{low} to {high}", spearman])
        note = (
            f"The other data: {amount(other.record.num_examples, 'example')}, {other.unit} "
            f"{other.base:.2f}. The interval treats heads as independent draws."
        )
    header = ["", "Pearson's r", "95 % interval", "Spearman's rho"]
    yield Heading("Are important heads the same on other data? (section 3.4, figure 2)")
    yield Table.of(header, rows, "Correlation of the effects of heads on two data sets")
    yield Text(note)
    if other is not None:
        yield Chart(
            "michel2019_figure2",
            "The score without each head on two data sets",
            partial(two_data_sets, ablated, other),
        )


def histogram(ablated: Ablated) -> Figure:
    """Heads by the score of the model without them; a dashed line marks the dense model."""
    score_H = ablated.base + ablated.change_H
    edges = np.histogram_bin_edges(score_H, bins=min(40, max(10, len(score_H) // 3)))
    parts = [score_H[(ablated.frame["site"] == site).to_numpy()] for site in ablated.sites]
    figure = new_figure(4.2, 2.4)
    axes = figure.subplots()
    axes.hist(
        parts,
        edges.tolist(),
        stacked=True,
        color=[SITE_COLOURS[site] for site in ablated.sites],
        label=[SITE_TITLES[site] for site in ablated.sites],
    )
    axes.axvline(ablated.base, color=ACCENT, linestyle="--", linewidth=1, label="dense model")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"{ablated.unit} without the head")
    axes.set_ylabel("heads")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def two_data_sets(ablated: Ablated, other: Ablated) -> Figure:
    """The score without each head on two data sets; a star marks the dense model."""
    figure = new_figure(4.2, 3.8)
    axes = figure.subplots()
    frame = other.frame.assign(other=other.base + other.change_H).set_index("head")
    score_H = ablated.base + ablated.change_H
    other_H = frame.loc[ablated.frame["head"], "other"].to_numpy()
    for site in ablated.sites:
        chosen = (ablated.frame["site"] == site).to_numpy()
        axes.scatter(
            score_H[chosen],
            other_H[chosen],
            s=12,
            alpha=0.7,
            linewidth=0,
            label=SITE_TITLES[site],
            color=SITE_COLOURS.get(site, INK),
            marker=SITE_MARKERS.get(site, "D"),
        )
    axes.axvline(ablated.base, color=MUTED, linewidth=0.5, zorder=0)
    axes.axhline(other.base, color=MUTED, linewidth=0.5, zorder=0)
    axes.scatter([ablated.base], [other.base], s=70, marker="*", color=ACCENT, label="dense model")
    axes.set_xlabel(f"{ablated.unit} without the head")
    axes.set_ylabel(f"{other.unit}, other data")
    figure.legend(loc="outside upper center", ncols=2)
    return figure
