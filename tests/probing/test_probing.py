"""A run of probes from files to tables: its rows, its record, and what resumes."""

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import numpy as np
import pandas as pd
import pytest

import headcount
from headcount import probing
from headcount.core import CorpusError, InputError
from headcount.models import Loaded
from headcount.probing import Probed, ProbeOptions
from tests import saved

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"
OPTIONS = ProbeOptions(
    ("attention", "words"), train_limit=12, test_limit=8, samples=30, min_cases=10
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two treebanks without a common sentence."""
    folder = tmp_path_factory.mktemp("treebanks")
    sentences = SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")
    half = len(sentences) // 2
    for name, part in (("train", sentences[:half]), ("test", sentences[half:])):
        (folder / f"{name}.conllu").write_text("\n\n".join(part) + "\n\n", encoding="utf-8")
    return folder / "train.conllu", folder / "test.conllu"


@pytest.fixture(scope="module")
def probed(loaded: Loaded, files: tuple[Path, Path]) -> Probed:
    return probing.probe(loaded, files[:1], files[1:], OPTIONS)


def test_every_probe_stands_beside_its_controls(probed: Probed) -> None:
    variants = {(row.probe, row.variant) for row in probed.rows}
    assert variants == {
        *(("attention", each) for each in ("trained", "random-init", "next-word", "offset")),
        *(("words", each) for each in ("trained", "random-init", "distances")),
    }
    for row in probed.rows:
        assert 0 <= row.low <= row.value <= row.high <= 1 or row.cases < 20
    assert len(probed.weights) == 6
    assert probed.record.train_sentences == 12 and probed.record.test_sentences == 8
    assert probed.record.vectors == "input embeddings" and probed.record.vectors_found == 1
    assert probed.record.feature_bytes > 0


def test_rows_of_a_relation_add_up(probed: Probed) -> None:
    rows = [
        row
        for row in probed.rows
        if (row.probe, row.variant, row.metric) == ("words", "trained", "uas")
    ]
    whole = rows[0]
    parts = [row for row in rows if row.relation not in ("all", "macro")]
    assert sum(row.cases for row in parts) == whole.cases
    total = sum(row.value * row.cases for row in parts) / whole.cases
    assert whole.value == pytest.approx(total)
    macro = np.mean([row.value for row in parts if row.cases >= 10])
    assert probed.find(probe="words", variant="trained", metric="uas", relation="macro") is not None
    assert rows[1].relation == "macro" and rows[1].value == pytest.approx(macro)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_and_what_is_done_is_kept(
    loaded: Loaded, files: tuple[Path, Path], probed: Probed, tmp_path: Path
) -> None:
    first = probing.probe(
        loaded, files[:1], files[1:], replace(OPTIONS, probes=("attention",)), tmp_path
    )
    rmtree(tmp_path / "state" / "probes" / "trained")
    again = probing.probe(loaded, files[:1], files[1:], OPTIONS, tmp_path)
    assert again.rows == probed.rows and again.weights == probed.weights
    assert first.rows == tuple(row for row in probed.rows if row.probe == "attention")
    with pytest.raises(InputError, match="needs the same model, data and options"):
        probing.probe(loaded, files[:1], files[1:], replace(OPTIONS, seed=1), tmp_path)


def test_tables_and_record_are_read_as_they_were_written(probed: Probed, tmp_path: Path) -> None:
    probed.write(tmp_path)
    assert Probed.read(tmp_path) == probed
    frame = pd.read_parquet(tmp_path / "probes.parquet")
    expected = "probe layer rank variant relation metric value low high cases"
    assert list(frame) == expected.split()
    (tmp_path / "probes.parquet").unlink()
    with pytest.raises(InputError, match="describes probes.parquet, which is missing"):
        Probed.read(tmp_path)


@pytest.mark.slow
def test_the_same_sentences_are_refused_unless_allowed(
    loaded: Loaded, files: tuple[Path, Path]
) -> None:
    options = replace(OPTIONS, probes=("attention",), train_limit=10, test_limit=10)
    with pytest.raises(CorpusError, match="10 of 10 are also among the training sentences"):
        probing.probe(loaded, files[:1], files[:1], options)
    allowed = probing.probe(loaded, files[:1], files[:1], replace(options, allow_overlap=True))
    assert allowed.record.overlap == 10
    assert (
        "10 of 10 test sentences are also among the training sentences" in allowed.record.warnings
    )


def test_probes_of_states_and_pairs(
    loaded: Loaded,
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("structural_probe.EPOCHS", "layer_probes.MIX_EPOCHS"):
        monkeypatch.setattr(f"headcount.probing.{name}", 1)
    options = replace(
        OPTIONS, probes=("edges", "structure", "layers"), ranks=(4, 2, 99), layers=(0, 2)
    )
    monkeypatch.setattr("headcount.probing.units.MASSIVE", 1.0)
    found = probing.probe(loaded, files[:1], files[1:], options, tmp_path)
    structure = [(row.layer, row.rank, row.variant) for row in found.rows if row.metric == "uuas"]
    best = max(
        (
            row
            for row in found.rows
            if row.metric == "uuas" and row.rank == 4 and row.variant == "trained"
        ),
        key=lambda row: row.value,
    ).layer
    assert structure == [
        (0, 4, "trained"),
        (2, 4, "trained"),
        (best, 2, "trained"),
        (best, 4, "random-init"),
    ]
    assert "ranks above the width of a hidden state were left out: 99" in found.record.warnings
    few = f"intervals from {found.record.test_sentences} test sentences are wide"
    assert any(each.startswith(few) for each in found.record.warnings) == (
        found.record.test_sentences < 8
    )
    assert any(
        "words of 2 hidden states (0, 2) have norms of up to" in each
        for each in found.record.warnings
    )
    edges = {(row.variant, row.metric) for row in found.rows if row.probe == "edges"}
    assert ("random-labels", "edge-accuracy") in edges and ("random-init", "edge-accuracy") in edges
    layers = [row.layer for row in found.rows if row.metric == "tag-accuracy"]
    assert layers == [0, 2, None]
    drawn = [(tree.layer, tree.words) for tree in found.record.trees]
    assert {layer for layer, _ in drawn} == {0, 2}, "of the trained model, at the first rank"
    assert len(drawn) == len({*drawn}), "of no other variant, at no other rank"
    found.write(tmp_path / "written")
    assert Probed.read(tmp_path / "written").record == found.record
    again = probing.probe(loaded, files[:1], files[1:], options, tmp_path)  # all units are done
    assert repr(again.rows) == repr(found.rows) and again.record.trees == found.record.trees
    asked = replace(options, probes=("structure",), ranks=(4,), layers=(0,), normalize=True)
    normalized = probing.probe(loaded, files[:1], files[1:], asked)
    assert not any("--normalize" in each for each in normalized.record.warnings)
    with pytest.raises(InputError, match="hidden states from 0 to 2 in --layers, got 7"):
        probing.probe(loaded, files[:1], files[1:], replace(options, layers=(0, 7)))
