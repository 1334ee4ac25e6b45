"""Papers on probes: documents with our numbers beside the published ones, and claims."""

from pathlib import Path

import pandas as pd
import pytest

from headcount.models import load
from headcount.probes import ProbeOptions
from headcount.reproduce import (
    clark2019_document,
    coenen2019_document,
    hewitt2019_document,
    reproduce_clark2019,
    reproduce_coenen2019,
    reproduce_hewitt2019,
)
from headcount.reproduce.probing import apart, points, verdict
from headcount.results import Probed, ProbeRecord, ProbeRow
from tests import saved
from tests.cli.conftest import SAMPLE, headcount


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    folder = tmp_path_factory.mktemp("treebanks")
    sentences = SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")
    for name, part in (("train", sentences[:14]), ("test", sentences[20:28])):
        (folder / f"{name}.conllu").write_text("\n\n".join(part) + "\n\n", encoding="utf-8")
    return [folder / "train.conllu"], [folder / "test.conllu"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.bert(tmp_path_factory.mktemp("bert"))


def probed(*rows: ProbeRow, vectors: float | None = None) -> Probed:
    record = ProbeRecord(
        signature="headcount:0|model:bert",
        model="bert",
        model_type="bert",
        probes=("attention",),
        train=("data/a.conllu",),
        test=("data/b.conllu",),
        train_sentences=1000,
        train_words=9000,
        test_sentences=200,
        test_words=1800,
        vectors="glove",
        vectors_found=vectors,
        heads=6,
        layers=2,
    )
    return Probed(rows, (), record)


def squeezed(text: str) -> str:
    """The text with single spaces, since columns of tables are padded."""
    return " ".join(text.split())


def row(probe: str, variant: str, metric: str, value: float, **more: int | str) -> ProbeRow:
    return ProbeRow(probe, variant, metric, value, value - 0.02, value + 0.02, 900, **more)  # pyright: ignore


def test_clark_says_which_claims_hold() -> None:
    rows = [
        row("attention", "offset", "uas", 0.3),
        row("attention", "trained", "uas", 0.55),
        row("words", "trained", "uas", 0.6),
        row("words", "random-init", "uas", 0.2),
        row("words", "distances", "uas", 0.59),
    ]
    text = clark2019_document(probed(*rows, vectors=0.9), None)
    assert (
        "bert (6 heads in 2 layers), trained on 1,000 sentences (9,000 words) of a.conllu" in text
    )
    assert "| attention + word vectors | 77 | 60.0 (58.0 to 62.0)" in squeezed(text)
    assert (
        "Attention maps hold much of the syntax: **holds** (attention 55.0 (53.0 to 57.0)" in text
    )
    assert "Attention says more than distances do: **does not hold**" in text
    assert "known for 90.0 % of the test words" in text


def test_clark_marks_relations_with_few_cases() -> None:
    names = "head relation direction accuracy cases baseline".split()
    rows = [
        ("enc.0.0", "det", "dependent->head", 0.7, 900, 0.5),
        ("enc.0.1", "det", "head<-dependent", 0.8, 900, 0.5),
        ("enc.0.0", "det", "head->dependent", 0.9, 900, 0.5),
        ("enc.0.0", "obj", "dependent->head", 0.6, 74, 0.5),
    ]
    text = squeezed(clark2019_document(probed(), pd.DataFrame(rows, columns=names)))
    assert "| det | det | 94.3 | 51.7 | 80.0 | 50.0 | enc.0.1 | 900 |" in text
    assert "| 60.0 | 50.0 | enc.0.0 | 74, too few |" in text


def test_coenen_asks_that_every_control_is_beaten() -> None:
    rows = [
        row("edges", variant, metric, value)
        for metric, values in (
            ("edge-accuracy", (0.8, 0.6, 0.5, 0.5)),
            ("relation-accuracy", (0.3, 0.2, 0.1, 0.29)),
        )
        for variant, value in zip(
            ("trained", "random-init", "random-labels", "majority"), values, strict=True
        )
    ]
    rows.append(row("edges", "trained", "relation-accuracy", 0.4, relation="det"))
    text = coenen2019_document(probed(*rows))
    assert "connected: **holds** (trained 80.0 (78.0 to 82.0), highest control 60.0" in text
    assert "how two words are connected: **does not hold**" in text
    assert "| det | 40.0 (38.0 to 42.0) | 900 |" in squeezed(text)


def test_hewitt_shows_layers_and_ranks() -> None:
    rows = [
        row("structure", "trained", metric, value, layer=layer, rank=64)
        for layer, value in enumerate((0.5, 0.7, 0.4))
        for metric in ("uuas", "spearman-distance", "root", "spearman-depth")
    ]
    rows += [row("structure", "trained", "uuas", 0.3, layer=1, rank=2)]
    rows += [row("structure", "random-init", "uuas", 0.45, layer=1, rank=64)]
    text = hewitt2019_document(probed(*rows))
    assert "## By hidden state, rank 64" in text and "1, random weights" in text
    assert "| 2 | 39 | 30.0 (28.0 to 32.0) | | 64 | 80 | 70.0 (68.0 to 72.0) |" in squeezed(text)
    assert "Middle layers hold most of the tree: **holds**" in text
    flat = [each for each in rows if each.rank == 64 and each.layer != 1]
    flat += [row("structure", "random-init", "uuas", 0.45, layer=0, rank=64)]
    text = hewitt2019_document(probed(*flat))
    assert "Middle layers hold most of the tree: **does not hold**" in text
    assert "## By rank" not in text


def test_sentences() -> None:
    assert points(None) == "–"
    low, high = row("a", "b", "c", 0.5), row("a", "b", "c", 0.53)
    assert not apart(high, low) and apart(row("a", "b", "c", 0.55), low)
    assert verdict(False, "Claim", "why") == "- Claim: **does not hold** (why)."


def test_papers_run_from_files_to_documents(
    bert: Path,
    files: tuple[list[Path], list[Path]],
    tmp_path: Path,
    one_format: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headcount.probes.structural_probe.EPOCHS", 1)
    loaded = load(bert)
    options = ProbeOptions(samples=20, min_cases=5)
    clark = reproduce_clark2019(loaded, files, tmp_path / "clark", options)
    assert "## Heads and relations (table 1)" in clark.read_text(encoding="utf-8")
    coenen = reproduce_coenen2019(loaded, files, tmp_path / "coenen", options)
    assert "## By relation" in coenen.read_text(encoding="utf-8")
    ranks = ProbeOptions(samples=20, ranks=(4, 2))
    hewitt = reproduce_hewitt2019(loaded, files, tmp_path / "hewitt", ranks)
    assert "## By rank (figure 5)" in hewitt.read_text(encoding="utf-8")
    assert (tmp_path / "hewitt" / "figures" / "probe_structure.svg").exists()


def test_the_command_prints_the_document(
    bert: Path,
    files: tuple[list[Path], list[Path]],
    tmp_path: Path,
    one_format: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headcount.probes.structural_probe.EPOCHS", 1)
    given = (bert, "--train", *files[0], "--test", *files[1], "--out", tmp_path / "out")
    status, output, errors = headcount("reproduce", "hewitt2019", *given, "--ranks", 3)
    assert status == 0, errors
    assert "A Structural Probe" in output and "hewitt2019.md" in output
    status, _, errors = headcount("reproduce", "coenen2019", *given, "--ranks", 3)
    assert status == 2 and "--ranks only affects hewitt2019" in errors
