"""Positions of dependents, counted by hand; the syntactic table takes the best head."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headcount.core import InputError
from headcount.corpora import Corpus, Sentence, Tree
from headcount.papers import read_voita2019, voita2019_document
from headcount.papers.reproduce.voita2019 import (
    SYNTACTIC,
    check_only_relevance,
    dependent_positions,
)
from headcount.papers.reproduce.voita2019_figures import rare_maps
from headcount.results import read_run
from tests.pages.changed import changed
from tests.pages.run_folder import Wish, write_run
from tests.pages.test_profile_view import TRAIT

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
    text = voita2019_document(run, {"nsubj": {-1: 3, -4: 1}}).markdown()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    nsubj = next(row for row in rows if row[:2] == ["nsubj", "v→s"])
    scores = [
        one
        for one in run.relation_rows or ()
        if (one.relation, one.direction) == ("nsubj", "head->dependent")
    ]
    best = max(scores, key=lambda one: one.accuracy)
    here = f"{100 * best.accuracy:.0f} / {100 * best.baseline:.0f}"
    assert nsubj[2:6] == ["45 / 35", "77 / 45", here, best.head]
    assert ["nsubj", "4", "0", "75", "0", "0"] in rows
    assert next(row for row in rows if row[:1] == ["paper, OpenSubtitles"])[2:] == ["66", "83"]
    heads = [int(row[2]) for row in rows if len(row) == 6 and row[1] == "none of these"]
    functional = [row for row in run.rows if {"positional", "syntactic", "rare"} & set(row.roles)]
    assert sum(heads) == len(run.rows) - len(functional)


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_the_tested_head_is_that_of_one_half(tmp_path: Path) -> None:
    """Its numbers are those of the other half, in which another head is luckier."""
    run = read_run(write_run(tmp_path, Wish(layers=2, heads=3, importance=True)))
    way = {"trait": "nsubj", "relation": "nsubj", "direction": "head->dependent"}
    chosen = replace(TRAIT, **way, head="enc.0.1", share=0.44, chance=0.31, first_gain=0.3)
    lucky = replace(chosen, head="enc.1.2", share=0.9, first_gain=0.1)
    nothing = replace(chosen, head="enc.1.1", first_gain=math.nan)
    profiles = {each.head: (each,) for each in (lucky, chosen, nothing)}
    found = cells(voita2019_document(changed(run, traits=profiles), {}).markdown())
    (row,) = [each for each in found if each[:2] == ["nsubj", "v→s"]]
    assert row[-1] == "44 / 31 (enc.0.1, role)"


def test_relevance_by_function_and_of_the_best_head_of_each_layer(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, Wish(layers=2, heads=3, importance=True)))
    roles = [("rare",), (), ("sink",), ("positional", "rare"), (), ()]
    relevance, rare = [0.5, 0.3, 0.2, 0.1, 0.6, 0.3], [0.1, 0.7, 0.2, 0.3, 0.4, 0.5]
    heads = tuple(
        replace(
            row,
            roles=own,
            values={**row.values, "relevance": share, "rare_share": rank / 2, "rare2_share": rank},
        )
        for row, own, share, rank in zip(run.rows, roles, relevance, rare, strict=True)
    )
    text = voita2019_document(changed(run, rows=heads), {}).markdown()
    rows = {row[1]: row for row in cells(text) if len(row) == 6 and row[0].startswith("Encoder")}
    shares = {name: (row[2], row[4], row[5]) for name, row in rows.items()}
    assert shares == {
        "positional": ("1", "0.10", "5"),
        "syntactic": ("0", "–", "0"),
        "rare": ("2", "0.30", "30"),
        "none of these": ("4", "0.35", "70"),
    }
    assert "Of the 2 heads that are the most relevant in their layer, 1 have one" in text
    assert "(0.7 expected by chance): enc.0.0." in text
    (last,) = [row for row in cells(text) if row[:1] == ["here, Encoder self-attention"]]
    assert last[1:] == ["enc.0.1", "35", "70"]


def test_other_scores_are_not_replaced(tmp_path: Path) -> None:
    folder = write_run(tmp_path, Wish(layers=2, heads=3, importance=True))
    with pytest.raises(InputError, match="relevance alone would replace. Name another folder"):
        check_only_relevance(folder)


def test_without_trees_the_table_says_so(tmp_path: Path) -> None:
    wish = Wish(layers=2, heads=3, relations=False, importance=True)
    text = voita2019_document(read_run(write_run(tmp_path, wish)), {}).markdown()
    assert "the corpus has no trees" in text


def test_without_relevance_it_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, Wish(layers=2, heads=3))
    with pytest.raises(
        InputError, match="Expected an analysis with relevance in .*, but it has none"
    ):
        read_voita2019(folder, Corpus.from_sentences(["a"]))


def test_all_directions_of_the_table_are_measured_ones() -> None:
    assert {direction for _, direction in SYNTACTIC} == {"head->dependent", "dependent->head"}
    assert len(SYNTACTIC) == 8


@pytest.mark.slow
@pytest.mark.usefixtures("one_format")
def test_the_map_of_rare_tokens(tmp_path: Path) -> None:
    """Every head is a cell with its share; without rare tokens there is no map."""
    folder = write_run(tmp_path, Wish(layers=3, heads=4, importance=True))
    run = read_run(folder)
    shares = [row.values["rare2_share"] for row in run.rows]
    figure = rare_maps(run)
    assert figure is not None
    cells = [
        value
        for axes in figure.axes
        for image in axes.images
        for value in np.asarray(image.get_array())
    ]
    drawn = np.concatenate(cells[: len(shares) // 4])
    assert sorted(drawn) == pytest.approx(sorted(shares))
    path = folder / "voita2019.md"
    read_voita2019(folder, Corpus.from_sentences(["a"])).write(path)
    assert "figures/voita2019_figure5.svg" in path.read_text(encoding="utf-8")
    assert (folder / "figures" / "voita2019_figure5.pdf").exists()
    table = pd.read_parquet(folder / "heads.parquet").assign(rare2_share=np.nan)
    table.to_parquet(folder / "heads.parquet", index=False)
    read_voita2019(folder, Corpus.from_sentences(["a"])).write(path)
    assert "figure5.svg" not in path.read_text(encoding="utf-8")
    assert not (folder / "figures" / "voita2019_figure5.pdf").exists()
