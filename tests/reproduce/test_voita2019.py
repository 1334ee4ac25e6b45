"""Positions of dependents, counted by hand; the syntactic table takes the best head."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headcount.core import InputError
from headcount.corpora import Corpus, Sentence, Tree
from headcount.reproduce import voita2019_document, write_voita2019
from headcount.reproduce.voita2019 import SYNTACTIC, dependent_positions
from headcount.reproduce.voita2019_figures import rare_maps
from headcount.results import read_run
from tests.reports.run_folder import Wish, write_run

OLD = Tree((2, 2, 3, -1), ("det", "amod", "nsubj", "root"), ("DET", "ADJ", "NOUN", "VERB"))
SHE = Tree((1, -1, 1), ("nsubj", "root", "obj"), ("PRON", "VERB", "PRON"))


def test_positions_are_counted_from_the_head() -> None:
    corpus = Corpus.from_sentences(
        [
            Sentence("The old dog barks", ("The", "old", "dog", "barks"), OLD),
            Sentence("She saw him", ("She", "saw", "him"), SHE),
            "no tree",
        ]
    )
    assert dependent_positions(corpus) == {
        "det": {-2: 1},
        "amod": {-1: 1},
        "nsubj": {-1: 2},
        "obj": {1: 1},
    }


def test_the_document(tmp_path: Path) -> None:
    folder = write_run(tmp_path, Wish(layers=3, heads=4, importance=True))
    run = read_run(folder)
    text = voita2019_document(run, {"nsubj": {-1: 3, -4: 1}})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    nsubj = next(row for row in rows if row[:2] == ["nsubj", "v→s"])
    scores = [
        one
        for one in run.relations or ()
        if (one.relation, one.direction) == ("nsubj", "head->dependent")
    ]
    best = max(scores, key=lambda one: one.accuracy)
    here = f"{100 * best.accuracy:.0f} / {100 * best.baseline:.0f}"
    assert nsubj[2:6] == ["45 / 35", "77 / 45", here, best.head]
    assert ["nsubj", "4", "0", "75", "0", "0"] in rows
    assert next(row for row in rows if row[:1] == ["paper, OpenSubtitles"])[2:] == ["66", "83"]
    heads = [int(row[2]) for row in rows if len(row) == 6 and row[1] == "none of these"]
    functional = [row for row in run.heads if {"positional", "syntactic", "rare"} & set(row.roles)]
    assert sum(heads) == len(run.heads) - len(functional)


def test_without_trees_the_table_says_so(tmp_path: Path) -> None:
    wish = Wish(layers=2, heads=3, relations=False, importance=True)
    assert "the corpus has no trees" in voita2019_document(read_run(write_run(tmp_path, wish)), {})


def test_without_relevance_it_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, Wish(layers=2, heads=3))
    with pytest.raises(
        InputError, match="Expected an analysis with relevance in .*, but it has none"
    ):
        write_voita2019(folder, Corpus.from_sentences(["a"]))


def test_all_directions_of_the_table_are_measured_ones() -> None:
    assert {direction for _, direction in SYNTACTIC} == {"head->dependent", "dependent->head"}
    assert len(SYNTACTIC) == 8


@pytest.mark.usefixtures("one_format")
def test_the_map_of_rare_tokens(tmp_path: Path) -> None:
    """Every head is a cell with its share; without rare tokens there is no map."""
    folder = write_run(tmp_path, Wish(layers=3, heads=4, importance=True))
    run = read_run(folder)
    shares = [row.values["rare2_share"] for row in run.heads]
    figure = rare_maps(run)
    cells = [
        value
        for axes in figure.axes
        for image in axes.images
        for value in np.asarray(image.get_array())
    ]
    drawn = np.concatenate(cells[: len(shares) // 4])
    assert sorted(drawn) == pytest.approx(sorted(shares))
    path = write_voita2019(folder, Corpus.from_sentences(["a"]))
    assert "figures/voita2019_figure5.svg" in path.read_text(encoding="utf-8")
    assert (folder / "figures" / "voita2019_figure5.pdf").exists()
    table = pd.read_parquet(folder / "heads.parquet").assign(rare2_share=np.nan)
    table.to_parquet(folder / "heads.parquet", index=False)
    assert "figure5.svg" not in write_voita2019(folder, Corpus.from_sentences(["a"])).read_text()
