"""`headcount analyze`: its files, how it reads data, and what it doesn't take over."""

import json
from pathlib import Path
from shutil import copytree, rmtree

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from headcount.results import PROFILE_COLUMNS
from tests.commanding import PARALLEL, SAMPLE, headcount

pytestmark = pytest.mark.usefixtures("quick")


COLUMNS = """head site layer index confidence entropy positional_offset positional_share attn_self
attn_prev attn_next attn_first attn_sep attn_punct rare_share rare2_share rare_cases value_norm
norm_first norm_sep norm_punct pattern_vertical pattern_diagonal pattern_vertical_diagonal
pattern_block pattern_heterogeneous roles tendencies""".split()


@pytest.mark.usefixtures("page")
def test_analyze_leaves_the_promised_files(bert: Path, tmp_path: Path) -> None:
    status, output, errors = headcount("analyze", bert, SAMPLE, "--out", tmp_path / "out", "--null")
    assert status == 0, errors
    out = tmp_path / "out"
    heads = pd.read_parquet(out / "heads.parquet")
    assert list(heads.columns) == COLUMNS
    names = [f"enc.{layer}.{index}" for layer in range(2) for index in range(3)]
    assert list(heads["head"]) == names
    relations = pd.read_parquet(out / "relations.parquet")
    assert list(relations.columns) == (
        "head relation direction accuracy correct cases baseline baseline_offset".split()
    )
    assert set(relations["direction"]) == {"dependent->head", "head->dependent", "head<-dependent"}
    profiles = pd.read_parquet(out / "profiles.parquet")
    assert list(profiles.columns) == [*PROFILE_COLUMNS] and set(profiles["head"]) == {*names}
    pairs = {*zip(profiles["head"], profiles["trait"], strict=True)}
    traits = {trait for head, trait in pairs if head == "enc.0.0"}
    assert pairs == {(name, trait) for name in names for trait in traits}
    positions = {"previous", "next", "self", "offset", "first", "separator", "punctuation"}
    assert positions | {"nsubj", "obj", "det"} <= traits
    low, strength, high = profiles[["low", "strength", "high"]].dropna().to_numpy().T
    assert len(low) and all(low <= strength) and all(strength <= high)
    assert {
        "null_heads.parquet",
        "null_relations.parquet",
        "offsets.parquet",
        "examples.json",
        "report.html",
        "state",
    } <= {path.name for path in out.iterdir()}
    run = json.loads((out / "run.json").read_text())
    assert run["counts"]["sentences"] == 168
    (line,) = [line for line in output.splitlines() if line.startswith(run["signature"][:40])]
    assert len(line) == 80 and line.endswith(run["signature"][-20:]), "the whole is in run.json"
    assert f"Page: {out / 'report.html'}" in output


@pytest.mark.slow
def test_analyze_reads_words_by_choice(bert: Path, tmp_path: Path) -> None:
    """The signature says how a treebank is read, and the option needs one."""
    few = ("--limit", 20, "--out")
    for folder, options, reading in (("a", (), "as-written"), ("b", ("--as-words",), "as-words")):
        status, _, errors = headcount("analyze", bert, SAMPLE, *options, *few, tmp_path / folder)
        assert status == 0, errors
        record = json.loads((tmp_path / folder / "run.json").read_text())
        assert f"|treebank:{reading}|" in record["signature"]
    again = ("analyze", bert, SAMPLE, *few, tmp_path / "b", "--resume")
    assert "--resume needs the same model, data and options" in headcount(*again)[2]
    text = tmp_path / "text.txt"
    text.write_text("The old dog.\n")
    for command in ("analyze", "cluster"):
        status, _, errors = headcount(command, bert, text, "--as-words", *few, tmp_path / command)
        assert (
            status == 2 and "Expected a treebank (.conllu) for --as-words, got text.txt" in errors
        )


@pytest.mark.slow
def test_encoder_decoder_translates_sources_without_targets(marian: Path, tmp_path: Path) -> None:
    out = tmp_path / "own"
    status, _, errors = headcount("analyze", marian, SAMPLE, "--limit", 12, "--out", out)
    assert status == 0, errors
    assert len((out / "targets.txt").read_text().splitlines()) == 12
    sites = set(pd.read_parquet(out / "heads.parquet")["site"])
    assert sites == {"encoder.self", "decoder.self", "decoder.cross"}
    assert set(pd.read_parquet(out / "relations.parquet")["head"].str[:3]) == {"enc"}
    out = tmp_path / "given"
    assert headcount("analyze", marian, PARALLEL, "--limit", 12, "--out", out)[0] == 0
    assert not (out / "targets.txt").exists() and not (out / "relations.parquet").exists()


def changed(folder: Path, other: Path) -> None:
    """A copy of a saved model with other weights."""
    copytree(folder, other)
    file = other / "model.safetensors"
    weights = {name: 1.5 * each for name, each in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})


@pytest.mark.slow
def test_translations_of_another_model_are_not_taken(marian: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    changed(marian, other)
    arguments = (SAMPLE, "--limit", 4, "--out", out)
    assert headcount("analyze", marian, *arguments)[0] == 0
    rmtree(out / "state")
    (out / "targets.txt").write_text("of who knows what\n" * 4)
    assert headcount("analyze", marian, *arguments, "--resume")[0] == 0
    assert "who knows" not in (out / "targets.txt").read_text()
    (out / "state" / "measuring-0.safetensors").unlink()
    status, _, errors = headcount("analyze", other, *arguments, "--resume")
    assert status == 2 and "state/targets.json belongs to the run" in errors.replace("\n", "")


@pytest.mark.slow
def test_scores_of_another_model_are_not_taken_over(bert: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    changed(bert, other)
    data = tmp_path / "texts.txt"
    data.write_text("The old dog barked.\nThe moon was full.\n")
    scored = ("--task", "masked-lm", "--data", data, "--methods", "norm", "--out", out)
    assert headcount("importance", bert, *scored)[0] == 0
    arguments = (SAMPLE, "--limit", 4, "--out", out, "--resume")
    status, _, errors = headcount("analyze", other, *arguments)
    assert status == 2 and "Expected an assessment of this model" in errors
    assert headcount("analyze", bert, *arguments)[0] == 0
    assert "norm_score" in pd.read_parquet(out / "heads.parquet")


@pytest.mark.slow
def test_an_evaluation_of_another_model_is_not_kept(bert: Path, tmp_path: Path) -> None:
    """Otherwise it would look like a result of the analysed model."""
    out, other = tmp_path / "out", tmp_path / "other"
    changed(bert, other)
    data = tmp_path / "texts.txt"
    data.write_text("The old dog barked.\nThe moon was full.\n")
    assert headcount("evaluate", bert, "--task", "masked-lm", "--data", data, "--out", out)[0] == 0
    arguments = (SAMPLE, "--limit", 4, "--out", out, "--resume")
    status, _, errors = headcount("analyze", other, *arguments)
    assert status == 2 and "Expected an evaluation of this model" in errors
    assert headcount("analyze", bert, *arguments)[0] == 0
    assert (out / "evaluation.json").exists()


def test_a_seed_that_nothing_would_read_is_refused(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, _, errors = headcount(
        "analyze", bert, SAMPLE, "--out", out, "--seed", 3, "--no-induction"
    )
    assert status == 2 and "--seed only affects the random-weight copy and random" in errors
    assert not out.exists()


@pytest.mark.parametrize(
    ("corpus", "text"),
    [
        ("missing.txt", "missing.txt"),
        ("broken.conllu", "broken.conllu:2"),
        ("latin.txt", "latin.txt:1"),
        ("empty.txt", "empty.txt"),
        ("table.xlsx", ".conllu"),
    ],
)
def test_bad_corpora_end_in_a_sentence(bert: Path, tmp_path: Path, corpus: str, text: str) -> None:
    (tmp_path / "broken.conllu").write_text("1\tA\ta\tDET\t_\t_\t0\troot\t_\t_\n2\tb\tNOUN\n\n")
    (tmp_path / "latin.txt").write_bytes("Straße\n".encode("latin-1"))
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "table.xlsx").write_text("x")
    status, _, errors = headcount("analyze", bert, tmp_path / corpus, "--out", tmp_path / "out")
    assert status == 2 and text in errors and "Traceback" not in errors


@pytest.mark.slow
def test_long_sentences_are_counted_or_refused(bert: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "long.txt"
    corpus.write_text("a short one\n" + "word " * 500 + "\n")
    status, output, _ = headcount("analyze", bert, corpus, "--out", tmp_path / "out")
    warning = "sentences longer than the model's limit of 64 tokens, truncated: 1 of 2"
    assert status == 0 and warning in output.replace("\n", " ")
    status, _, errors = headcount("analyze", bert, corpus, "--out", tmp_path / "strict", "--strict")
    assert status == 2 and "long.txt:2" in errors and "64" in errors


@pytest.mark.slow
def test_pairs_are_one_input(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, _, errors = headcount("analyze", bert, PARALLEL, "--pairs", "--limit", 9, "--out", out)
    assert status == 0, errors
    assert "|pairs:True|" in json.loads((out / "run.json").read_text())["signature"]
    assert not any(pd.read_parquet(out / "heads.parquet")["pattern_block"].isna().tolist())
    again = headcount("analyze", bert, PARALLEL, "--limit", 9, "--out", out, "--resume")
    assert again[0] == 2 and "pairs" in again[2]
