"""Probes in the report and as figures: every number is shown, nothing is shown without them."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcount.core import Table, Text
from headcount.numbers import percent
from headcount.pages import document_of
from headcount.probing import Probed, ProbeRecord, ProbeRow, ProbeTree, ProbeWeight
from headcount.probing.document import probe_heads, probes_document, probes_notes
from headcount.probing.figures import PROBE_FIGURES
from tests.pages.labelled import tables_of

NAN = float("nan")


def row(
    probe: str, metric: str, value: float, variant: str = "trained", **more: object
) -> ProbeRow:
    return ProbeRow(probe, variant, metric, value, value - 0.1, value + 0.1, 120, **more)  # pyright: ignore


@pytest.fixture
def probed() -> Probed:
    rows = [
        row("attention", "uas", 0.3, "offset"),
        row("attention", "uas", 0.41, "offset", relation="nsubj"),
        row("attention", "uas", 0.6),
        row("attention", "uas", 0.71, relation="nsubj"),
        row("attention", "uas", 0.66, relation="macro"),
        row("edges", "edge-accuracy", 0.8),
        row("edges", "edge-accuracy", 0.5, "random-labels"),
    ]
    for layer in range(3):
        for metric in ("uuas", "spearman-distance", "spearman-depth", "root"):
            rows.append(row("structure", metric, 0.4 + layer / 10, layer=layer, rank=8))
        for asked in ("tag", "relation"):
            rows.append(row("layers", f"{asked}-accuracy", 0.5 + layer / 10, layer=layer))
            rows.append(
                ProbeRow("layers", "scalar-mix", f"{asked}-weight", 1 / 3, NAN, NAN, 9, layer=layer)
            )
    rows.append(row("structure", "uuas", 0.45, layer=2, rank=2))
    rows.append(row("structure", "uuas", 0.2, "random-init", layer=2, rank=8))
    rows.append(ProbeRow("layers", "scalar-mix", "tag-centre-of-gravity", 1.0, NAN, NAN, 9))
    tree = ProbeTree(
        2, ("a", "b", "<c>", "."), (1, 4, 1, 1), (True, True, True, False), ((0, 1), (0, 2))
    )
    record = ProbeRecord(
        signature="headcount:0|model:bert",
        model="bert",
        model_type="bert",
        probes=("attention",),
        train=("a.conllu",),
        test=("b.conllu",),
        train_sentences=1000,
        train_words=9000,
        test_sentences=200,
        test_words=1800,
        trees=(tree,),
    )
    weights = (ProbeWeight("enc.0.0", 1.5, -2.0, 0.25), ProbeWeight("enc.0.1", 3.0, 0.5, 0.75))
    return Probed(record, tuple(rows), weights)


def test_each_probe_that_was_trained_is_described_once(probed: Probed) -> None:
    trained = replace(probed.record, probes=("attention", "words", "structure"))
    notes = probes_notes(replace(probed, record=trained))
    assert [note.what for note in notes] == ["Attention probe", "Structural probe"]


def test_the_document_shows_every_number_over_all_relations(probed: Probed) -> None:
    blocks = probes_document(probed).blocks
    lede = blocks[0]
    assert isinstance(lede, Text) and lede.text == (
        f"One weight for each head gives {percent(0.6)} of the words their right head; the best "
        f"fixed offset gives {percent(0.3)}. Probes were trained on 1,000 sentences and measured "
        "on 200 others."
    )
    heads, first, *others = (block for block in blocks if isinstance(block, Table))
    assert heads.rows[0] == ("enc.0.1", "+3.00", "+0.50", "+0.75 nats")
    assert [(variant, share, interval) for variant, _, share, interval in first.rows] == [
        ("best fixed offset", "30.0 %", "20.0 to 40.0 %"),
        ("trained model", "60.0 %", "50.0 to 70.0 %"),
    ]
    assert [label.split(",")[0] for label in tables_of(probes_document(probed))][1:] == [
        "Probe of heads of words",
        "Probe of pairs of words",
        "Probe of trees",
        "Probe of tags and relations",
    ]
    structure = others[1].rows
    assert structure[0][0] == "trained model, hidden state 0"
    assert len(structure) == 13  # the other rank is left to the figure


def test_cards_have_the_weights_and_the_rank_of_their_head(probed: Probed) -> None:
    found = probe_heads(probed)
    assert list(found) == ["enc.0.1", "enc.0.0"]
    assert found["enc.0.0"].from_head == "−2.00" and found["enc.0.0"].rank == "2nd of 2"
    assert found["enc.0.1"].contribution == "+0.75 nats"
    assert probe_heads(None) == {}


@pytest.mark.slow
def test_every_figure_is_drawn_and_left_out_without_its_numbers(
    probed: Probed, tmp_path: Path, one_format: None
) -> None:
    document_of(probed).write(tmp_path / "probes.md", ("svg",))
    drawn = tmp_path / "figures"
    assert {path.stem for path in drawn.iterdir()} == set(PROBE_FIGURES)
    assert ">nsubj<" in (drawn / "probe_relations.svg").read_text()
    trees = (drawn / "probe_trees.svg").read_text()
    assert "hidden state 2" in trees and "&lt;c&gt;" in trees
    few = replace(probed, rows=probed.rows[:3], weights=())
    document_of(few).write(tmp_path / "probes.md", ("svg",))
    assert {path.stem for path in drawn.iterdir()} == {"probe_accuracies", "probe_relations"}
    assert "probe_trees" not in (tmp_path / "probes.md").read_text()
