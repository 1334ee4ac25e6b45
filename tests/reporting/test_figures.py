"""Figures: three formats, the same bytes every time, text that stays text."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest

from headcount.core import InputError, new_figure, save, styled, visible
from headcount.pages.map_figures import confidence_map, role_map
from headcount.reporting import write_figures
from headcount.reporting.figures import FIGURES
from headcount.results import Role, read_run
from headcount.vocabulary import ROLES
from tests.pages.changed import changed
from tests.pages.drawn import assert_whole
from tests.pages.run_folder import Wish, shared_run, write_run

SMALL = Wish(layers=2, heads=3, importance=True)
SIGNS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A run with all its figures, and what `write_figures` returned; do not change them."""
    folder, before = write_run(tmp_path_factory.mktemp("drawn"), SMALL), dict(matplotlib.rcParams)
    paths = write_figures(folder)
    assert dict(matplotlib.rcParams) == before
    return folder, paths


@pytest.mark.slow
def test_every_figure_in_every_format(drawn: tuple[Path, list[Path]]):
    folder, paths = drawn
    assert [path.name for path in paths] == [
        f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png", "pdf")
    ]
    assert all(path.read_bytes().startswith(SIGNS[path.suffix]) for path in paths)
    assert {path.name for path in (folder / "figures").iterdir()} == {path.name for path in paths}


@pytest.mark.slow
@pytest.mark.usefixtures("one_format")
def test_figures_of_an_earlier_run_go(drawn: tuple[Path, list[Path]], tmp_path: Path):
    folder = shutil.copytree(drawn[0], tmp_path / "run")
    (folder / "importance.json").unlink()
    paths = write_figures(folder, ("svg",))
    stems = {path.stem for path in (folder / "figures").iterdir()}
    assert stems == {path.stem for path in paths} == {*FIGURES} - {"importance", "agreement"}


@pytest.mark.slow
def test_same_run_same_bytes(
    drawn: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in set(FIGURES) - {"role_map", "weight_and_norm", "importance", "agreement"}:
        monkeypatch.delitem(FIGURES, name)
    first = {path.name: path.read_bytes() for path in drawn[1] if path.stem in FIGURES}
    again = write_figures(write_run(tmp_path, SMALL))
    assert len(again) == 12 and {path.name: path.read_bytes() for path in again} == first


@pytest.mark.slow
def test_text_of_an_svg_is_text_and_has_no_date(drawn: tuple[Path, list[Path]]):
    (path,) = [path for path in drawn[1] if path.name == "role_map.svg"]
    text = path.read_text()
    assert "Encoder self-attention" in text and "<dc:date>" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["translator", "hostile", "roleless", "profiled"])
@pytest.mark.parametrize("figure", FIGURES)
def test_draws_any_run(name: str, figure: str, request: pytest.FixtureRequest):
    run = shared_run(request.getfixturevalue(name))
    with styled():
        drawn = FIGURES[figure](run)
        missing = {
            "hostile": {"relations", "weight_and_norm"},
            "roleless": {"importance", "agreement"},
            "profiled": {"importance", "agreement"},
        }.get(name, set())
        assert (drawn is None) == (figure in missing)
        if drawn is not None:
            drawn.canvas.draw()


@pytest.mark.once
@pytest.mark.parametrize("heads", [1, 4])
def test_figures_of_few_heads_are_whole(tmp_path: Path, heads: int):
    """Labels larger than the map itself are not cut off."""
    run = read_run(write_run(tmp_path, Wish(layers=heads, heads=heads)))
    every = itertools.cycle(ROLES)
    run = changed(run, roles={row.head: (Role(next(every)),) for row in run.rows})
    run = changed(run, rows=tuple(replace(r, roles=tuple(ROLES)) for r in run.rows))
    with styled():
        for draw in (role_map, confidence_map):
            assert_whole(draw(run), draw.__name__)


@pytest.mark.slow
def test_no_trees_no_figure_of_relations(tmp_path: Path):
    folder = write_run(tmp_path, replace(SMALL, relations=False))
    assert not [path for path in write_figures(folder, ("svg",)) if path.stem == "relations"]


def test_unknown_format(tmp_path: Path):
    with pytest.raises(InputError, match=r"svg, png, pdf, got \['gif'\]"):
        write_figures(write_run(tmp_path, SMALL), ("svg", "gif"))


def test_control_characters_are_drawn_as_signs(tmp_path: Path):
    """In titles, such as names of folders, and in labels of ticks, such as relations."""
    with styled():
        figure = new_figure(2.0, 2.0)
        axes = figure.subplots()
        axes.set_title("a\x1b[31m")
        path = save(figure, tmp_path / "a.svg")
    text = path.read_text(encoding="utf-8")
    assert ">a\ufffd[31m<" in text and visible(text) == text
    with styled(), pytest.warns(UserWarning, match="Glyph 7"):
        axes.set_yticks([0.5], ["b\x07c"])
        text = save(figure, tmp_path / "b.svg").read_text(encoding="utf-8")
    assert ">b\ufffdc<" in text and visible(text) == text
