"""`headcount prune` on saved tiny models: files, budgets, refusals."""

import json
import re
import shutil
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from huggingface_hub import ModelCard

from headcount import load, numbers
from headcount.artifact import claim_artifact, loading, verdict_lines
from headcount.artifact.card_data import front_matter
from headcount.artifact.surviving_roles import read_again
from headcount.clusters import Clusters
from headcount.core import InputError, Plan, ResumePolicy
from headcount.core.document import literal
from headcount.corpora import Corpus
from headcount.models import Loaded, check_plan, revision
from headcount.pruning.before_after import evaluate_gated
from headcount.results import Base, PruneRecord, RunRecord
from headcount.tasks import build, evaluate
from tests import saved
from tests.cli.test_long_work import wait_for
from tests.commanding import PARALLEL, SAMPLE, headcount, run
from tests.forked import Forked

pytestmark = pytest.mark.usefixtures("quick")

LAX = (
    *("--thresholds.positional-share", 0.01, "--thresholds.test-cases", 1),
    *("--thresholds.test-sentences", 2, "--thresholds.test-alpha", 1),
)
"""Thresholds by which every head is positional, on a few sentences."""


@pytest.mark.slow
def test_one_head_per_group_is_spared(bert: Path, data: list[Path], tmp_path: Path) -> None:
    clusters, out = tmp_path / "clusters", tmp_path / "out"
    found = ("--limit", 9, "--permutations", 20, "--within", 0.69, "--out", clusters)
    assert headcount("cluster", bert, SAMPLE, *found)[0] == 0
    groups = Clusters.read(clusters).groups
    assert 1 <= len(groups) < 6
    spared = ("--one-per-group", clusters, "--method", "gradient", "--no-fold", "--no-rescale")
    status, output, errors = run("prune", bert, data, out, "--keep", len(groups), *spared)
    assert status == 0, errors
    assert "chosen by gradient, one head per group spared" in output
    assert "Next: " in output and "headcount speed" in output
    assert output.startswith("Heads are ") and f"; without {6 - len(groups)}, about " in output
    kept_arguments = PruneRecord.read(out).arguments
    assert kept_arguments["keep"] == [len(groups)] and kept_arguments["fold"] is False
    kept = set(map(str, Plan.read(out / "plan.json").kept_heads(load(bert).heads)))
    assert [len(kept & set(group)) for group in groups] == [1] * len(groups)
    other = ("cluster", saved.gpt2(tmp_path / "gpt2"), SAMPLE, *found, "--overwrite")
    assert headcount(*other)[0] == 0
    status, _, errors = run("prune", bert, data, tmp_path / "no", "--keep", 2, *spared)
    assert status == 2 and "Expected groups of the heads of this model" in errors
    nothing = ("--one-per-group", tmp_path / "nothing")
    status, _, errors = run("prune", bert, data, tmp_path / "no", "--keep", 2, *nothing)
    assert status == 2 and "clusters.json" in errors


@pytest.mark.slow
def test_protected_heads_are_kept(bert: Path, data: list[Path], tmp_path: Path) -> None:
    out, quick = tmp_path / "out", ("--method", "random", "--no-fold", "--no-rescale")
    protect = ("--protect", "enc.0.1", "enc.1.2")
    status, output, errors = run("prune", bert, data, out, "--keep", 2, *quick, *protect)
    assert status == 0, errors
    assert PruneRecord.read(out).kept == ("enc.0.1", "enc.1.2") and "loses all" not in output
    card = (out / "README.md").read_text()
    assert "Protected, so kept by any method: enc.0.1, enc.1.2." in card
    one = (*quick, "--keep", 1, "--overwrite")
    status, output, errors = run("prune", bert, data, out, *one, *protect)
    assert status == 2 and "got 1. The nearest is 2; 2 heads there are protected." in errors
    status, output, errors = run("prune", bert, data, out, *one, *protect[:2])
    assert status == 0, errors
    sentence = "layer enc.1 loses all of its 3 heads. Keep a head of it with --protect"
    assert sentence in output and sentence in (out / "README.md").read_text()
    assert sentence in PruneRecord.read(out).warnings
    status, output, errors = run("prune", bert, data, out, *one, "--protect", "positional")
    assert status == 2 and "Expected heads with the role positional to protect" in errors
    assert "--analysis" in errors
    status, output, errors = run("prune", tmp_path / "no", data, out, *one, "--protect", "sinks")
    assert status == 2 and "Expected a head such as dec.17.3, a role or a skill" in errors
    curve, more = tmp_path / "curve", ("--keep", 1, 2, "--methods", "random", "--seeds", 3)
    status, _, errors = run("curve", bert, data, curve, *more, *protect[:2])
    assert status == 0, errors
    heads = pd.read_parquet(curve / "curve.parquet")["heads"].iloc[1:]
    assert len(heads) == 6 and all("enc.0.1" in kept for kept in heads)


@pytest.mark.slow
def test_roles_of_an_analysis_are_protected(bert: Path, data: list[Path], tmp_path: Path) -> None:
    out, analysis = tmp_path / "out", tmp_path / "analysis"
    assert headcount("analyze", bert, SAMPLE, *LAX, "--limit", 60, "--out", analysis)[0] == 0
    roles = RunRecord.read(analysis).roles
    kept = [head for head, each in roles.items() if "positional" in {role.role for role in each}]
    given = ("--keep", len(kept), "--protect", "positional", "--analysis", analysis)
    assert kept
    status, _, errors = run("prune", bert, data, out, *given, "--method", "random")
    assert status == 0, errors
    assert sorted(PruneRecord.read(out).kept) == sorted(kept)
    status, _, errors = run("curve", bert, data, tmp_path / "curve", *given, "--methods", "random")
    assert status == 0, errors


def test_pruned_folder(bert: Path, data: list[Path], tmp_path: Path) -> None:
    out, analysis = tmp_path / "out", tmp_path / "analysis"
    assert headcount("analyze", bert, SAMPLE, "--limit", 9, "--out", analysis)[0] == 0
    more = ("--analysis", analysis, "--corpus", SAMPLE)
    status, output, errors = run("prune", bert, data, out, "--keep", 2, *more)
    assert status == 0, errors
    chosen = re.search(r"Kept 2 of 6 heads, chosen by (\w+)\n", output)
    assert chosen and "dev: perplexity" in output and " on 8 held-out test examples" in output
    losses = dict(
        re.findall(r"(\w+) (\d+\.\d{4})", output.partition("Losses of")[2].splitlines()[0])
    )
    assert chosen[1] == min(losses, key=lambda name: float(losses[name])) and len(losses) == 4
    card = (out / "README.md").read_text()
    assert f"by {chosen[1]}, the best of some scores on this model (losses: gradient " in card
    assert "\nfolding " in output and "\nrescaling by map, folding " in output
    assert not (tmp_path / "out.state").exists()
    record, plan = json.loads((out / "prune.json").read_text()), Plan.read(out / "plan.json")
    dense, pruned = load(bert), load(out)
    assert len(plan.kept_heads(dense.heads)) == len(pruned.heads) == 2
    check_plan(plan, dense.model, dense.anatomy)
    assert {plan.head_dim} == {layer.head_dim for layer in dense.anatomy.layers}
    assert [each["data"] for each in record["comparisons"]] == [[data[1].name]] * 2
    for name, file in zip(("dev", "test"), data[1:], strict=True):
        task = build("masked-lm", pruned, file)
        found = record[name]["loss"]
        assert found["after"] == pytest.approx(evaluate(pruned.model, task).loss, rel=1e-5)
        assert found["before"] == pytest.approx(evaluate(dense.model, task).loss, rel=1e-5)
    assert [each["what"] for each in record["comparisons"]] == [
        "compact and gated",
        "reloaded and gated",
    ]
    stages = [each["stage"] for each in record["gains"]]
    assert stages[0] == "folding" and "rescaling by map, folding" in stages and len(stages) == 7
    best = min(record["gains"], key=lambda gain: gain["after"])
    kept = [gain for gain in record["gains"] if gain["kept"]]
    assert kept == ([best] if best["after"] < best["before"] else [])
    for gain in record["gains"]:
        line = f"{gain['stage']:<31} loss {gain['before']:.4f} -> {gain['after']:.4f}"
        assert line + ("  kept" if gain["kept"] else "  not kept") in output.splitlines()
    assert record["control"] is None and record["ceiling"]["value"] > 1
    head_plan = json.loads((out / "config.json").read_text())["head_plan"]
    assert head_plan["model"] == plan.model == revision(dense.model), "though folded"
    assert head_plan["sha256"] == plan.sha256
    card = (out / "README.md").read_text()
    for words in ("2 of 6 heads", "## Functions\n\nNo head", "Ceiling by FLOPs", "| control"):
        assert (words in card) == (words != "| control"), words
    gains = [numbers.change(each["after"] - each["before"]) for each in record["gains"]]
    assert all(f"{gain} |" in card for gain in gains) and set(gains) > {gains[0]}
    assert "(budget: keep 2)" in card and "sacreBLEU" not in card
    assert "= AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=True)\n" in card
    shown = card.partition("Score of every head</summary>\n\n| head")[2].partition("\n\n</details>")
    rows = [[cell.strip() for cell in line.split("|")] for line in shown[0].splitlines()[2:]]
    assert {row[1]: row[3] for row in rows} == {
        head: "pruned" if head in record["leaving"] else "kept" for head in record["scores"]
    }
    status, _, errors = run("prune", bert, data, out, "--keep", 2)
    assert status == 2 and "--overwrite" in errors
    plain = ("--no-fold", "--no-rescale", "--overwrite", "--site", "encoder.self", "--keep", 3)
    assert run("prune", bert, data, out, *plain)[0] == 0
    assert "(budget: keep 3 at encoder.self)" in (out / "README.md").read_text()
    task, plan = build("masked-lm", dense, data[1]), Plan.read(out / "plan.json")
    gated = evaluate_gated(dense, plan, task).loss_N
    np.testing.assert_allclose(evaluate(load(out).model, task).loss_N, gated, rtol=1e-4)


@pytest.mark.slow
def test_a_failed_certificate_fails_the_command(
    bert: Path, data: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the reloaded model differs, nothing is written and the choice is kept."""

    def other(folder: Path, *arguments: Any, **options: Any) -> Loaded:
        loaded = load(folder, *arguments, **options)
        with torch.no_grad():
            next(loaded.model.parameters()).mul_(1.5)
        return loaded

    monkeypatch.setattr("headcount.artifact.making.load", other)
    status, _, errors = run("prune", bert, data, tmp_path / "out", "--keep", 2)
    assert status == 2 and "Expected reloaded and gated to differ by at most 0.001" in errors
    assert "try prune --no-rescale" in errors
    assert not (tmp_path / "out").exists() and (tmp_path / "out.state" / "plan.json").exists()
    monkeypatch.undo()
    assert run("prune", bert, data, tmp_path / "out", "--keep", 2, "--resume")[0] == 0


@pytest.mark.slow
def test_data_sets_that_share_examples_are_reported(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    same = [data[0], data[1], data[0]]
    status, output, _ = run("prune", bert, same, tmp_path / "out", "--keep", 2)
    assert status == 0 and "warning: " in output and "--test" in output
    record = json.loads((tmp_path / "out" / "prune.json").read_text())
    assert any("--data" in warning and "--test" in warning for warning in record["warnings"])


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["michel2019", "li2021", "voita2019"])
def test_presets(preset: str, bert: Path, data: list[Path], tmp_path: Path) -> None:
    """A paper's method from end to end: nothing is folded or rescaled."""
    fast = ("--method.tuning.updates", 2, "--method.tuning.batch-tokens", 60)
    quick = () if preset == "michel2019" else fast
    status, _, errors = run(
        "prune", bert, data, tmp_path / "out", "--preset", preset, "--keep", 2, *quick
    )
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "prune.json").read_text())
    assert record["gains"] == [] and len(record["staying"]) == 2
    method, why = {
        "michel2019": ("gradient", "gradient scored each head"),
        "li2021": ("subset", "what subset had learned about it"),
        "voita2019": ("l0", "log a of its gate after"),
    }[preset]
    card = (tmp_path / "out" / "README.md").read_text()
    assert record["method"] == method and why in card
    set_too = "" if preset == "michel2019" else ", tuning.batch_tokens=60, tuning.updates=2"
    assert f"(budget: keep 2), with preset {preset}{set_too}. In the lines above" in card
    assert ("after training with gates, with" in card) == (preset != "michel2019")
    assert ("updates, on the same data.\n" in card) == (preset != "michel2019")
    assert (record["swept"] is None) == (preset != "voita2019")
    assert (record["control"] is None) == (preset == "michel2019")
    assert (record["history"] is None) == (preset == "michel2019")


@pytest.mark.slow
def test_a_latency(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """With an hour, all heads can be kept; with a nanosecond, not even none."""
    more = ("--method", "norm", "--no-fold", "--no-rescale")
    status, _, errors = run("prune", bert, data, tmp_path / "out", "--latency", 3.6e6, *more)
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "prune.json").read_text())
    assert record["keep"] == 6 and 0 < min(record["tried"].values()) < 3.6e6
    assert record["within_limit"] == {"latency": True} and 0 < record["latency_ms"] < 3.6e6
    status, _, errors = run("prune", bert, data, tmp_path / "new", "--latency", 1e-6, *more)
    assert status == 2 and "Expected a latency in ms of at most 1e-06, got" in errors


@pytest.mark.slow
def test_a_share_of_the_cache(tmp_path: Path) -> None:
    """And its control after recovery, on texts of a second source, too."""
    llama, out = saved.llama(tmp_path / "llama"), tmp_path / "out"
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"A lamp stood by window {n}.\n" for n in range(9)))
    asked = ("--task", "causal-lm", "--data", PARALLEL, "--dev", PARALLEL, "--test", other)
    asked += ("--columns", "text=0", "--max-length", 9, "--recover", 2)
    asked += ("--limit", 6, "--method", "fisher", "--no-fold", "--no-rescale")
    asked += ("--keep-cache", "80%", "--out", out)
    status, _, errors = headcount("prune", llama, *asked)
    assert status == 0, errors
    record = json.loads((out / "prune.json").read_text())
    assert record["limit"] == {"cache": 0.8} and record["keep"] == 6
    dense, pruned = (record["cache"][each][0]["bytes_per_token"] for each in ("dense", "pruned"))
    assert pruned == 0.75 * dense
    assert "cache 0.8" in (out / "README.md").read_text()
    pruned, control = record["test"], record["control"]["test"]
    assert control["pruned"]["score"]["after"] == pruned["score"]["after"]


@pytest.mark.slow
def test_functions_by_the_analysis_own_thresholds(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    """The pruned model is analysed like the dense one; another corpus is refused at once."""
    analysis, limits = tmp_path / "analysis", LAX
    status, _, errors = headcount(
        "analyze", bert, SAMPLE, "--limit", 60, "--out", analysis, *limits
    )
    assert status == 0, errors
    more = ("--keep", 2, "--no-fold", "--no-rescale", "--analysis", analysis, "--corpus")
    status, _, errors = run("prune", bert, data, tmp_path / "out", *more, SAMPLE)
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "prune.json").read_text())
    positional = next(each for each in record["functions"] if each["role"] == "positional")
    assert positional["before"] == 6 and positional["kept"] == record["staying"]
    assert positional["taken_over"] == []
    status, _, errors = run("prune", bert, data, tmp_path / "new", *more, data[0])
    assert (
        status == 2 and "Expected the corpus of the analysis in" in errors and SAMPLE.name in errors
    )


@pytest.mark.slow
def test_an_analysis_of_a_pair_of_files_is_read_again(marian: Path, tmp_path: Path) -> None:
    """Trees and targets count; sources alone are another corpus."""
    pair = (SAMPLE, SAMPLE.with_suffix(".de"))
    sides = ("--source", pair[0], "--target", pair[1])
    status, _, errors = headcount("analyze", marian, *sides, "--limit", 5, "--out", tmp_path / "a")
    assert status == 0, errors
    loaded = load(marian)
    again = read_again(tmp_path / "a", pair, loaded)
    assert list(again[0]) == list(Corpus(source=pair[0], target=pair[1], limit=5))
    with pytest.raises(InputError, match=f"got {SAMPLE}. Name the files {SAMPLE.name} sample.de"):
        read_again(tmp_path / "a", pair[:1], loaded)


@pytest.mark.slow
def test_an_analysis_of_pairs_is_read_again(bert: Path, tmp_path: Path) -> None:
    run = ("analyze", bert, PARALLEL, "--pairs", "--limit", 5, "--out", tmp_path / "a")
    assert headcount(*run)[0] == 0
    again = read_again(tmp_path / "a", [PARALLEL], load(bert))
    assert list(again[0]) == list(Corpus(PARALLEL, limit=5, pairs=True))


@pytest.mark.slow
def test_an_analysis_by_other_frequencies_is_refused(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    """It is refused before anything is chosen: rare heads would be counted in two ways."""
    analysis, counts = tmp_path / "analysis", tmp_path / "counts.txt"
    counts.write_text("dog 3\nmoon 2\n")
    more = ("--limit", 5, "--frequencies", counts, "--out", analysis)
    assert headcount("analyze", bert, SAMPLE, *more)[0] == 0
    again = read_again(analysis, [SAMPLE], load(bert))
    assert again[1].frequencies == counts
    counts.write_text("dog 2\nmoon 3\n")
    more = ("--keep", 2, "--analysis", analysis, "--corpus", SAMPLE)
    status, _, errors = run("prune", bert, data, tmp_path / "out", *more)
    assert status == 2 and "got others, " in errors
    counts.unlink()
    status, _, errors = run("prune", bert, data, tmp_path / "new", *more)
    assert status == 2 and "counts.txt" in errors


@pytest.mark.slow
def test_functions_where_no_head_is_left(bert: Path, data: list[Path], tmp_path: Path) -> None:
    analysis, limits = tmp_path / "analysis", LAX
    assert headcount("analyze", bert, SAMPLE, "--limit", 30, "--out", analysis, *limits)[0] == 0
    more = ("--keep", 0, "--no-fold", "--no-rescale", "--analysis", analysis, "--corpus", SAMPLE)
    status, _, errors = run("prune", bert, data, tmp_path / "out", *more)
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "prune.json").read_text())
    assert record["functions"] and not any(
        each["kept"] or each["taken_over"] for each in record["functions"]
    )


@pytest.mark.slow
def test_recovery_has_a_control(bert: Path, data: list[Path], tmp_path: Path) -> None:
    tune = ("--tune", "warmup=0", "distilled=0.5", "layerwise=3")
    more = ("--share", 0.5, "--recover", 2, *tune, "--method", "random")
    status, output, errors = run("prune", bert, data, tmp_path / "out", *more)
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "prune.json").read_text())
    control = record["control"]
    assert "; control " in output and "(against it: " in output
    (training,) = control["trainings"]
    assert training["updates"] == 2
    for name in ("dev", "test"):
        ends = {"before": control[name]["loss"]["after"], "after": record[name]["loss"]["after"]}
        assert control[name]["pruned"]["loss"] == ends
        assert f"; control {control[name]['score']['after']:.4g} (against it: " in output
    assert training["distilled"] == training["layerwise"] == 0, "it would be its own teacher"
    assert record["gains"][-1]["stage"] == "recovery" and len(record["gains"]) == 8
    assert len(record["staying"]) == 3 and record["limit"] == {"share": 0.5}
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| control: loss" in card and "| from control to pruned: loss" in card
    assert "but without the pruned model's teacher" in card
    more = (*more, "--control-taught")
    status, _, errors = run("prune", bert, data, tmp_path / "taught", *more)
    assert status == 0, errors
    (training,) = json.loads((tmp_path / "taught" / "prune.json").read_text())["control"][
        "trainings"
    ]
    assert (training["distilled"], training["layerwise"], training["taught"]) == (0.5, 3, True)
    card = (tmp_path / "taught" / "README.md").read_text()
    assert "on the same data and with the same teacher, the dense model itself." in card
    status, _, errors = run("prune", bert, data, tmp_path / "none", "--keep", 3, "--control-taught")
    assert status == 2 and "leave --control-taught out" in errors


@pytest.mark.slow
def test_a_budget_for_each_site(marian: Path, tmp_path: Path) -> None:
    budgets = ("--site", "decoder.self", "encoder.self", "--keep", 1, 3)
    plain = ("--method", "norm", "--no-fold", "--no-rescale", "--no-control", "--num-beams", 1)
    given = ("--task", "translation", "--data", PARALLEL, "--dev", PARALLEL, "--limit", 4)
    out = tmp_path / "out"
    status, _, errors = headcount("prune", marian, *given, *budgets, *plain, "--out", out)
    assert status == 0, errors
    kept = Counter(head.partition(".")[0] for head in PruneRecord.read(out).kept)
    assert (kept["dec"], kept["enc"]) == (1, 3)


@pytest.mark.slow
def test_largest_drop(bert: Path, data: list[Path], tmp_path: Path) -> None:
    more = ("--method", "norm", "--no-fold", "--no-rescale", "--max-drop", 1e9)
    status, output, _ = run("prune", bert, data, tmp_path / "all", *more)
    assert status == 0
    warned = [line for line in output.splitlines() if line.startswith("warning: ")]
    intervals = ["intervals and p-values from" in line for line in warned]
    assert sum(intervals) == 2 and "enc.0 loses all of its 3 heads" in output
    card = (tmp_path / "all" / "README.md").read_text()
    assert card.count("These examples chose the number of heads, so these numbers are") == 1
    record = json.loads((tmp_path / "all" / "prune.json").read_text())
    assert record["keep"] == 0 and record["within_limit"] == {"dev": True, "test": True}
    assert set(record["tried"]) > {"6", "0"}


@pytest.mark.slow
def test_the_card_tells_of_a_drop_that_nothing_confirmed(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    """Without --test the drop is confirmed on no other data, and the card says so."""
    more = ("--method", "norm", "--no-fold", "--no-rescale", "--max-drop", 1e9)
    files = ("--task", "masked-lm", "--data", data[0], "--dev", data[1], "--out", tmp_path / "out")
    status, output, errors = headcount("prune", bert, *files, *more)
    assert status == 0, errors
    sentence = "no --test was given, so the drop holds only for the data it was searched on"
    assert output.count(sentence) == 1
    assert f"Warning: {sentence}." in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            ("--keep", 7),
            "at most 6 heads to keep, since",
        ),
        ((), "Expected a budget out of --keep"),
        (("--keep", 2, "--preset", "michel2019", "--no-fold"), "A preset folds and rescales noth"),
        (("--keep", 2, "--recover", 3, "--tune", "gate_rate=1"), "has no gates to learn"),
        (("--keep", 2, 3), "Expected one number for --keep, or one for each --site"),
        (("--keep", 2, "--method", "best"), "Expected a method out of gradient"),
        (("--keep", 2, "--preset", "michel2019", "--method", "norm"), "one of --method and --pre"),
        (("--keep", 2, "--tune", "peak=1"), "--tune only affects recovery training"),
        (("--keep", 2, "--recover", 3, "--tune", "updates=5"), "Leave updates out"),
        (("--keep", 2, "--recover", -1), "Expected --recover of at least 0 updates, got -1"),
        (("--keep", 2, "--site", "decoder.self"), "Expected a site of the model"),
        (("--keep", 2, 2, "--site", *["encoder.self"] * 2), "Expected every --site once"),
        (
            ("--keep", 2, "--method", "l0", "--method.falling", 0),
            "Expected a number above 0 and at most 1 for falling",
        ),
        (("--keep", 2, "--method", "subset", "--method.cold", 0), "with 0 < cold <= hot"),
        (("--max-drop", -1e9), "Raise the limit"),
        (("--keep", 2, "--calibration", 0), "Expected calibration of at least 1, got 0"),
        (
            ("--keep", 2, "--calibration", 9, "--preset", "li2021"),
            "--calibration only affects scores of heads",
        ),
        (
            ("--keep", 2, "--calibration", 9, "--method", "random", "--no-fold", "--no-rescale"),
            "--calibration only affects scores of heads",
        ),
        (("--keep", 2, "--seed", -1), "Expected a seed of at least 0, got -1"),
    ],
)
def test_refusals(bert: Path, data: list[Path], tmp_path: Path, more: tuple, sentence: str) -> None:
    status, _, errors = run("prune", bert, data, tmp_path / "out", *more)
    assert status == 2 and sentence in errors
    assert not (tmp_path / "out").exists()


def test_not_into_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is the working directory, which can't be replaced"):
        claim_artifact(Path(), ResumePolicy.REFUSE)
    claim_artifact(Path("new"), ResumePolicy.REFUSE)
    assert [path.name for path in tmp_path.iterdir()] == ["new.state"]


@pytest.mark.slow
def test_interrupted_runs_are_not_mixed(bert: Path, data: list[Path], tmp_path: Path) -> None:
    claim_artifact(tmp_path / "out", ResumePolicy.REFUSE)
    claim_artifact(tmp_path / "out", ResumePolicy.REFUSE)  # nothing was begun
    (tmp_path / "out.state" / "plan.json").touch()
    status, _, errors = run("prune", bert, data, tmp_path / "out", "--keep", 2)
    assert status == 2 and "holds an interrupted run. Give --resume" in errors
    assert run("prune", bert, data, tmp_path / "out", "--keep", 2, "--resume")[0] == 0
    claim_artifact(tmp_path / "out", ResumePolicy.OVERWRITE)
    (tmp_path / "out.state" / "plan.json").touch()
    status, _, errors = run("prune", bert, data, tmp_path / "out", "--keep", 2, "--resume")
    assert status == 0, f"it was started to overwrite: {errors}"


def test_a_resumed_run_replaces_no_model_that_came_later(tmp_path: Path) -> None:
    claim_artifact(tmp_path / "out", ResumePolicy.REFUSE)
    (tmp_path / "out.state" / "plan.json").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_text('{"head_plan": {}}')
    with pytest.raises(InputError, match="Add --overwrite instead of --resume to replace it"):
        claim_artifact(tmp_path / "out", ResumePolicy.RESUME)


@pytest.mark.slow
def test_what_is_not_ours_is_not_replaced(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """Inputs in the folder survive, and so does a neighbour with the name of the state."""
    out = tmp_path / "out"
    assert headcount("analyze", bert, SAMPLE, "--limit", 3, "--out", out / "analysis")[0] == 0
    more = ("--keep", 2, "--analysis", out / "analysis", "--overwrite")
    status, _, errors = run("prune", bert, data, out, *more)
    assert status == 2 and f"This run reads {out / 'analysis'}, but" in errors
    status, _, errors = run("prune", bert, data, out, *more, "--corpus", out / "analysis/run.json")
    assert status == 2 and "run.json: expected a .tsv, .csv" in errors
    (tmp_path / "new.state").mkdir()
    (tmp_path / "new.state" / "thesis.txt").touch()
    for how in ((), ("--overwrite",), ("--resume",)):
        status, _, errors = run("prune", bert, data, tmp_path / "new", "--keep", 2, *how)
        assert status == 2 and "holds something else. Name another folder" in errors
    assert (tmp_path / "new.state" / "thesis.txt").exists()


@pytest.mark.slow
def test_a_damaged_analysis_is_reported(bert: Path, data: list[Path], tmp_path: Path) -> None:
    analysis = tmp_path / "analysis"
    assert headcount("analyze", bert, SAMPLE, "--limit", 3, "--out", analysis)[0] == 0
    more = ("--keep", 2, "--analysis", analysis)
    for name in ("run.json", "heads.parquet"):
        dense = (analysis / name).read_bytes()
        (analysis / name).write_bytes(dense[: len(dense) // 2])
        for command in ("prune", "curve"):
            status, _, errors = run(command, bert, data, tmp_path / command, *more)
            what = "{} is damaged" if name == "run.json" else "Expected a table in parquet in {}"
            assert status == 2 and what.format(analysis / name) in errors, errors
        (analysis / name).write_bytes(dense)


@pytest.mark.slow
def test_killed_and_resumed(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """A kill during gate training leaves no folder; a resumed run equals an unbroken one."""
    files = ("--data", data[0], "--dev", data[1])
    fields = {"updates": 25, "save-every": 5, "warmup": 0, "batch-tokens": 60}
    tuned = [word for name, each in fields.items() for word in (f"--method.tuning.{name}", each)]
    gates = ("--method", "l0", *tuned)
    more = ("--keep", 3, "--no-control", "--recover", 3, "--tune", "warmup=0")
    arguments = ("prune", bert, "--task", "masked-lm", *files, *gates, *more)
    dense, broken = tmp_path / "whole", tmp_path / "broken"
    assert headcount(*arguments, "--out", dense)[0] == 0
    process = Forked("headcount", *arguments, "--out", broken)
    wait_for(tmp_path / "broken.state" / "all-3" / "checkpoints" / "checkpoint-10" / "whole")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not broken.exists()
    status, _, errors = headcount(*arguments, "--out", broken, "--resume")
    assert status == 0 and "gates  5/25" not in errors, errors
    assert not (tmp_path / "broken.state").exists()
    assert (broken / "plan.json").read_text() == (dense / "plan.json").read_text()
    weights = [load(folder).model.state_dict() for folder in (dense, broken)]
    assert all(torch.equal(weights[1][name], weight) for name, weight in weights[0].items())


@pytest.mark.slow
def test_a_size_and_a_drop(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """Terminal, card and record say how small, fast and good the model is, and that it is equal."""
    out, quick = tmp_path / "out", ("--method", "random", "--no-fold", "--no-rescale")
    budget = ("--size", "97%", "--max-drop", "90%", "--batch", 2, "--length", 7)
    status, output, errors = run("prune", bert, data, out, *budget, *quick)
    assert status == 0, errors
    record = PruneRecord.read(out)
    assert record.choice is not None and record.size is not None and record.speed is not None
    assert record.choice.limit == {"size": 0.97, "max_drop": "90%"}
    assert record.size.share <= 0.97 and record.pipeline is not None
    assert record.pipeline.within_limit == {"size": True, "dev": True, "test": True}
    (case,) = record.speed.cases
    assert (case.batch, case.length) == (2, 7)
    card = (out / "README.md").read_text()
    for word, text in verdict_lines(record):
        assert f"{word}: {text}\n" in output
        assert f"| {word} " in card and literal(text) in card
    words = [word for word, _ in verdict_lines(record)]
    assert words[0] == "Smaller" and words[-1] == "Checked" and len(words) == 4
    assert loading(record) in card and f"Load it: {loading(record)}\n" in output
    page = (out / "report.html").read_text()
    assert all(f"<dt>{word}</dt>" in page for word in words)
    (out / "report.html").unlink()
    assert headcount("report", out)[0] == 0
    assert (out / "report.html").read_text() == page and (out / "README.md").read_text() == card
    assert "held-out" in output and "(budget: size 0.97, max drop 90%)" in card


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (("--speedup", 1.2, "--no-speed"), "Leave --no-speed out."),
        (("--size", "small"), "Expected a number or a percentage such as 80%, got 'small'"),
        (("--keep", 3, "--length", 0), "Expected length of at least 1, got 0"),
        (("--size", "1%"), "Ask for less (--size)."),
    ],
)
def test_budgets_that_are_refused(
    given: tuple[object, ...], reported: str, bert: Path, data: list[Path], tmp_path: Path
) -> None:
    status, _, errors = run("prune", bert, data, tmp_path / "out", *given)
    assert status == 2 and reported in errors


@pytest.mark.slow
def test_the_hub_reads_the_card(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """Its scores, and the licence of the model that it was made from."""
    dense, out = tmp_path / "dense", tmp_path / "out"
    shutil.copytree(bert, dense)
    (dense / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# A model\n")
    more = ("--keep", 4, "--method", "random", "--no-fold", "--no-rescale", "--no-speed")
    status, _, errors = run("prune", dense, data, out, *more)
    assert status == 0, errors
    card, record = ModelCard.load(out / "README.md"), PruneRecord.read(out)
    assert card.data["license"] == "cc-by-4.0" and card.data.get("base_model") is None
    assert card.text.strip().startswith("# dense, 4 of 6 heads kept")
    (result,) = card.data["eval_results"]
    assert (result.task_type, result.metric_type) == ("fill-mask", "perplexity")
    assert result.dataset_name == data[2].name and record.speed is None
    assert result.metric_value == pytest.approx(record.data_sets["test"].score.after)
    ofhub = replace(record, base=Base("owner/model", "mit"))
    assert "base_model: owner/model\n" in front_matter(ofhub)
