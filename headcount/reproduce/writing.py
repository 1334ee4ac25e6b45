"""Write a reproduction into the folder of its run, as one Markdown file with figures."""

from collections import Counter
from pathlib import Path

from matplotlib.figure import Figure

from headcount.core import FORMATS, InputError, save, styled, write_text
from headcount.corpora import Corpus
from headcount.importance import check_same_measurement
from headcount.reproduce.michel2019 import Ablated, histogram, reproduce_michel2019, two_data_sets
from headcount.reproduce.voita2019 import (
    function_maps,
    has_rare,
    positions,
    rare_maps,
    reproduce_voita2019,
)
from headcount.results import read_run


def write_michel2019(folder: Path, other_folder: Path | None = None) -> Path:
    """Write `michel2019.md` and figures from one or two assessments by ablation.

    Raises:
        InputError: if a folder holds no such assessment, or the two have different heads.
    """
    ablated = Ablated.read(folder)
    if other_folder is not None:
        check_same_measurement(
            other_folder, ablated.record.task, ablated.quantity, ablated.replacement
        )
    other = None if other_folder is None else Ablated.read(other_folder)
    with styled():
        figures = {"michel2019_figure1": histogram(ablated)}
        if other is not None:
            figures["michel2019_figure2"] = two_data_sets(ablated, other)
        return _write(folder / "michel2019.md", reproduce_michel2019(ablated, other), figures)


def write_voita2019(folder: Path, corpus: Corpus) -> Path:
    """Write `voita2019.md` and figures from an analysis of a treebank with relevance.

    Raises:
        InputError: if the folder holds no analysis, or relevance was not measured.
    """
    run = read_run(folder)
    if "relevance" not in run.measures:
        raise InputError(
            f"Expected an analysis with relevance in {folder}, but it has none. Run `headcount "
            f"importance ... --methods relevance --out {folder}` first"
        )
    offsets = dependent_positions(corpus)
    with styled():
        figures = {"voita2019_figure1": function_maps(run), "voita2019_figure3": positions(offsets)}
        if has_rare(run):
            figures["voita2019_figure5"] = rare_maps(run)
        return _write(folder / "voita2019.md", reproduce_voita2019(run, offsets), figures)


def dependent_positions(corpus: Corpus) -> dict[str, dict[int, int]]:
    """Number of dependents at each position from their head, in words, by relation."""
    counts: dict[str, Counter[int]] = {}
    for sentence in corpus:
        tree = sentence.tree
        if tree is None:
            continue
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if head >= 0:
                counts.setdefault(relation, Counter())[word - head] += 1
    return {relation: dict(each) for relation, each in counts.items()}


def _write(path: Path, text: str, figures: dict[str, Figure]) -> Path:
    for name, figure in figures.items():
        for kind in FORMATS:
            save(figure, path.parent / "figures" / f"{name}.{kind}")
        text += f"\n![{name}](figures/{name}.svg)\n"
    write_text(path, text)
    return path
