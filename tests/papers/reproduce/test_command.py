"""`headcount reproduce`: a tiny model from files to the document and its figures."""

import json
import random
import re
from functools import partial
from pathlib import Path

import pytest

from headcount import speed
from headcount.papers import ContributionTable, TunedMaps, read_gates, train_pattern_classifier
from headcount.papers.reproduce import kovaleva2019, michel2019_pruning
from tests.commanding import PARALLEL, SAMPLE, headcount

pytestmark = pytest.mark.usefixtures("quick")

TEXTS = [line.split("\t")[0] for line in PARALLEL.read_text(encoding="utf-8").splitlines()]


def pairs(path: Path, seed: int) -> Path:
    chance = random.Random(seed)
    rows = [f"{a}\t{b}\t{chance.random() * 5:.2f}" for a, b in zip(TEXTS, TEXTS[1:], strict=False)]
    path.write_text("\n".join(chance.sample(rows, 20)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two sets of sentence pairs with made-up similarities; no header."""
    folder = tmp_path_factory.mktemp("pairs")
    return pairs(folder / "one.tsv", 1), pairs(folder / "other.tsv", 2)


COLUMNS = ("--task", "similarity", "--columns", "sentence1=0", "sentence2=1", "score=2")


@pytest.mark.slow
def test_michel2019(encoder: Path, data: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "michel2019", encoder, *COLUMNS, "--data", data[0], "--samples", 50)
    status, output, errors = headcount(*command, "--other-data", data[1], "--out", out)
    assert status == 0, errors
    assert "effects of single heads" in output and f"{out}/michel2019.md" in output
    text = (out / "michel2019.md").read_text(encoding="utf-8")
    assert "6 |" in text and "chosen on other data" in text and "| here " in text
    figures = {path.name for path in (out / "figures").iterdir()}
    assert {"michel2019_figure1.svg", "michel2019_figure2.pdf"} <= figures
    status, _, errors = headcount(*command, "--out", out)
    assert status == 2 and "--overwrite" in errors
    late = ("--other-data", tmp_path / "none.tsv", "--out", tmp_path / "new")
    status, _, errors = headcount(*command, *late)
    assert status == 2 and "none.tsv does not exist" in errors
    assert not (tmp_path / "new" / "heads.parquet").exists()
    voita = ("reproduce", "voita2019", encoder, *COLUMNS, "--data", data[0], "--treebank", SAMPLE)
    status, _, errors = headcount(*voita, "--out", out, "--resume")
    assert status == 2 and "by relevance in " in errors and "got one by ablation" in errors
    assert headcount(*command, "--out", out, "--overwrite")[0] == 0
    assert "No second data set was given" in (out / "michel2019.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_voita2019(encoder: Path, data: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "voita2019", encoder, *COLUMNS, "--data", data[0], "--treebank", SAMPLE)
    status, output, errors = headcount(*command, "--limit", 12, "--out", out)
    assert status == 0, errors
    assert "Positions of dependents" in output and "nsubj" in output and "66" in output
    text = (out / "voita2019.md").read_text(encoding="utf-8")
    assert "Relevance is the mean over examples, each of one step (Voita et al., 2019)." in text
    assert "12 sentences" in text and "12 examples" in text and "nsubj" in text
    figures = {path.name for path in (out / "figures").iterdir()}
    assert {"voita2019_figure1.png", "voita2019_figure3.svg"} <= figures
    assert (out / "report.html").exists()
    status, _, errors = headcount(*command, "--metric", "f1", "--out", tmp_path / "new")
    assert status == 2 and "--metric does not affect maps and relevance" in errors
    assert headcount(*command, "--limit", 12, "--out", out, "--overwrite")[0] == 0


def test_voita2019_in_languages_of_no_model(marian: Path, tmp_path: Path) -> None:
    """The analysis gets them, not only the steps after it."""
    run = ("reproduce", "voita2019", marian, "--treebank", SAMPLE, "--task", "translation")
    run += ("--data", PARALLEL, "--out", tmp_path / "out", "--languages", "en", "de")
    status, _, errors = headcount(*run)
    assert status == 2 and "knows none. Omit the option" in errors
    assert not (tmp_path / "out" / "heads.parquet").exists()


@pytest.mark.slow
def test_a_folder_of_treebanks(encoder: Path, data: tuple[Path, Path], tmp_path: Path) -> None:
    """A folder means all its CoNLL-U files; one without any is refused."""
    folder = tmp_path / "treebank"
    folder.mkdir()
    command = ("reproduce", "voita2019", encoder, *COLUMNS, "--data", data[0], "--treebank", folder)
    status, _, errors = headcount(*command, "--out", tmp_path / "out")
    assert status == 2 and "Expected a folder with .conllu files" in errors
    sentences = SAMPLE.read_text(encoding="utf-8").split("\n\n")
    for name, part in (("b", sentences[:5]), ("a", sentences[5:12])):
        text = "\n\n".join(part) + "\n\n"
        (folder / f"{name}.conllu").write_text(text, encoding="utf-8")
    status, _, errors = headcount(*command, "--out", tmp_path / "out")
    assert status == 0, errors
    run = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert run["counts"]["sentences"] == 12
    assert [Path(corpus).name for corpus in run["corpora"]] == ["a.conllu", "b.conllu"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Sentences for choosing heads, and for measuring."""
    folder = tmp_path_factory.mktemp("texts")
    for number, name in enumerate(("train", "dev")):
        part = "\n".join(TEXTS[8 * number : 8 * number + 8]) + "\n"
        (folder / f"{name}.txt").write_text(part, encoding="utf-8")
    return folder / "train.txt", folder / "dev.txt"


def pruning(paper: str, model: Path, texts: tuple[Path, Path], out: Path, *more: object):
    task = ("--task", "masked-lm", "--data", texts[0], "--dev", texts[1], "--out", out)
    return headcount("reproduce", paper, model, *task, *more)


@pytest.mark.slow
def test_voita2019_table_2(bert: Path, texts: tuple[Path, Path], tmp_path: Path) -> None:
    quick = ("--keep", 4, 2, "--tune", "updates=3", "--scratch", "updates=2")
    status, _, errors = pruning("voita2019", bert, texts, tmp_path / "out", "--table", 2, *quick)
    assert status == 0, errors
    text = (tmp_path / "out" / "voita2019_table2.md").read_text(encoding="utf-8")
    for words in (
        " 2 |",
        " 6 |",
        "from scratch",
        "14/31/30",
        "2 updates of 1,500 tokens",
        "updates, without gates",
        "mean gate between",
        "![gate_densities](figures/gate_densities.svg)",
    ):
        assert words in text, words
    assert [*(tmp_path / "out" / "state" / "trained-0").glob("coefficient-*")], "a sweep"
    gates = read_gates(tmp_path / "out")
    assert [(row.keep, row.head) for row in gates][:2] == [(4, "enc.0.0"), (4, "enc.0.1")]
    assert len(gates) == 12
    again = (*quick, "--table", 2, "--resume")
    # As if it were killed after the first point from scratch.
    (file,) = (tmp_path / "out" / "state").glob("from-scratch-*/points.json")
    state = json.loads(file.read_text())
    names = list(state["done"])
    assert [name.split()[0] for name in names] == ["scratch/0/6", "scratch/0/4", "scratch/0/2"]
    file.write_text(json.dumps({"key": state["key"], "done": {names[0]: state["done"][names[0]]}}))
    assert pruning("voita2019", bert, texts, tmp_path / "out", *again)[0] == 0
    assert (tmp_path / "out" / "voita2019_table2.md").read_text(encoding="utf-8") == text
    other = ("--keep", 4, 2, "--tune", "updates=4", "--scratch", "updates=2", "--resume")
    status, _, errors = pruning("voita2019", bert, texts, tmp_path / "out", "--table", 2, *other)
    assert status == 2 and "--resume needs the same model, data and options" in errors
    before = (tmp_path / "out" / "state" / "points.json").stat().st_mtime_ns
    longer = ("--keep", 4, 2, "--tune", "updates=3", "--scratch", "updates=3", "--resume")
    assert pruning("voita2019", bert, texts, tmp_path / "out", "--table", 2, *longer)[0] == 0
    text = (tmp_path / "out" / "voita2019_table2.md").read_text(encoding="utf-8")
    assert "3 updates of 1,500 tokens" in text
    assert (tmp_path / "out" / "state" / "points.json").stat().st_mtime_ns == before, "kept"
    once = ("--keep", 4, 2, "--tune", "updates=3", "--scratch", "updates=2", "--sweep", 0)
    assert pruning("voita2019", bert, texts, tmp_path / "once", "--table", 2, *once)[0] == 0
    assert not [*(tmp_path / "once" / "state" / "trained-0").glob("coefficient-*")]
    assert [row.keep for row in read_gates(tmp_path / "once")] == 6 * [4] + 6 * [2]
    bare = ("reproduce", "voita2019", bert, *COLUMNS, "--data", texts[0], "--out", tmp_path / "new")
    status, _, errors = headcount(*bare, "--sweep", 0)
    assert status == 2 and "--sweep only affects --table 2" in errors
    for wrong, sentence in (
        ("distilled=0.5", "has no teacher"),
        ("layerwise=1", "has no teacher"),
        ("trained=gates", "all weights"),
    ):
        quick = ("--table", 2, "--keep", 2, "--tune", "updates=9999999", "--scratch", wrong)
        status, _, errors = pruning("voita2019", bert, texts, tmp_path / "new", *quick)
        assert status == 2 and sentence in errors, "before anything is trained"
    status, _, errors = pruning(
        "voita2019", bert, texts, tmp_path / "new", "--table", 2, "--keep", 6
    )
    assert status == 2 and "Expected to keep fewer than all 6 heads, got 6" in errors
    status, _, errors = headcount(
        "reproduce",
        "voita2019",
        bert,
        *COLUMNS,
        "--data",
        texts[0],
        "--table",
        2,
        "--out",
        tmp_path / "new",
    )
    assert status == 2 and "--table 2 needs a development set" in errors
    status, _, errors = pruning("voita2019", bert, texts, tmp_path / "new")
    assert status == 2 and "only affect pruning. Add --table 2" in errors
    status, _, errors = headcount(
        "reproduce", "voita2019", bert, *COLUMNS, "--data", texts[0], "--out", tmp_path / "new"
    )
    assert status == 2 and "Expected a treebank" in errors


@pytest.mark.slow
def test_michel2019_pruning(
    bert: Path, texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(michel2019_pruning, "Options", partial(speed.Options, rounds=2))
    status, _, errors = pruning("michel2019", bert, texts, tmp_path / "out", "--prune")
    assert status == 0, errors
    text = (tmp_path / "out" / "michel2019_pruning.md").read_text(encoding="utf-8")
    for words in ("| here", "paper, WMT", "+17.5", " 64 |", "differences of the score without"):
        assert words in text, words
    cheap = ("--prune", "--quantity", "loss", "--keep", 4)
    assert pruning("michel2019", bert, texts, tmp_path / "cheap", *cheap)[0] == 0
    text = (tmp_path / "cheap" / "michel2019_pruning.md").read_text(encoding="utf-8")
    assert "differences of the loss without a head; the paper uses the score" in text
    assert (tmp_path / "out" / "figures" / "curve_score.svg").exists()


@pytest.mark.slow
def test_li2021(bert: Path, texts: tuple[Path, Path], tmp_path: Path) -> None:
    more = ("--keep", 3, "--tune", "updates=2", "gate_rate=0.3")
    status, _, errors = pruning("li2021", bert, texts, tmp_path / "out", *more)
    assert status == 0, errors
    curve = (tmp_path / "out" / "curve.md").read_text(encoding="utf-8")
    assert "subset-joint also trained the weights, 2 updates per point" in curve
    assert "subset-pipelined also trained" not in curve
    text = (tmp_path / "out" / "li2021.md").read_text(encoding="utf-8")
    for words in ("subset-pipelined", "l0", "| 3 ", "minus l0", "(all), control", "Densities"):
        assert words in text, words
    status, _, errors = pruning(
        "li2021", bert, texts, tmp_path / "new", "--keep", 3, "--tune", "trained=gates"
    )
    assert status == 2 and "Leave trained out of --tune" in errors


@pytest.mark.slow
def test_kobayashi2020(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("reproduce", "kobayashi2020", bert, SAMPLE, "--limit", 9, "--samples", 20)
    status, output, errors = headcount(*command, "--out", out)
    assert status == 0, errors
    text = (out / "kobayashi2020.md").read_text(encoding="utf-8")
    assert "96.41" in text and "18.75" in text and "9 sentences of sample.conllu" in text
    assert "enc: frequent tokens have small norms" in text
    assert len(re.findall(r": (?:holds|does not hold) \(", text)) >= 5
    found = ContributionTable.read(out)
    assert found.record.arguments["limit"] == 9
    half, one = (found.find("encoder.self", "mixing", each) for each in ("attnres-w", "attn-w"))
    assert half is not None and one is not None
    assert half.value == pytest.approx(one.value / 2)
    assert {path.stem for path in (out / "figures").iterdir()} == {"weights_and_norms", "mixing"}
    status, _, errors = headcount(*command, "--out", out)
    assert status == 2 and "--overwrite to replace it" in errors
    status, _, errors = headcount("reproduce", "kobayashi2020", bert, "--out", tmp_path / "none")
    assert status == 2 and "Expected a corpus, got nothing" in errors
    status, _, errors = headcount(*command, "--masked", 0.12, "--out", tmp_path / "masked")
    assert status == 0, errors
    text = (tmp_path / "masked" / "kobayashi2020.md").read_text(encoding="utf-8")
    assert "The model read 12 % of the tokens as its mask token." in text


@pytest.mark.slow
def test_kovaleva2019(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(train_pattern_classifier, num_maps=60, epochs=1)
    monkeypatch.setattr(kovaleva2019, "train_pattern_classifier", quick)
    out = tmp_path / "out"
    command = ("reproduce", "kovaleva2019", encoder, *COLUMNS, "--data", data[0], "--limit", 5)
    more = ("--treebank", SAMPLE, "--treebank-limit", 5, "--samples", 20, "--out", out)
    status, output, errors = headcount(*command, "--tuned", encoder, *more)
    assert status == 0, errors
    text = (out / "kovaleva2019.md").read_text(encoding="utf-8")
    assert "32 to 61" in text and "5 sentences of sample.conllu" in text
    assert "disabling some heads raises the score" in text and "| noun " in text
    found = TunedMaps.read(out)
    disabled = [row for row in found.rows if row.metric == "disabled"]
    assert len(disabled) == 6 + 2 and found.record.arguments["limit"] == 5
    assert {path.stem for path in (out / "figures").iterdir()} == {"disabled", "cosine"}
    status, _, errors = headcount(*command, "--tuned", tmp_path / "none", "--out", tmp_path / "b")
    assert status == 2 and "none, which does not exist" in errors
