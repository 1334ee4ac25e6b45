"""`headcount cache` from texts to a plan."""

import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import headcount as library
from headcount.cache import DENSE, NEEDLES, NEXT, CachePlan, PlannedCache, plan_of
from headcount.pages import document_of
from headcount.results import RANDOM
from tests import saved
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")

FEW = ("--lengths", 300, 400, "--per-length", 2, "--needles", 3, "--recent", 40)
NO_NEEDLES = ("--score", "distance")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.llama(tmp_path_factory.mktemp("llama"))


def test_plan_tables_record_and_document(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount(
        "cache", llama, *FEW, *NO_NEEDLES, "--stream", 0.75, "--out", out
    )
    assert status == 0, errors
    kept = "3 (75\u202f%) keep the first 4 and the last 40 tokens"
    said = f"Of the 4 key/value groups of {llama.name}, {kept}"
    assert said in output
    assert "finds 0\u202f% of 12 needles with its whole cache, so needles can't judge" in output
    found, plan = PlannedCache.read(out), CachePlan.read(out / "plan.json")
    assert plan == plan_of(found) and len(plan.streaming) == 3 and plan.recent == 40
    scores = {(row.layer, row.group): row.score for row in found.groups}
    (full,) = set(plan.groups) - set(plan.streaming)
    assert max(scores, key=scores.__getitem__) == full
    assert found.record.cut == max(scores[group] for group in plan.streaming)
    assert [(row.plan, row.kind) for row in found.judged if row.length is None] == [
        (plan, kind) for plan in (DENSE, "distance", RANDOM) for kind in (NEEDLES, NEXT)
    ]
    assert {row.length for row in found.judged} == {None, 300, 400}
    assert found.record.signature[:40] in output and "plan.json" in output
    advice = output.partition("in Python:\n")[2].splitlines()
    names: dict[str, Any] = {"headcount": library}
    exec(dedent("\n".join(line for line in advice if line.startswith("  "))), names)
    assert names["output"].shape[1] > 4, "what is advised runs as it is printed"
    document = (out / "cache.md").read_text()
    assert document.startswith("# Which key/value groups keep the whole cache")
    assert "In texts of 400 tokens" in document
    assert re.search(r"At [\d,]+ tokens the cache is \d+ % as large: [\d.]+ MB, not", document)
    assert document.index("What the cache takes") < document.index("What is answered")
    assert "Needles are facts hidden in texts of 300 and 400 tokens. The model" in output
    assert "| 12 x needles | distance | 0 % |" in re.sub(" +", " ", document)
    assert "| 0 | 0 |" in re.sub(" +", " ", document), "no interval of zero width"
    renamed = {"distance": "retrieval"}
    judged = tuple(replace(row, plan=renamed.get(row.plan, row.plan)) for row in found.judged)
    other = replace(found, record=replace(found.record, score="retrieval"), judged=judged)
    assert "those with the lowest scores by retrieval, up to" in document_of(other).markdown()
    worse = {"right": 0.5, "against_dense": -0.3, "against_dense_high": -0.1}
    changed = {DENSE: {"right": 0.8}, "distance": worse}
    judged = tuple(replace(row, **changed.get(row.plan, {})) for row in found.judged)
    streaming, able = sum(not row.full for row in found.groups), found.record.able
    half = streaming // 2
    advice = f"lose less: --stream {half / able:.2g} streams {half}, --stream 0.5 one fewer (2)."
    said = document_of(replace(found, judged=judged)).markdown()
    assert streaming == 3 and advice in said and "ask more needles" not in said


@pytest.mark.slow
def test_our_sample_is_enough_without_options(llama: Path, tmp_path: Path) -> None:
    """And a tokenizer without a chat template is refused."""
    out = ("--per-length", 2, "--out", tmp_path / "out")
    status, output, errors = headcount("cache", llama, *out)
    assert status == 0, errors
    said = " ".join(output.split())
    assert "texts of 994 and 1,988 tokens judge the plan" in said
    assert "those with the lowest scores by kvpress, up to " in said
    status, _, errors = headcount("cache", llama, *out, "--overwrite", "--chat")
    assert status == 2 and "Expected a tokenizer with a chat template" in errors


@pytest.mark.slow
def test_what_cannot_be_planned(llama: Path, bert: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    (tmp_path / "short.txt").write_text("One line of words.\n" * 20)
    for model, more, says in [
        (llama, (tmp_path / "none.txt",), "none.txt"),
        (llama, (tmp_path / "short.txt", *FEW, *NO_NEEDLES), "texts of at least 400 tokens to"),
        (llama, (*FEW, "--score", "both", "--scored", 150), "found none. Use --score kvpress"),
        (llama, (*FEW, "--scored", 50), "numbers of tokens from 100 in scored, got 50"),
        (llama, (*FEW, "--score", "retrieval", "--scored", 3000), "Give smaller --scored"),
        (llama, (*FEW, "--stream", 0.5, "--bytes", "60%"), "got --stream and --bytes"),
        (llama, (*FEW, "--bytes", "120%"), "between 0 and 100 %, got 120%"),
        (llama, (*FEW, "--max-drop", "much"), "a percentage such as 80%, got 'much'"),
        (llama, (*FEW, *NO_NEEDLES, "--bytes", "1%"), "with all 4 groups streaming, got 1%"),
        (llama, (*FEW, "--stream", 0), "above 0 and at most 1, got 0"),
        (llama, (*FEW[3:], *NO_NEEDLES, "--lengths", 3000), "lengths of at most 1,988 tokens"),
        (bert, (*FEW, *NO_NEEDLES), "a model without decoder.self, which keeps no keys"),
    ]:
        status, _, errors = headcount("cache", model, *more, *out)
        assert status == 2 and says in " ".join(errors.split())
        assert not (tmp_path / "out" / "cache.json").exists()
