"""An analysis of images: what was planted is found, noise is not, and only what makes sense."""

import math
from copy import copy
from pathlib import Path

import pytest
import torch

from headcount import Corpus, analyze, load, measure
from headcount.analysis import Options
from headcount.analysis.images import sampled
from headcount.core import Grid, InputError, ModelError
from headcount.results import Analysis, read_run
from tests import pictures, tiny

NUM_IMAGES = 80


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("images")
    return Corpus(pictures.write_images(folder, NUM_IMAGES, pictures.LABELS))


@pytest.fixture(scope="module")
def found(corpus: Corpus) -> Analysis:
    return analyze(pictures.loaded(pictures.planted()), corpus)


def test_planted_heads_are_found(found: Analysis):
    roles = {head: {role.role for role in roles} for head, roles in found.roles.items()}
    assert roles[f"enc.0.{pictures.LEFT}"] >= {"positional"}
    assert roles[f"enc.0.{pictures.CLASS}"] == {"sink"}
    assert roles[f"enc.0.{pictures.ROW}"] == {"line"}
    assert roles[f"enc.0.{pictures.EVEN}"] == set()
    assert roles[f"enc.0.{pictures.SPOT}"] == {"spot"}
    (spot,) = found.roles[f"enc.0.{pictures.SPOT}"]
    (left, *_), (sink,), (line,) = (found.roles[f"enc.0.{n}"] for n in range(3))
    assert [role.direction for role in (left, sink, line, spot)] == [
        "to the left", None, "row", "row 2, column 4",
    ]  # fmt: skip
    said = [role.evidence.replace("\u202f", " ").split(";")[0] for role in (left, sink, line, spot)]
    assert said == [
        "looks at the patch to the left in 100 % of cases",
        "gives 100 % of its attention to the class token",
        "gives 100 % of its attention to the patch's own row",
        "gives 100 % of its attention to the patch in row 2, column 4 of every image",
    ]


def test_numbers_of_planted_heads(found: Analysis):
    frame = found.heads.frame.set_index("index")
    assert frame.loc[pictures.EVEN, "attn_class"] == pytest.approx(1 / 21)
    assert frame.loc[pictures.ROW, "attn_row"] == pytest.approx(1, abs=1e-3)
    assert frame.loc[pictures.LEFT, "attn_left"] == pytest.approx(0.8, abs=1e-3)  # 4 of 5 columns
    places = [(row, column) for row in range(4) for column in range(5)]
    even = sum(math.dist(one, other) for one in places for other in places) / len(places) ** 2
    assert frame.loc[pictures.EVEN, "attn_distance"] == pytest.approx(even, rel=1e-4)


def test_nothing_of_texts_is_reported(found: Analysis, tmp_path: Path):
    columns = " ".join(map(str, found.heads.frame))
    assert not any(each in columns for each in ("rare", "sep", "punct", "prev", "next", "pattern"))
    traits = {
        "left",
        "right",
        "above",
        "below",
        "same",
        "place",
        "class",
        "row",
        "column",
        "near",
        "spot",
    }
    assert set(found.profiles["trait"]) == traits
    assert found.relations is None
    found.write(tmp_path)
    run = read_run(tmp_path)
    assert run.record.grid is not None
    assert (run.record.grid.rows, run.record.grid.columns, run.record.grid.special) == (4, 5, 1)
    assert run.record.counts.sentences == NUM_IMAGES
    shown = run.examples[f"enc.0.{pictures.LEFT}"][0]
    assert shown.image.startswith("data:image/png;base64,")
    assert shown.queries[:3] == ("[CLS]", "all patches", "r1c1")


@pytest.mark.slow
def test_a_saved_model_has_the_same_numbers_in_any_batches(corpus: Corpus, tmp_path: Path):
    folder = pictures.save(pictures.planted(), tmp_path)
    found, few = load(folder), copy(corpus)
    few.limit = 9
    one, other = (analyze(found, few, Options(max_tokens=size)).heads.frame for size in (21, 4096))
    torch.testing.assert_close(
        torch.tensor(one.select_dtypes("float").to_numpy()),
        torch.tensor(other.select_dtypes("float").to_numpy()),
    )
    assert list(measure(found, few).frame)[4:] == [
        name
        for name in one
        if name not in ("head", "site", "layer", "index", "roles", "tendencies")
    ]


def test_options_and_models_of_texts_are_refused(corpus: Corpus):
    model = pictures.loaded(pictures.planted())
    with pytest.raises(InputError, match="--windows only affects texts, but the corpus is images"):
        analyze(model, corpus, Options(windows=True))
    with pytest.raises(
        ModelError, match="Expected a model that reads text here.* which reads pixel_values"
    ):
        analyze(model, Corpus.from_sentences(["A text."]))
    with pytest.raises(ModelError, match="Expected a model that reads images, got .*bert"):
        measure(tiny.MODELS["bert"](), corpus)
    with pytest.raises(ModelError, match="Expected an image processor beside the weights"):
        measure(tiny.MODELS["vit"](), corpus)


@pytest.mark.parametrize(
    ("rows", "columns", "kept"), [(8, 8, 64), (14, 14, 16), (24, 24, 4), (37, 37, 4), (1, 3, 3)]
)
def test_few_patches_are_kept_of_large_grids(rows: int, columns: int, kept: int):
    grid = Grid(rows, columns, 1)
    tokens = sampled(grid)
    assert len(tokens) == kept and sorted({*tokens}) == tokens
    places = [divmod(token - 1, columns) for token in tokens]
    for axis, size in ((0, rows), (1, columns)):  # as far from one edge as from the other
        found = {place[axis] for place in places}
        assert abs(min(found) - (size - 1 - max(found))) <= 1
