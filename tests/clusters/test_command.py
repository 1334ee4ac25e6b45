"""`headcount cluster` from a corpus to tables."""

from pathlib import Path

import pandas as pd
import pytest

from headcount.clusters import Clusters
from tests import saved
from tests.commanding import SAMPLE, headcount

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
def test_tables_and_a_record(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--limit", 9, "--permutations", 20, "--within", 0.2, "--out", out)
    status, output, errors = headcount("cluster", bert, SAMPLE, *options)
    assert status == 0, errors
    assert "6 heads on 9 sentences" in output and "Within 0.2 nats" in output
    table = pd.read_parquet(out / "distances.parquet")
    assert list(table) == ["head_a", "head_b", "distance"] and len(table) == 15
    assert (out / "figures" / "clusters.svg").exists()
    found = Clusters.read(out)
    assert found.record.model == bert.name, "without its folder"
    assert found.record.arguments["limit"] == 9 and found.record.signature[:40] in output
    status, _, errors = headcount("cluster", bert, SAMPLE, *options)
    assert status == 2 and "Give --overwrite to replace it" in errors


@pytest.mark.slow
def test_beside_an_analysis_the_report_rewrites_everything(bert: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", saved.gpt2(tmp_path / "gpt2")
    status, _, errors = headcount("analyze", bert, SAMPLE, "--limit", 9, "--out", out)
    assert status == 0, errors
    options = (SAMPLE, "--limit", 5, "--permutations", 9, "--out", out)
    status, _, errors = headcount("cluster", other, *options)
    assert status == 2 and "Name the folder of this model's analysis, or a new one." in errors
    corpus = tmp_path / "a.conll"
    corpus.write_text("#begin document (d)\nd 0 0 It PRP (1)\nd 0 1 it PRP (1)\n#end document\n")
    status, _, errors = headcount("coreference", other, corpus, "--out", out)
    assert status == 2 and "Name the folder of this model's analysis, or a new one." in errors
    status, output, errors = headcount("cluster", bert, *options)
    assert status == 0, errors
    document = out / "clusters.md"
    assert f"Page: {out / 'clusters.html'}" in output
    written = document.read_text(encoding="utf-8")
    assert "](figures/clusters.svg)" in written and "](figures/distances.svg)" in written
    for path in (document, out / "figures" / "clusters.svg", out / "report.html"):
        path.unlink()
    status, output, errors = headcount("report", out, "--formats", "svg")
    assert status == 0, errors
    assert f"Page: {out / 'clusters.html'}" in output and (out / "report.html").exists()
    assert document.read_text(encoding="utf-8") == written
    assert (out / "figures" / "clusters.svg").exists()
    status, _, errors = headcount("analyze", bert, SAMPLE, "--limit", 9, "--out", out)
    assert status == 2 and "--overwrite to replace it" in errors


@pytest.mark.slow
def test_a_folder_of_its_own_has_no_report(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = (bert, SAMPLE, "--limit", 5, "--permutations", 9, "--out", out)
    status, _, errors = headcount("cluster", *given)
    assert status == 0, errors
    status, output, errors = headcount("report", out, "--formats", "svg")
    assert status == 0 and "Page:" in output, errors
    assert not (out / "report.html").exists()
    (out / "notes.txt").write_text("mine")
    status, _, errors = headcount("cluster", *given, "--overwrite")
    assert status == 2 and "neither clusters nor an analysis write (notes.txt)" in errors
