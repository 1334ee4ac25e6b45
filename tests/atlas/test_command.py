"""The heads of several runs on one site: `headcount atlas`."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from headcount.atlas import AtlasRecord, write_atlas
from headcount.core import InputError
from headcount.pages import html
from headcount.results import Analysis, read_run
from tests.cli.conftest import headcount

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
"""Folders of real runs."""
RUNS = tuple(GALLERY / name for name in ("smollm2", "minilm", "vit", "en-de"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pages of runs empty, which take seconds each."""
    monkeypatch.setattr("headcount.atlas.atlas.render", lambda view: view.title)


@pytest.mark.slow
def test_every_head_of_every_run_is_in_the_atlas(tmp_path: Path, undrawn: None) -> None:
    found = write_atlas(RUNS, tmp_path)
    assert AtlasRecord.read(tmp_path) == found
    runs = [read_run(folder) for folder in RUNS]
    for model, run in zip(found.models, runs, strict=True):
        assert model.signature == run.record.signature and (tmp_path / model.page).exists()
        assert [each.head for each in model.heads] == [row.head for row in run.rows]
        for head, row in zip(model.heads, run.rows, strict=True):
            layers = run.record.sites[row.site]
            assert head.roles == row.roles
            assert head.depth == row.layer / (len(layers) - 1)
            assert {each.verdict for each in head.findings} <= {"role", "tendency"}
    assert [model.name for model in found.models] == [
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "sentence-transformers/all-MiniLM-L6-v2",
        "vit",
        "headcount:en-de",
    ]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(f'<a href="{model.page}">{model.name}</a>' in page for model in found.models)
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page


def test_two_runs_of_a_model_are_told_apart(tmp_path: Path, undrawn: None) -> None:
    copies = [tmp_path / "one", tmp_path / "other"]
    for each in copies:
        shutil.copytree(GALLERY / "vit", each)
    found = write_atlas(copies, tmp_path / "out")
    names = [model.name for model in found.models]
    assert len({*names}) == 2 and len({model.page for model in found.models}) == 2
    assert all(name.startswith("vit on ") for name in names)


def test_the_scores_of_a_run_are_in_the_atlas(tmp_path: Path, undrawn: None) -> None:
    (model,) = write_atlas([GALLERY / "vit"], tmp_path).models
    names = {"ablation_delta", "gradient", "relevance", "norm_score", "sink_score"}
    for head, row in zip(model.heads, read_run(GALLERY / "vit").rows, strict=True):
        assert head.scores == {name: row.values[name] for name in names}
        assert head.worth


@pytest.mark.parametrize(
    ("runs", "out", "words"),
    [
        ((), "out", "Expected folders of different runs, got none"),
        (("vit", "vit"), "out", "Expected folders of different runs, got one twice"),
        (("vit",), "run", "Expected a folder for the atlas, got "),
    ],
)
def test_bad_folders_are_refused(
    runs: tuple[str, ...], out: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(InputError, match=words):
        write_atlas([GALLERY / each for each in runs], tmp_path / out)
    assert not (tmp_path / "out").exists()


def test_the_command_says_where_the_atlas_is(tmp_path: Path, undrawn: None) -> None:
    status, said, _ = headcount("atlas", GALLERY / "vit", "--out", tmp_path)
    heads = len(Analysis.read(GALLERY / "vit").rows)
    assert status == 0 and f"index.html, {heads} heads of 1 run" in said
    status, _, errors = headcount("atlas", tmp_path, "--out", tmp_path / "again")
    assert status == 2 and "Expected a folder written by `headcount analyze" in errors
    stored = json.loads((tmp_path / "atlas.json").read_text(encoding="utf-8"))
    assert stored["version"] == 1


@pytest.mark.slow
def test_the_page_of_a_run_is_that_of_its_report(tmp_path: Path) -> None:
    (model,) = write_atlas([GALLERY / "vit"], tmp_path).models
    page = (tmp_path / model.page).read_text(encoding="utf-8")
    assert page == html.render(html.report_view(read_run(GALLERY / "vit")))


@pytest.mark.slow
@pytest.mark.browser
def test_a_search_finds_heads_by_words_and_depth(
    tmp_path: Path, browser: Browser, undrawn: None
) -> None:
    found = write_atlas(RUNS, tmp_path)
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    smollm = found.models[0]
    page.fill("#words", "induction")
    page.fill("#from", "60")
    page.fill("#to", "70")
    names = page.locator("#heads tbody a.head").all_inner_texts()
    inside = [head for head in smollm.heads if 0.595 <= head.depth <= 0.705]
    assert {*names} >= {head.head for head in inside if "induction" in head.roles}
    assert {*names} <= {head.head for head in inside}
    assert names[0] == next(head.head for head in inside if head.roles[:1] == ("induction",))
    page.fill("#words", "induction nothing-of-the-kind")
    assert page.inner_text("#count") == "No head is found. Try fewer words, or a wider depth."
    page.fill("#words", "")
    page.select_option("#model", label="vit")
    page.fill("#from", "0")
    page.fill("#to", "100")
    assert page.inner_text("#count").startswith(f"{len(found.models[2].heads)} heads of 1 run")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
