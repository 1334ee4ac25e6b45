"""The heads of several runs on one site: `headcount atlas`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from headcount.atlas import About, AtlasRecord, KnownHead, missing, write_atlas
from headcount.core import InputError, encoded, write_json
from headcount.pages import html
from headcount.results import Analysis, read_run
from tests.commanding import headcount

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
"""Folders of real runs."""
RUNS = tuple(GALLERY / name for name in ("smollm2", "minilm", "vit", "en-de"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pages of runs empty, which take seconds each."""
    monkeypatch.setattr("headcount.atlas.atlas.render", lambda view, **_: view.title)


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
    from tests.pages.test_html import Page, data

    (model,) = write_atlas([GALLERY / "vit"], tmp_path).models
    page = (tmp_path / model.page).read_text(encoding="utf-8")
    shown, whole = data(Page(page)), html.page_data(html.report_view(read_run(GALLERY / "vit")))
    assert shown["heads"] == json.loads(json.dumps(whole["heads"]))
    cards = {head: {**card, "known": ""} for head, card in shown["cards"].items()}
    assert cards == json.loads(json.dumps(whole["cards"]))


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


@pytest.fixture
def added(tmp_path: Path) -> Path:
    """A run as others add it: tables, records, and what they say of it."""
    folder = tmp_path / "vit"
    run = read_run(GALLERY / "vit")
    replace(run, examples={}).write(folder)
    known = KnownHead("enc.1.2", "looks at one patch", "Smith 2020", "https://x.org", True, "24 %")
    about = About("our/digits", "our own", "MIT", "digits", "BSD", (known,))
    write_json(folder / About.FILE, encoded(about))
    return folder


def test_what_papers_say_of_a_head_is_in_the_atlas_and_on_its_card(added: Path) -> None:
    (model,) = write_atlas([added], added.parent / "site").models
    says = "Known head (Smith 2020): looks at one patch. Found here: 24 %."
    assert model.about == About.read_if_any(added) and model.name == "our/digits"
    assert [each.head for each in model.heads if each.known] == ["enc.1.2"]
    assert next(each.known for each in model.heads if each.known) == says
    page = (added.parent / "site" / model.page).read_text(encoding="utf-8")
    assert says in page and "Weights: our own (MIT)." in page and model.signature in page


def test_a_run_with_a_page_of_its_own_is_not_drawn_again(added: Path) -> None:
    (model,) = write_atlas([added], added.parent / "site", {added: "../vit/report.html"}).models
    assert model.page == "../vit/report.html"
    assert {each.name for each in (added.parent / "site").iterdir()} == {"index.html", "atlas.json"}


def test_a_whole_folder_can_be_added(added: Path) -> None:
    status, said, _ = headcount("check", added)
    assert (status, said) == (0, f"{added} can be added to an atlas.\n")


def test_a_sentence_says_what_each_folder_lacks(added: Path) -> None:
    about, run = About.read_if_any(added), read_run(added)
    assert about is not None
    other = replace(about.known[0], head="enc.9.9", url="")
    write_json(
        added / About.FILE, encoded(replace(about, model="/me/vit", licence=" ", known=(other,)))
    )
    replace(run, profiles=run.profiles.iloc[:0]).write(added)
    (added / "report.html").write_text("x")
    found = missing(added)
    for says in (
        "Expected a text as licence in about.json, got none.",
        "Expected heads of the model as known in about.json, got enc.9.9. Write it as enc.0.0",
        "Expected paper, url and evidence of enc.9.9 in about.json, got an empty one.",
        "Expected the name by which others find the model in about.json, got /me/vit.",
        "Expected tested traits, got none.",
        "Expected tables and records only, got report.html.",
    ):
        assert sum(each.startswith(says) for each in found) == 1, (says, found)
    assert len(found) == 6
    (added / About.FILE).unlink()
    assert any(each.startswith("Expected about.json with model, source") for each in missing(added))
    (empty := added.parent / "empty").mkdir()
    status, said, _ = headcount("check", empty)
    assert status == 1 and said.startswith("Expected a run folder, but ")


@pytest.mark.slow
@pytest.mark.browser
def test_a_search_answers_within_a_blink(tmp_path: Path, browser: Browser, undrawn: None) -> None:
    """Of all runs of the docs; times are printed, not judged, since machines differ."""
    others = sorted(each.parent for each in (GALLERY.parent / "atlas").glob("*/run.json"))
    found = write_atlas((*RUNS, *others), tmp_path)
    assert len({model.model for model in found.models}) == 10
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    took = page.evaluate(
        """() => ["induction", "subject", "known head", "dec.1", ""].map((words) => {
          document.getElementById("words").value = words;
          const from = performance.now();
          document.getElementById("words").dispatchEvent(new Event("input", { bubbles: true }));
          return performance.now() - from;
        })"""
    )
    print("search, ms:", [round(each, 1) for each in took])
    assert page.inner_text("#count").startswith(
        f"{sum(len(m.heads) for m in found.models):,} heads"
    )
