"""`headcount importance`: every task on saved tiny models, files, refusals, killed sweeps."""

import json
import random
import re
import shutil
import signal
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModel

from headcount import load
from headcount.core import is_kept
from headcount.importance import COLUMNS, SCORES
from headcount.models import Loaded
from headcount.results.sealing import record_sha256
from headcount.tap import gated
from headcount.tasks import build, evaluate
from tests import saved
from tests.cli.test_long_work import until
from tests.commanding import PARALLEL, SAMPLE, headcount
from tests.forked import Forked

pytestmark = pytest.mark.usefixtures("quick")

TEXTS = [line.split("\t")[0] for line in PARALLEL.read_text(encoding="utf-8").splitlines()]

ASKED = {column.key for each in SCORES.usable() if not each.by_default for column in each.columns()}
DEFAULT = [name for name in COLUMNS if name not in ASKED]
"""Columns of an assessment by default."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentence pairs with made-up similarities; no header."""
    chance = random.Random(3)
    rows = [f"{a}\t{b}\t{chance.random() * 5:.2f}" for a, b in zip(TEXTS, TEXTS[1:], strict=False)]
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("\n".join(rows[:40]) + "\n", encoding="utf-8")
    return path


def similarity(model: Path, pairs: Path, out: Path, *more: object) -> tuple[int, str, str]:
    columns = ("--columns", "sentence1=0", "sentence2=1", "score=2")
    task = ("--task", "similarity", "--data", pairs)
    return headcount("importance", model, *task, *columns, "--out", out, *more)


@pytest.mark.usefixtures("page")
def test_into_an_analysis(encoder: Path, pairs: Path, tmp_path: Path) -> None:
    """The analysis keeps its columns, deltas equal plain gated runs, and the report shows them."""
    out = tmp_path / "out"
    assert headcount("analyze", encoder, SAMPLE, "--limit", 9, "--out", out)[0] == 0
    before = pd.read_parquet(out / "heads.parquet")
    status, output, errors = similarity(encoder, pairs, out)
    assert status == 0, errors
    verdict = next(line for line in output.splitlines() if "of 6 heads matter" in line)
    assert output.startswith("Without enc.") and "Share of the rise without" in output
    assert "On this model" in output
    table = pd.read_parquet(out / "heads.parquet")
    pd.testing.assert_frame_equal(table.loc[:, list(before.columns)], before)
    assert list(table.columns[len(before.columns) :]) == list(DEFAULT)
    loaded = load(encoder)
    task = build("similarity", loaded, pairs, {"sentence1": 0, "sentence2": 1, "score": 2})
    base = evaluate(loaded.model, task).loss
    names = ["ablation_low", "ablation_delta", "ablation_high"]
    numbers = table[names].to_numpy(dtype=float)
    for head, (low, found, high) in zip(table["head"], numbers, strict=True):
        with gated(loaded.model, {str(head): 0.0}):
            delta = evaluate(loaded.model, task).loss - base
        assert found == pytest.approx(delta, abs=1e-6)
        assert low <= found <= high
    record = json.loads((out / "importance.json").read_text())
    assert record["loss"] == pytest.approx(base, rel=1e-5) and record["num_examples"] == 40
    assert len(record["layers"]) == 2 and "task:similarity" in record["signature"]
    report = unescape((out / "report.html").read_text(encoding="utf-8"))
    assert "What each head is worth" in report and verdict in report
    status, _, errors = similarity(encoder, pairs, out)
    assert status == 2 and "holds an earlier assessment" in errors
    sweep = out / "state" / "sweep.safetensors"
    assert similarity(encoder, tmp_path / "mistyped.tsv", out, "--overwrite")[0] == 2
    assert is_kept(sweep), "hours of work, for a slip"
    assert similarity(encoder, pairs, out, "--overwrite", "--methods", "norm", "sink")[0] == 0
    assert not is_kept(sweep)
    again = pd.read_parquet(out / "heads.parquet")
    assert list(again.columns[len(before.columns) :]) == ["norm_score", "sink_score"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["causal-lm", "translation"])
def test_other_tasks(task: str, marian: Path, tmp_path: Path) -> None:
    model, data = marian, tmp_path / "data.tsv"
    lines = PARALLEL.read_text(encoding="utf-8").splitlines()[:12]
    data.write_text("source\ttarget\n" + "\n".join(lines) + "\n", encoding="utf-8")
    if task == "causal-lm":
        model, data = saved.gpt2(tmp_path / "gpt2"), tmp_path / "data.txt"
        data.write_text("\n".join(TEXTS[:12]) + "\n", encoding="utf-8")
    more = ("--no-layers", "--samples", 50, "--out", tmp_path / "out")
    status, output, errors = headcount("importance", model, "--task", task, "--data", data, *more)
    assert status == 0, errors
    table = pd.read_parquet(tmp_path / "out" / "heads.parquet")
    assert np.isfinite(table[list(DEFAULT)].to_numpy(dtype=float)).all()
    page = tmp_path / "out" / "importance.html"
    assert f"Page: {page}" in output and not (tmp_path / "out" / "report.html").exists()
    written = page.read_text()
    assert all(name in written for name in ("What each head is worth", *table["head"]))
    page.unlink()
    assert headcount("report", page.parent)[1].startswith(f"Page: {page}\n6 figures in ")
    one, other = (re.sub(r"(?s)<svg.*?</svg>", "", text) for text in (page.read_text(), written))
    assert one == other


@pytest.mark.slow
def test_bleu_without_each_head(
    marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefix and beams are those of `evaluate`."""
    monkeypatch.setattr(Loaded, "max_length", 24)  # no translation of a random model ends by itself
    data = tmp_path / "data.tsv"
    lines = sorted(PARALLEL.read_text(encoding="utf-8").splitlines(), key=len)[:2]
    data.write_text("source\ttarget\n" + "\n".join(lines) + "\n", encoding="utf-8")
    run = (
        "importance",
        marian,
        "--task",
        "translation",
        "--data",
        data,
        "--methods",
        "ablation",
        "--quantity",
        "score",
        "--no-layers",
        "--samples",
        20,
        "--prefix",
        "so: ",
    )
    status, _, errors = headcount(*run, "--num-beams", 2, "--out", tmp_path / "out")
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "importance.json").read_text())
    assert record["metric"] == "bleu" and record["ablation"]["quantity"] == "score"
    loaded = load(marian)
    task = build("translation", loaded, data, num_beams=2, prefix="so: ")
    assert record["loss"] == pytest.approx(evaluate(loaded.model, task).loss, rel=1e-5)
    other = ("--metric", "chrf", "--against", tmp_path / "out", "--out", tmp_path / "chrf")
    status, _, errors = headcount(*run, *other)
    assert status == 2 and "(translation, chrf, zero), got others (translation, bleu" in errors


@pytest.mark.slow
def test_effects_on_texts_that_were_cut_in_another_way_are_refused(tmp_path: Path) -> None:
    run = ("importance", saved.llama(tmp_path / "llama"), "--task", "causal-lm")
    run += ("--data", PARALLEL, "--columns", "text=0", "--limit", 4, "--max-length", 9)
    run += ("--methods", "ablation", "--no-layers", "--samples", 20)
    status, _, errors = headcount(*run, "--no-start", "--out", tmp_path / "old")
    assert status == 0, errors
    assert "start:" not in json.loads((tmp_path / "old/importance.json").read_text())["signature"]
    against = ("--against", tmp_path / "old")
    status, _, errors = headcount(*run, *against, "--out", tmp_path / "new")
    assert status == 2 and "Expected the same first token of pieces (start) in both" in errors
    status, _, errors = headcount(*run, "--no-start", *against, "--out", tmp_path / "new")
    assert status == 0, errors
    file = tmp_path / "old/importance.json"
    record = json.loads(file.read_text())
    _rewrite(file, record, "kernel:sdpa", "kernel:eager")
    status, _, errors = headcount(*run, "--no-start", *against, "--out", tmp_path / "eager")
    assert status == 2 and "Expected the same kernel of attention (kernel) in both" in errors
    _rewrite(file, record, "|kernel:sdpa", "")
    status, said, _ = headcount(*run, "--no-start", *against, "--out", tmp_path / "later")
    open_part = "the kernel of attention (kernel, sdpa in these) is not"
    assert status == 0 and said.count(open_part) == 1
    warned = json.loads((tmp_path / "later/importance.json").read_text())["warnings"]
    assert sum(each.startswith(open_part) for each in warned) == 1


def _rewrite(file: Path, record: dict[str, Any], part: str, other: str) -> None:
    assert part in record["signature"]
    found = record | {"signature": record["signature"].replace(part, other)}
    file.write_text(json.dumps(found | {"sha256": record_sha256(found)}))


@pytest.mark.slow
def test_refusals(encoder: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    parallel = ("--data", PARALLEL, "--out", out)
    status, _, errors = headcount("importance", encoder, "--task", "translation", *parallel)
    assert status == 2 and "Expected an encoder-decoder for translation" in errors
    assert "Tasks that fit" in errors
    task = ("--task", "similarity", "--data", pairs, "--out", tmp_path / "b")
    status, _, errors = headcount("importance", encoder, *task, "--columns", "score")
    assert status == 2 and "ROLE=NAME" in errors
    other = saved.gpt2(tmp_path / "gpt2")
    assert headcount("analyze", other, SAMPLE, "--limit", 4, "--out", tmp_path / "c")[0] == 0
    status, _, errors = similarity(encoder, pairs, tmp_path / "c", "--methods", "sink")
    assert status == 2 and "Expected the heads of this model" in errors
    same_grid = tmp_path / "bert"
    shutil.copytree(encoder, same_grid)
    model = AutoModel.from_pretrained(encoder)
    model.get_input_embeddings().weight.data.mul_(1.1)
    model.save_pretrained(same_grid)
    assert headcount("analyze", same_grid, SAMPLE, "--limit", 4, "--out", tmp_path / "d")[0] == 0
    status, _, errors = similarity(encoder, pairs, tmp_path / "d", "--methods", "sink")
    assert status == 2 and "other parameters" in errors
    assert "sink_score" not in pd.read_parquet(tmp_path / "d" / "heads.parquet")
    against = ("--against", tmp_path / "e", "--methods", "ablation", "--no-layers")
    status, _, errors = similarity(encoder, pairs, tmp_path / "f", *against)
    assert status == 2 and "has no importance.json" in errors
    few = ("--methods", "ablation", "--no-layers", "--samples", 20)
    assert similarity(same_grid, pairs, tmp_path / "e", *few)[0] == 0
    dense = (tmp_path / "e" / "importance.json").read_text()
    (tmp_path / "e" / "importance.json").write_text(dense[:90])
    status, _, errors = similarity(encoder, pairs, tmp_path / "f", *against)
    assert status == 2 and "importance.json is damaged" in errors
    (tmp_path / "e" / "importance.json").write_text(dense)
    status, _, errors = similarity(encoder, pairs, tmp_path / "f", *against)
    assert status == 2 and "across data, not models" in errors
    status, _, errors = similarity(encoder, pairs, tmp_path / "f", *against[:3], "sink")
    assert status == 2 and "Add ablation to --methods" in errors
    for idle in (("--level", "token"), ("--quantity", "score"), ("--rules", "attnlrp")):
        status, _, errors = similarity(encoder, pairs, tmp_path / "f", "--methods", "sink", *idle)
        assert status == 2 and f"{idle[0]} only affects " in errors
        assert "or leave the option out" in errors
    unread = ("--methods", "ablation", "--score-test", "sacrebleu")
    status, _, errors = similarity(encoder, pairs, tmp_path / "f", *unread)
    assert status == 2 and "--score-test only affects changes of the score" in errors
    none = ("--methods", "ablation", "--samples", 0)
    status, _, errors = similarity(encoder, pairs, tmp_path / "f", *none)
    assert status == 2 and "Expected samples of at least 1, got 0" in errors
    assert not (tmp_path / "f" / "heads.parquet").exists()
    status, _, errors = similarity(encoder, pairs, tmp_path / "e", *against, "--overwrite")
    assert status == 2 and "Expected --against to name an assessment on other data" in errors


@pytest.mark.slow
def test_a_killed_sweep_resumes(encoder: Path, pairs: Path, tmp_path: Path) -> None:
    dense, broken = tmp_path / "whole", tmp_path / "broken"
    more = ("--methods", "ablation", "--max-tokens", 32)
    assert similarity(encoder, pairs, dense, *more)[0] == 0
    columns = ("--columns", "sentence1=0", "sentence2=1", "score=2")
    process = Forked(
        "headcount",
        "importance",
        encoder,
        "--task",
        "similarity",
        "--data",
        pairs,
        *columns,
        "--out",
        broken,
        *more,
    )
    until(lambda: is_kept(broken / "state" / "sweep.safetensors"))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (broken / "heads.parquet").exists()
    status, _, errors = similarity(encoder, pairs, broken, *more)
    assert status == 2 and "--resume" in errors
    assert similarity(encoder, pairs, broken, *more, "--resume")[0] == 0
    left, right = (pd.read_parquet(out / "heads.parquet") for out in (dense, broken))
    pd.testing.assert_frame_equal(left, right)
