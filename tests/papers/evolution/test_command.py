"""`headcount evolve`: tables, folders, resuming, and errors."""

import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertForMaskedLM

from headcount.papers import Evolution
from tests import saved
from tests.commanding import SAMPLE, headcount

pytestmark = pytest.mark.usefixtures("quick")

FEW = ("--occurrences", 5, "--types", 8, "--clusters", 6)


@pytest.mark.slow
def test_evolve_writes_tables_and_prints_them(bert: Path, marian: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount("evolve", bert, marian, SAMPLE, *FEW, "--out", out)
    assert status == 0, errors
    assert ["masked-lm-1", "output", "8", "5"] in [line.split()[:4] for line in output.splitlines()]
    assert "states take" in errors
    found = Evolution.read(out)
    assert {row.label for row in found.rows} == {"masked-lm-1", "translation-1"}
    assert found.record.arguments["occurrences"] == 5 and found.record.clusters == 6
    assert "have different tokenizers" in output
    first = {"layer": 0, "objective": "masked-lm"}
    (chance,) = found.select(quantity="mi-shuffled", against="replaced output", **first)
    (false,) = found.select(quantity="mi", against="replaced input", **first)
    assert chance.high < false.value  # no shuffle is what the model read
    curve = found.curves("mi", "input")["translation"]
    assert list(curve) == [0, 1, 2] and curve[0][0] > 0.4
    assert not list(out.rglob("*.f16"))
    other = (*FEW[:-1], 7, "--resume")
    status, _, errors = headcount("evolve", bert, marian, SAMPLE, *other, "--out", out)
    assert status == 2 and "finished run" in errors and "(clusters)" in errors
    assert Evolution.read(out).record.clusters == 6
    status, _, errors = headcount("evolve", bert, SAMPLE, *FEW, "--out", out)
    assert status == 2 and "an earlier run" in errors


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_numbers(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("evolve", bert, SAMPLE, *FEW)
    for again in ((), ("--overwrite",), ("--resume",)):  # of the same arguments
        status, _, errors = headcount(*given, "--out", tmp_path / "once", *again)
        assert status == 0, errors

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "cut"
    with monkeypatch.context() as patch:
        patch.setattr("headcount.papers.evolution.evolving.information_by_position", stop)
        assert headcount(*given, "--out", out)[0] == 130
    assert list(out.rglob("*.f16"))
    status, _, errors = headcount(*given, "--out", out, "--resume")
    assert status == 0 and "states (text)" not in errors and "states (output)" in errors
    once, resumed = (Evolution.read(tmp_path / name).frame for name in ("once", "cut"))
    assert once.equals(resumed)


@pytest.mark.parametrize(
    "given, says",
    [
        (("--occurrences", 5000), "at least 2 tokens with 5,000 occurrences"),
        (("--occurrences", 5, "--clusters", 90_000), "as many states as clusters"),
        (("--measure", "colour"), "colour"),
    ],
)
def test_bad_input_is_refused(bert: Path, tmp_path: Path, given: tuple, says: str) -> None:
    try:
        status, _, errors = headcount("evolve", bert, SAMPLE, *given, "--out", tmp_path / "out")
    except SystemExit as end:
        assert end.code == 2
        return
    assert status == 2 and says in errors


def test_clusters_with_few_states_or_none_are_counted(tmp_path: Path) -> None:
    """Positions are rotary, so what enters layer 0 of this model differs by token only."""
    out, model = tmp_path / "out", saved.llama(tmp_path / "llama")
    given = ("--occurrences", 5, "--types", 8, "--clusters", 40)
    status, _, errors = headcount("evolve", model, SAMPLE, *given, "--out", out)
    assert status == 0, errors
    found = Evolution.read(out)
    (first,) = found.select(quantity="mi-clusters", against="input", layer=0)
    warnings = " ".join(found.record.warnings)
    assert first.value == 8 and "1 state for each cluster, fewer than 100" in warnings
    assert "clusters without states: 32 of 40 at layer 0 of causal-lm-1 (input)" in warnings


def test_one_model_twice_is_refused(bert: Path, tmp_path: Path) -> None:
    status, _, errors = headcount("evolve", bert, bert, SAMPLE, *FEW, "--out", tmp_path / "out")
    assert status == 2 and "twice" in errors
    copy = shutil.copytree(bert, tmp_path / "copy")
    status, _, errors = headcount("evolve", bert, copy, SAMPLE, *FEW, "--out", tmp_path / "out")
    assert status == 2 and "copy with the same weights, which would count as two seeds" in errors
    status, _, errors = headcount("evolve", SAMPLE, "--out", tmp_path / "out")
    assert status == 2 and "models and a corpus" in errors


@pytest.mark.slow
@pytest.mark.usefixtures("one_format")
def test_every_quantity_of_two_models_and_their_figures(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_STATES", "MOST_POSITIONS"):
        monkeypatch.setattr(f"headcount.papers.evolution.pictures.{name}", 5)
    other = saved.bert(tmp_path / "other")
    model = BertForMaskedLM.from_pretrained(other)
    with torch.no_grad():
        model.cls.predictions.bias.add_(1)  # of the output: the states are the same
    model.save_pretrained(other)
    out = tmp_path / "out"
    measure = ("--measure", "distance", "neighbours", "influence", "pictures")
    few = ("--occurrences", 9, "--types", 12, "--nearest", 3, "--words", "the", ".", "--swap", 0.1)
    status, output, errors = headcount("evolve", bert, other, SAMPLE, *measure, *few, "--out", out)
    assert status == 0, errors
    found = Evolution.read(out)
    same = found.select(quantity="pwcca", against="masked-lm-2")
    assert [row.layer for row in same] == [0, 1, 2]
    assert max(abs(row.value) for row in same) < 1e-4  # the same states
    assert min(row.value for row in found.select(quantity="pwcca-shuffled")) > 0.5
    assert found.select(quantity="cka", against="next layer", seed=2)
    assert {row.against for row in found.select(quantity="neighbours")} == {
        *("token", "left", "right", "tag", "position")
    }
    layers = {
        ("neighbours", "token"): {0, 1, 2},
        ("pwcca", "next layer"): {0, 1},
        ("pwcca", "last layer"): {0, 1},
        ("pwcca", "first layer"): {1, 2},
    }
    for (quantity, against), expected in layers.items():
        for label in ("masked-lm-1", "masked-lm-2"):
            rows = [row for row in found.select(quantity=quantity, against=against)]
            assert {row.layer for row in rows if row.label == label} == expected, against
    groups = {row.against for row in found.select(quantity="change")}
    assert any(name.startswith("frequency") for name in groups)
    assert {row.quantity for row in found.rows} >= {"influence", "influence-swapped"}
    words = [point for point in found.points if point.picture == "words"]
    assert {point.token for point in words} == {"the", "."} and len(words) == 2 * 3 * 10
    positions = [point for point in found.points if point.picture == "position"]
    assert {point.token for point in positions} == {"the"}
    tags = [point for point in found.points if point.picture == "tags"]
    assert {"NOUN", "VERB", "DET"} < {point.label for point in tags} and len(tags) == 2 * 3 * 30
    names = {path.name for path in (out / "figures").iterdir()}
    assert {"pwcca-next-layer.svg", "words-masked-lm.svg", "tags-masked-lm.svg"} <= names
    title, page = "Distance to the next layer (PWCCA)", (out / "evolution.html").read_text()
    assert f">{title}</text>" in (out / "figures" / "pwcca-next-layer.svg").read_text()
    assert f"<figcaption>{title}</figcaption>" in page and f">{title}</text>" not in page
    assert page.rindex("<figcaption>") < page.index("<table"), "figures come first"
    text = (out / "evolution.md").read_text(encoding="utf-8")
    assert (
        "In a plane: the by position" in text
        and "at layer 2" in text
        and "evolution.html" in output
    )


@pytest.mark.slow
def test_models_with_different_tokenizers_get_no_distance(
    bert: Path, marian: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount(
        "evolve", bert, marian, SAMPLE, "--measure", "distance", "--out", out
    )
    assert status == 0, errors
    against = {row.against for row in Evolution.read(out).rows}
    assert against == {"next layer", "first layer", "last layer"}
    assert "no distances between them" in output
