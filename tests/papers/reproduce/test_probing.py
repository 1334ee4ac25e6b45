"""Papers on probes: documents with our numbers beside the published ones, and claims."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from headcount.clusters import Clusters, ClustersRecord, LayerTest
from headcount.core import Block, Document, Text
from headcount.coreference import ChosenHead, Coreference, CoreferenceRecord
from headcount.models import load
from headcount.papers import (
    clark2019_document,
    coenen2019_document,
    hewitt2019_document,
    reproduce_clark2019,
)
from headcount.papers.document import apart, cell, verdict
from headcount.papers.paper_commands import ProbePaperCommand
from headcount.papers.reproduce.clark2019 import clusters_section, coreference_section
from headcount.probing import Probed, ProbeOptions, ProbeRecord, ProbeRow
from tests import saved
from tests.commanding import SAMPLE, headcount


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


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two corpora, of four and of two documents, in which a dog is named three times."""
    paths = list[Path]()
    for number in (4, 2):
        folder = tmp_path_factory.mktemp("documents")
        for name in range(number):
            words = [("The", "(1"), ("dog", "1)"), ("saw", "-"), ("it", "(2)"), ("and", "-")]
            words += [("it", "(1)"), ("saw", "-"), ("the", "(1"), ("dog", "1)"), (".", "-")]
            lines = [f"d 0 {at} {word} - {mark}" for at, (word, mark) in enumerate(words)]
            path = folder / f"{name}.conll"
            path.write_text("\n".join([f"#begin document ({name}); part 0", *lines, "", "#end"]))
            paths.append(path)
    return paths


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
    return Probed(record, rows, ())


def squeezed(text: str) -> str:
    """The text with single spaces, since columns of tables are padded."""
    return " ".join(text.split())


def part(blocks: Iterable[Block]) -> str:
    """A part of a document in Markdown."""
    return Document("", tuple(blocks)).markdown()


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
    text = clark2019_document(probed(*rows, vectors=0.9), None).markdown()
    assert (
        "bert (6 heads in 2 layers), trained on 1,000 sentences (9,000 words) of a.conllu" in text
    )
    assert "| attention + word vectors | 77 | 60.0 (58.0 to 62.0)" in squeezed(text)
    assert "Attention maps hold much of the syntax: holds (attention 55.0 (53.0 to 57.0)" in text
    assert "Attention says more than distances do: does not hold" in text
    assert "It is training that puts syntax there: holds (trained 60.0 (58.0 to" in text
    assert "Word vectors add to it: holds (with vectors 60.0 (58.0 to 62.0), without 5" in text
    assert "known for 90.0 % of the test words" in text


def test_clark_marks_relations_with_few_cases() -> None:
    names = "head relation direction accuracy cases baseline".split()
    rows = [
        ("enc.0.0", "det", "dependent->head", 0.7, 900, 0.5),
        ("enc.0.1", "det", "head<-dependent", 0.8, 900, 0.5),
        ("enc.0.0", "det", "head->dependent", 0.9, 900, 0.5),
        ("enc.0.0", "obj", "dependent->head", 0.6, 74, 0.5),
    ]
    text = squeezed(clark2019_document(probed(), pd.DataFrame(rows, columns=names)).markdown())
    assert "| det | det | 94.3 | 51.7 | 80.0 | 50.0 | enc.0.1 | 900 |" in text
    assert "| 60.0 | 50.0 | enc.0.0 | 74, too few |" in text


def coreference(best: ChosenHead, **more: int) -> Coreference:
    facts = {"windows": 5, "window": 512, "mentions": 90, "cases": 50, "out_of_reach": 3}
    facts |= {"single": 0, "too_long": 0} | more
    record = CoreferenceRecord(
        signature="s",
        model="bert",
        corpora=("a.conll", "b.conll"),
        documents=4,
        best=(best,),
        warnings=("3 were left out",),
        **facts,  # pyright: ignore
    )
    return Coreference(record, ())


def chosen(accuracy: float, head_match: float, rules: float) -> ChosenHead:
    rest = {"low": accuracy - 0.05, "high": accuracy + 0.05, "cases": 25, "nearest": 0.3}
    scores = {"accuracy": accuracy, "head_match": head_match, "rules": rules}
    return ChosenHead(kind="all", head="enc.1.1", chosen_on=0.9, **rest, **scores)  # pyright: ignore


def test_clark_compares_the_head_with_head_match_and_rules() -> None:
    text = part(coreference_section([coreference(chosen(0.7, 0.6, 0.74))]))
    assert "| all | 65 | 27 | 52 | 69 | enc.1.1 | 70.0 (65.0 to 75.0) | 30.0 | 60.0 |" in squeezed(
        text
    )
    assert "than matching head words does: holds (enc.1.1 70.0 (65.0 to 75.0)" in text
    assert "close to rules: holds" in text and "Warning: 3 were left out." in text
    below = part(coreference_section([coreference(chosen(0.7, 0.66, 0.76))]))
    assert below.count(": does not hold (") == 2
    trivial = part(coreference_section([coreference(chosen(1.0, 1.0, 1.0), single=26)]))
    assert "hold" not in trivial, "nothing to choose from"


def test_clark_says_whether_layers_cluster() -> None:
    tests = [
        LayerTest(site="encoder.self", same_layer=0.2, other_layers=0.3, p=p, permutations=99)
        for p in (0.01, 0.2)
    ]
    record = ClustersRecord(
        signature="s",
        model="bert",
        corpora=("a.conllu",),
        sentences=1234,
        queries={"encoder.self": 9},
        within=0.1,
        tests=tuple(tests),
    )
    frame = pd.DataFrame({"head_a": ["enc.0.0"], "head_b": ["enc.0.1"], "distance": [0.0456]})
    text = part(clusters_section(Clusters(record, (), frame)))
    assert "1,234 sentences of a.conllu" in text and "enc.0.0 and enc.0.1 (0.046)" in text
    assert "holds (0.200 nats within layers, 0.300 between layers, p = 0.01 in 99" in text
    assert text.count(": does not hold (") == 1


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
    rows.append(replace(rows[-1], relation="orphan", cases=3))
    text = coenen2019_document(probed(*rows)).markdown()
    assert "connected: holds (trained 80.0 (78.0 to 82.0), highest control 60.0" in text
    assert "how two words are connected: does not hold" in text
    assert "| det | 40.0 (38.0 to 42.0) | 900 |" in squeezed(text) and "orphan" not in text


def test_hewitt_shows_layers_and_ranks() -> None:
    rows = [
        row("structure", "trained", metric, value, layer=layer, rank=64)
        for layer, value in enumerate((0.5, 0.7, 0.4))
        for metric in ("uuas", "spearman-distance", "root", "spearman-depth")
    ]
    rows += [row("structure", "trained", "uuas", 0.3, layer=1, rank=2)]
    rows += [row("structure", "random-init", "uuas", 0.45, layer=1, rank=64)]
    text = hewitt2019_document(probed(*rows)).markdown()
    assert "## By hidden state, rank 64" in text and "1, random weights" in text
    assert "| 2 | 39 | 30.0 (28.0 to 32.0) | | 64 | 80 | 70.0 (68.0 to 72.0) |" in squeezed(text)
    assert "Middle layers hold most of the tree: holds" in text
    flat = [each for each in rows if each.rank == 64 and each.layer != 1]
    flat += [row("structure", "random-init", "uuas", 0.45, layer=0, rank=64)]
    text = hewitt2019_document(probed(*flat)).markdown()
    assert "Middle layers hold most of the tree: does not hold" in text
    assert "## By rank" not in text
    first = [replace(each, layer={0: 1, 1: 0, 2: 2}[each.layer or 0]) for each in rows]
    text = hewitt2019_document(probed(*(each for each in first if each.rank == 64))).markdown()
    assert "Middle layers hold most of the tree: does not hold (UUAS of hidden states 0, 0" in text


def test_sentences() -> None:
    assert cell(None) == "–"
    low, high = row("a", "b", "c", 0.5), row("a", "b", "c", 0.53)
    assert not apart(high, low) and apart(row("a", "b", "c", 0.55), low)
    assert verdict(False, "Claim", "why") == Text("Claim: does not hold (why).")


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["clark2019", "coenen2019", "hewitt2019"])
def test_papers_run_from_files_to_documents(
    paper: str,
    bert: Path,
    files: tuple[list[Path], list[Path]],
    documents: list[Path],
    tmp_path: Path,
    one_format: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headcount.probing.structural_probe.EPOCHS", 1)
    monkeypatch.setattr(
        ProbePaperCommand,
        "options",
        lambda self: ProbeOptions(probes=self.PROBES, samples=20, min_cases=5),
    )
    out = tmp_path / "out"
    given = (bert, "--train", *files[0], "--test", *files[1], "--out", out)
    more = {"clark2019": ("--coreference", *documents), "hewitt2019": ("--ranks", 4, 2)}
    status, output, errors = headcount("reproduce", paper, *given, *more.get(paper, ()))
    assert status == 0, errors
    text = (out / f"{paper}.md").read_text(encoding="utf-8")
    assert Probed.read(out).rows and not (out / "state" / "probes").exists()
    if paper == "clark2019":
        assert "## Heads and relations (table 1)" in text and "## Clusters of heads" in text
        assert text.count("documents (0.conll and others) in windows") == 2, "one for each folder"
        assert "| all | 65 | 27 | 52 | 69 | enc." in squeezed(text)
        assert "![clusters](figures/clusters.svg)" in text
        assert Clusters.read(out).record.sentences == 8
        assert Coreference.read(out).record.documents == 4
        assert Coreference.read(out / "other" / "coreference-2").record.documents == 2
    if paper == "coenen2019":
        assert "## By relation" in text
    if paper == "hewitt2019":
        assert "## By rank (figure 5)" in text
        assert (out / "figures" / "probe_structure.svg").exists()


@pytest.mark.slow
def test_clark_without_documents_is_of_relations_and_clusters(
    bert: Path, files: tuple[list[Path], list[Path]], tmp_path: Path, one_format: None
) -> None:
    options = ProbeOptions(samples=20, min_cases=5, test_limit=8)
    found = reproduce_clark2019(load(bert), probed(), files[1], tmp_path, options)
    text = found.markdown()
    assert "## Clusters of heads" in text and "## Coreference" not in text
    assert Clusters.read(tmp_path).record.sentences == 8


@pytest.mark.slow
def test_the_command_prints_the_document(
    bert: Path,
    files: tuple[list[Path], list[Path]],
    tmp_path: Path,
    one_format: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headcount.probing.structural_probe.EPOCHS", 1)
    given = (bert, "--train", *files[0], "--test", *files[1], "--out", tmp_path / "out")
    status, output, errors = headcount("reproduce", "hewitt2019", *given, "--ranks", 3)
    assert status == 0, errors
    assert "A Structural Probe" in output and "hewitt2019.md" in output
    with pytest.raises(SystemExit, match="2"):  # an option of another paper does not exist
        headcount("reproduce", "coenen2019", *given, "--ranks", 3)
