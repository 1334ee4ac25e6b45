"""`headcount sensitivity` from data to tables."""

from pathlib import Path

import pandas as pd
import pytest

from headcount.importance import KINDS, Sensitivity
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
def test_table_record_and_figure(bert: Path, data: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--task", "masked-lm", "--data", data[0], "--samples", 20, "--out", out)
    status, output, errors = headcount("sensitivity", bert, *options)
    assert status == 0, errors
    assert "masked-lm: 8 examples" in output and "|dL/dA|, other" in output
    assert "Encoder self-attention, separator: over 6 heads, attention correlates" in output
    rows = [line.split()[0] for line in output.splitlines() if line.startswith("enc.")]
    assert rows == ["enc.0", "enc.1"]
    table = pd.read_parquet(out / "sensitivity.parquet")
    assert len(table) == 2 * (1 + 3) * len(KINDS) * 3
    assert (out / "figures" / "sensitivity.svg").exists()
    found = Sensitivity.read(out)
    assert found.record.arguments["samples"] == 20 and found.record.signature[:40] in output
    pd.testing.assert_frame_equal(found.frame, table)
    status, _, errors = headcount("sensitivity", bert, *options)
    assert status == 2 and "--overwrite to replace it" in errors and "--resume" not in errors
    status, output, errors = headcount("sensitivity", bert, *options, "--overwrite")
    assert status == 0, errors
