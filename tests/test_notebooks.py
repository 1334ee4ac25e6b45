"""What notebooks and consoles show of results: displays that need no network, short `repr`s."""

import inspect
import re
from collections.abc import Callable
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser

import headcount
from headcount import importance, tasks
from headcount.core import Head, InputError, Plan
from headcount.corpora import Corpus, Sentence, Tree
from headcount.importance import Sensitivity
from headcount.models import Loaded
from headcount.pages import Shown, show_analysis, show_card
from headcount.papers import Evolution
from headcount.pruning import BudgetSpec, Compensation, Pruned, PruneSettings
from headcount.results import Analysis, Curve, CurvePoints, PruneRecord, Result, Role
from tests.pages.run_folder import Wish, write_run
from tests.tasks.loaded import TRANSLATIONS, loaded

DATA = Path(__file__).parent / "results" / "data"
TEXT = "The old dog barked at the moon."


@pytest.fixture(scope="module")
def model() -> Loaded:
    return loaded("MarianMTModel")


@pytest.fixture(scope="module")
def analysis(model: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    file = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    pairs = zip(TRANSLATIONS["source"], TRANSLATIONS["target"], strict=True)
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return headcount.analyze(model, Corpus(file))


@pytest.fixture(scope="module")
def assessment(model: Loaded) -> importance.Assessment:
    task = tasks.Translation(model, TRANSLATIONS)
    options = importance.Options(("ablation", "norm"), one_left=False, samples=50)
    return importance.assess(model, task, options)


def points() -> CurvePoints:
    return CurvePoints.of(pd.read_parquet(DATA / "curve" / "curve.parquet"))


def is_offline(html: str) -> bool:
    known = html.replace("http-equiv", "").replace("http://www.w3.org/", "")
    return not re.search(r"(src|href)=[\"']?(https?:)?//|https?://[^ ]*\.(js|css|woff)", known)


@pytest.mark.slow
def test_displays_are_offline_and_say_what_matters(
    model: Loaded, analysis: Analysis, assessment: importance.Assessment
) -> None:
    shown = {
        "model": (model._repr_html_(), ["tiny MarianMTModel", "encoder.self 2 layers x 5 heads"]),
        "table": (analysis.heads._repr_html_(), ["enc.0.0", "confidence"]),
        "analysis": (analysis._repr_html_(), ["<iframe", "Every head"]),
        "assessment": (assessment._repr_html_(), ["<iframe", "ablation effect", "Taken alone"]),
        "curve": (points()._repr_html_(), ["<iframe", "&lt;svg", "heads kept", "random"]),
        "card": (analysis.card("enc.1.2")._repr_html_(), ["<iframe", "enc.1.2"]),
    }
    for name, (html, words) in shown.items():
        assert is_offline(html), name
        assert all(word in html for word in words), (name, html[:500])
    assert len(shown["card"][0]) < 200_000 and len(shown["table"][0]) < 10_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* has no hashes of the files")
@pytest.mark.parametrize(
    ("kind", "folder", "words"),
    [
        (importance.Assessment, "run", "What each head is worth"),
        (Curve, "curve", "heads kept"),
        (Sensitivity, "0.2/sensitivity", "separator"),
        (Evolution, "0.2/evolve", "<table"),
    ],
)
def test_every_result_is_displayed(kind: type[Result[Any]], folder: str, words: str) -> None:
    """Its document; a paper's result, whose document the pages do not know, as its first table."""
    html = unescape(kind.read(DATA / folder)._repr_html_())
    assert is_offline(html) and words in html


@pytest.mark.slow
def test_an_assessment_lists_the_heads_worth_most(assessment: importance.Assessment) -> None:
    page = unescape(assessment._repr_html_().split('srcdoc="')[1].split('"')[0])
    tables = pd.read_html(StringIO(page), flavor="lxml")  # bars, too, are rows
    table = next(each for each in tables if "head" in each)
    frame = assessment.heads.frame
    order = (-frame["ablation_delta"].to_numpy()).argsort(kind="stable")[: len(table)]
    assert list(table["head"]) == [frame["head"][place] for place in order] and len(table) > 4


def test_a_card_of_an_unknown_head_is_a_sentence(analysis: Analysis) -> None:
    with pytest.raises(InputError, match=r"Expected a head of the analysis \(enc.0.0 to cross"):
        analysis.card("enc.9.9")


@pytest.mark.slow
@pytest.mark.browser
def test_cards_and_reports_work_in_the_frame_of_a_notebook(
    browser: Browser, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run", Wish(profiles=True))
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    card, report = show_card(folder, "enc.2.3"), show_analysis(folder)
    page.set_content(f"<!doctype html>{card._repr_html_()}{report._repr_html_()}")
    first, second = page.frames[1:]
    assert first.inner_text("#card h2") == "enc.2.3"
    assert first.locator("#card svg.sentence .line").count() > 10
    second.locator('[data-head="enc.3.7"]').click()
    assert second.inner_text("#card h2") == "enc.3.7"
    page.keyboard.press("Escape")
    assert second.is_visible("#leads")
    second.locator("#leads a.head").first.click()
    assert second.is_visible("#card")
    assert page.frames[2].url.startswith("about:srcdoc#") and errors == []
    page.close()


LINES = 3 * 120


@pytest.mark.slow
def test_reprs_fit_three_lines(
    model: Loaded, analysis: Analysis, assessment: importance.Assessment
) -> None:
    """Every class of the public list, made with real values."""
    heads = model.heads
    plan = Plan.keeping(heads, list(heads)[::3])
    counts = {site: tuple(layers) for site, layers in heads.counts.items()}
    kept = tuple(map(str, plan.kept_heads(heads)))
    gone = tuple(map(str, plan.pruned_heads(heads)))
    record = PruneRecord(model="a model", heads=counts, kept=kept, pruned=gone)
    task = tasks.Translation(model, TRANSLATIONS)
    splits = headcount.TaskSplits(task, task, warnings=("The sets share 3 examples.",) * 9)
    made: dict[str, Any] = {
        "Analysis": analysis,
        "BudgetSpec": BudgetSpec(keep=3),
        "Compensation": Compensation(),
        "DenseAnalysis": headcount.DenseAnalysis(heads, {str(head): ["sink"] for head in heads}),
        "FurtherTraining": headcount.FurtherTraining(model, splits, headcount.FinetuneConfig()),
        "Head": Head("encoder.self", 2, 8),
        "HeadTable": analysis.heads,
        "Heads": heads,
        "Loaded": model,
        "Plan": plan,
        "PruneRecord": record,
        "PruneSettings": PruneSettings(),
        "Pruned": Pruned(plan, model, model, model, record, task),
        "Role": Role("sink", "83 % of attention on the first token", 0.8),
        "Sentence": Sentence(TEXT),
        "Shown": Shown("x", "y" * 10**6),
        "TaskSplits": splits,
        "Tree": Tree((1, -1), ("det", "root"), ("DET", "NOUN")),
    }
    for name, value in made.items():
        assert len(repr(value)) <= LINES, (name, repr(value)[: 2 * LINES])
    for value in (assessment, points(), *map(_without_arguments, headcount.__all__)):
        assert len(repr(value)) <= LINES, repr(value)[: 2 * LINES]


def _without_arguments(name: str) -> Any:
    """A public class made without arguments, if that is possible."""
    found: Callable[..., Any] = getattr(headcount, name)
    if not inspect.isclass(found):
        return None
    try:
        return found()
    except (TypeError, InputError):
        return None


def test_plans_that_differ_have_other_reprs(model: Loaded) -> None:
    one, other = (Plan.keeping(model.heads, list(model.heads)[n : n + 4]) for n in (0, 1))
    assert repr(one) != repr(other) and "sha256" in repr(one)
