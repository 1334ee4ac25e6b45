"""`headcount cluster` from a corpus to tables."""

from pathlib import Path

import pandas as pd

from headcount.results import read_clusters
from tests.cli.conftest import SAMPLE, headcount


def test_tables_and_a_record(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--limit", 9, "--permutations", 20, "--within", 0.2, "--out", out)
    status, output, errors = headcount("cluster", bert, SAMPLE, *options)
    assert status == 0, errors
    assert "Compared 6 heads on 9 sentences" in output and "within 0.2 nats" in output
    table = pd.read_parquet(out / "distances.parquet")
    assert list(table) == ["head_a", "head_b", "distance"] and len(table) == 15
    assert (out / "figures" / "clusters.svg").exists()
    found = read_clusters(out)
    assert found.record.model == bert.name, "without its folder"
    assert found.record.arguments["limit"] == 9 and found.record.signature in output
    status, _, errors = headcount("cluster", bert, SAMPLE, *options)
    assert status == 2 and "--overwrite to replace it" in errors
