"""Commands on images, from the analysis to a pruned model."""

import re
from pathlib import Path

import pandas as pd
import pytest

from headcount import load
from headcount.core import ModelError
from tests import pictures
from tests.commanding import headcount

TASK = ("--task", "image-classification")


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures.save(pictures.random(), tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Images to choose heads on, for development, and for testing."""
    folder = tmp_path_factory.mktemp("images")
    return [
        pictures.write_images(folder / name, 12, pictures.LABELS, seed)
        for seed, name in enumerate(("train", "dev", "test"))
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_from_images_to_a_report_with_worth(vit: Path, images: list[Path], tmp_path: Path):
    out = tmp_path / "out"
    status, output, errors = headcount("analyze", vit, images[0], "--out", out, "--null")
    assert status == 0, errors
    assert output.startswith("Analysed 4 heads on 12 images, 252 tokens")
    assert (
        "More images: what was not tested has too few cases." in output and "sentence" not in output
    )
    status, output, errors = headcount(
        "importance", vit, *TASK, "--data", images[1], "--out", out, "--methods", "gradient",
        "relevance", "ablation", "norm", "sink",
    )  # fmt: skip
    assert status == 0, errors
    assert "on 12 examples of the task image-classification" in output and "loss" in output
    table = pd.read_parquet(out / "heads.parquet")
    assert (
        table[["attn_class", "attn_distance", "ablation_delta", "relevance"]]
        .notna()
        .to_numpy()
        .all()
    )
    page = (out / "report.html").read_text()
    assert "12 images" in page and "Which matter" in page


@pytest.mark.slow
def test_curve_prune_and_evaluate(vit: Path, images: list[Path], tmp_path: Path):
    files = ("--data", images[0], "--dev", images[1], "--test", images[2])
    status, output, errors = headcount(
        "curve", vit, *TASK, *files, "--methods", "gradient", "--keep", 2, "--out", tmp_path / "c"
    )
    assert status == 0, errors
    fewer = ("--method", "gradient", "--keep", 3, "--out", tmp_path / "p")
    with pytest.warns(
        UserWarning, match="speed was not measured: Expected a model that reads tokens"
    ):
        status, output, errors = headcount("prune", vit, *TASK, *files, *fewer)
    assert status == 0, errors
    smaller = load(tmp_path / "p")
    assert len(smaller.heads) == 3 and smaller.image_processor is not None
    status, output, errors = headcount("evaluate", tmp_path / "p", *TASK, "--data", images[2])
    assert status == 0 and "accuracy" in output, errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "classification"), "Expected a file at .*, got a folder. Name the files"),
        ((*TASK, "--num-beams", 2), "--num-beams is an option of translation, but the task is im"),
    ],
)
def test_what_does_not_fit_is_refused(
    vit: Path, images: list[Path], tmp_path: Path, arguments: tuple, message: str
):
    status, _, errors = headcount(
        "importance", vit, *arguments, "--data", images[0], "--out", tmp_path / "out"
    )
    assert status != 0
    assert re.search(message, errors), errors


def test_a_page_for_texts_is_refused_before_it_opens(vit: Path):
    from headcount.serve import open_model

    with pytest.raises(ModelError, match="Expected a model that reads text here, got"):
        open_model(str(vit))


def test_texts_for_images_are_refused(vit: Path, images: list[Path], bert: Path, tmp_path: Path):
    (text := tmp_path / "a.txt").write_text("A text.")
    for model, corpus, message in (
        (vit, text, "Expected a model that reads text here, got"),
        (bert, images[0], "Expected a model that reads images, got"),
    ):
        status, _, errors = headcount("analyze", model, corpus, "--out", tmp_path / "out")
        assert status != 0 and message in errors, errors
